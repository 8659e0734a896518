"""Dual MCTS: a small tree, grown by an early head, guides the evaluations of a large tree."""

import dataclasses
from typing import Any, Self

import mctx
from jax import Array

from dualmctx.checks import check_count
from dualmctx.policies.call_checks import checked_init, composed
from dualmctx.policies.multi_tree import (
    SeveralTrees,
    check_budgets,
    check_rounds,
    init_multi_tree,
)
from dualmctx.policies.named_options import with_options
from dualmctx.policies.option_groups import Backup, Execution, Puct, Root
from dualmctx.policies.top_actions import Inputs
from dualmctx.search.phases import SearchState
from dualmctx.search.rounds import Rounds, even_rounds
from dualmctx.search.tree import Tree
from dualmctx.types import Params, RecurrentFn, RefineFn, Traits


@dataclasses.dataclass(frozen=True)
class Dual(SeveralTrees):
    """The search of Dual MCTS; called like a policy of mctx, with an additional `refine_fn`.

    The small tree T_sub is tree 0, which `recurrent_fn` evaluates by the intermediate head. The
    large tree T_full is tree 1, which `refine_fn` evaluates by the final head. The output of the
    final head is always mixed with that of the intermediate head for the same state.

    Raises:
      ValueError: if an option is out of range, or if options conflict.

    Source: Kadam, Xu, Lieberherr 2021 (arXiv 2103.11517), section 3. `dualmctx/README.md` lists our
    readings where the paper is silent or contradicts itself.
    """

    num_simulations: tuple[int, int] = (50, 35)
    """Simulations per search in each tree, b_sub and b_full, not counting the evaluations of the
    roots."""
    num_rounds: int = 5
    """Number of rounds, from 1 (first the small tree, then the large one) to b_full
    (interleaved)."""

    heads = (0, -1)
    """The heads that the policy evaluates: the first (`recurrent_fn`), the last (`refine_fn`)."""

    @classmethod
    def paper(cls, **changes: Any) -> Self:
        """Returns the setting of the paper, which does not follow the defaults.

        The paper states the budgets, their order and the smoothed visits of the large tree. For the
        other options it gives no number, and these are our readings. The window depends on the
        size of the game, so it is left to the caller: `window=window_for(num_states, max_depth)`.
        The paper runs the whole network for the large tree, which is an option of the search
        function and not of the policy: `keep_activations=False`.

        Args:
          **changes: other values of options by short name, as in `dualmctx.with_options`.

        Raises:
          ValueError: if there is no such option, or if a value or combination is invalid.

        Source: Kadam, Xu, Lieberherr 2021, sections 3 and 4, Algorithm 2 and eq. 2.
        """
        # Every option is given: a later change of a default must not change this setting.
        setting = cls(
            num_simulations=(50, 35),
            num_rounds=1,
            value_mix=0.25,
            prior_mix=0.25,
            action_weights="large_visits",
            puct=Puct(c_puct=1.25, regularized=(), minimax_mix=0.0, rave_visits=None),
            root=Root(
                dirichlet_fraction=0.25,
                dirichlet_alpha=0.3,
                temperature=1.0,
                visit_weights="plain",
            ),
            backup=Backup(window=None, explore_fraction=0.05, explore_decay=0.5),
            execution=Execution(
                max_depth=None,
                max_children=None,
                leaves_per_step=1,
                virtual_loss=0,
                speculation=1,
                kernels="auto",
            ),
            reuse_capacity=0,
        )
        return with_options(setting, **changes)

    def __post_init__(self) -> None:
        """Checks the options."""
        super().__post_init__()
        remedy = "two numbers, each at least 0, not both 0"
        check_budgets(self.num_simulations, lambda x: len(x) == 2 and sum(x) >= 1, remedy)
        large = self.num_simulations[1]
        if large > 0:
            check_rounds(self.num_rounds, large, f"the large tree's {large} simulations")
        check_count("num_rounds", self.num_rounds, 1)

    @property
    def rounds(self) -> Rounds:
        """The simulations of each tree in each round."""
        # Without simulations of the large tree, the number of rounds has no effect.
        number = self.num_rounds if self.num_simulations[1] > 0 else 1
        return even_rounds(self.num_simulations, number)

    @property
    def traits(self) -> Traits:
        """The rounds, and the capacity for nodes reused between moves."""
        return Traits(num_rounds=self.num_rounds, reuse_capacity=self.reuse_capacity)

    @checked_init
    def init(
        self,
        params: Params,
        rng_key: Array,
        root: mctx.RootFnOutput,
        recurrent_fn: RecurrentFn,
        refine_fn: RefineFn,
        *,
        invalid_actions: Array | None = None,
        search_tree: Tree | None = None,
    ) -> SearchState:
        """Sets up a search from a batch of roots.

        With b_full = 0 the tree equals AlphaZero's with the intermediate head, and with b_sub = 0
        AlphaZero's with the final head. Only one tree then has visits, so `all_visits` and, without
        a window, `small_visits` give AlphaZero's policy.

        Args:
          params: passed on to `recurrent_fn` and `refine_fn`.
          rng_key: consumed.
          root: `[B]` roots evaluated by the intermediate head.
          recurrent_fn: as in mctx, by the intermediate head; its logits must mask illegal actions.
          refine_fn: evaluates embeddings by the final head; its logits must mask illegal actions.
          invalid_actions: `[B, A]` true for actions that are not allowed at the root.
          search_tree: the previous move's trees, as returned by `dualmctx.get_subtree`; elements
            without a subtree start from `root`. Requires `reuse_capacity`.

        Returns:
          The state before the first step; see `output` for the result.
        """
        inputs = Inputs(root, recurrent_fn, refine_fn, invalid_actions)
        return init_multi_tree(self, params, rng_key, inputs, search_tree=search_tree)

    __call__ = composed(init)
