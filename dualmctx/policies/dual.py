"""Dual MCTS: a small tree looks ahead by an early head and tells the large tree where to look."""

import dataclasses
from typing import Self

import chex
import mctx

from dualmctx.policies.options import Puct
from dualmctx.policies.top_actions import Inputs
from dualmctx.policies.trees import Weights, check_budgets, check_rounds, check_trees, search_trees
from dualmctx.search.simulate import even_rounds
from dualmctx.search.tree import Tree
from dualmctx.types import Params, RecurrentFn, RefineFn


@dataclasses.dataclass(frozen=True)
class Dual:
    """Dual MCTS's search; called like a policy of mctx, with a `refine_fn` beside `recurrent_fn`.

    The small tree T_sub is the first layer of the search tree, evaluated by `recurrent_fn`, the
    intermediate head. The large tree T_full is the second, evaluated by `refine_fn`, the final
    head, always mixed with what the intermediate head said of the same state.

    Raises:
      ValueError: when an option is out of range, in one line.

    Source: Kadam, Xu, Lieberherr 2021 (arXiv 2103.11517), section 3. Readings, where the paper is
    silent or contradicts itself: dualmctx/README.md.
    """

    num_simulations: tuple[int, int] = (50, 35)
    """Budgets b_sub and b_full; the roots' own evaluations apart."""
    num_rounds: int = 5
    """Rounds, from 1 (the small tree first, then the large) to b_full (in turns)."""
    value_mix: float = 0.25
    """Weight of the intermediate head's value where both heads evaluated a state; alpha."""
    prior_mix: float = 0.25
    """Weight of the intermediate head's policy likewise; beta."""
    action_weights: Weights = "small_visits"
    """The policy returned: the visits of the small tree, whose values the final head has corrected;
    the visits of both trees; the large tree's visits, smoothed (the paper's); or the regularised
    policy of the large tree's Q."""
    puct: Puct = dataclasses.field(default_factory=Puct)
    """How both trees are searched."""
    reuse_capacity: int = 0
    """Room for nodes of the last move's trees, the root apart; 0 starts every search afresh."""

    heads = (0, -1)
    """The network's heads that it evaluates: the first (`recurrent_fn`), the last (`refine_fn`)."""

    def __post_init__(self) -> None:
        """Checks the options."""
        remedy = "two numbers of at least 0, not both 0"
        check_budgets(self.num_simulations, lambda x: len(x) == 2 and sum(x) >= 1, remedy)
        large = self.num_simulations[1]
        if large > 0:
            check_rounds(self.num_rounds, large, f"the large tree's {large} simulations")
        check_trees(self)

    def for_evaluation(self) -> Self:
        """Returns the policy as it is for evaluation: no noise at the root, the best action."""
        return dataclasses.replace(self, puct=self.puct.for_evaluation())

    def __call__(
        self,
        params: Params,
        rng_key: chex.PRNGKey,
        root: mctx.RootFnOutput,
        recurrent_fn: RecurrentFn,
        refine_fn: RefineFn,
        *,
        invalid_actions: chex.Array | None = None,
        search_tree: Tree | None = None,
    ) -> mctx.PolicyOutput:
        """Searches from a batch of roots.

        With b_full = 0 the tree is AlphaZero's with the intermediate head, with b_sub = 0 it is
        AlphaZero's with the final head. So is the policy returned with `all_visits` and, without a
        window, with `small_visits`: they are the visits of the only tree that has any.

        Args:
          params: passed on to `recurrent_fn` and `refine_fn`.
          rng_key: consumed.
          root: `[B]` roots evaluated by the intermediate head.
          recurrent_fn: as mctx's, by the intermediate head; its logits must mask illegal actions.
          refine_fn: evaluates embeddings by the final head; its logits must mask illegal actions.
          invalid_actions: `[B, A]` true for actions that are not allowed at the root.
          search_tree: what `dualmctx.get_subtree` made of the last move's trees, to go on from; the
            roots of elements that have none come from `root`. Needs `reuse_capacity`.

        Returns:
          `action` `[B]`; `action_weights` `[B, A]`, which sum to 1; and `search_tree`, a
          `dualmctx.Tree` with the layers T_sub and, unless b_full = 0, T_full; over slots in place
          of actions with `max_children`.
        """
        small, large = self.num_simulations
        rounds = even_rounds((small, large), self.num_rounds) if large > 0 else ((small,),)
        inputs = Inputs(root, recurrent_fn, refine_fn, invalid_actions)
        return search_trees(self, params, rng_key, inputs, rounds=rounds, search_tree=search_tree)
