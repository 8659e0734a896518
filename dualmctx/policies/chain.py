"""A chain of trees: each tree evaluates, by its own head, the best nodes of the earlier trees."""

import dataclasses
from typing import Self

import mctx
from jax import Array

from dualmctx.checks import normalize_options
from dualmctx.policies.call_checks import Phases, checked_init, composed, standard_promotion
from dualmctx.policies.multi_tree import (
    ActionWeights,
    check_budgets,
    check_multi_tree,
    check_rounds,
    init_multi_tree,
    multi_tree_output,
)
from dualmctx.policies.option_groups import Backup, Execution, Puct, Root
from dualmctx.policies.top_actions import Inputs
from dualmctx.search.phases import SearchState
from dualmctx.search.rounds import even_rounds
from dualmctx.search.tree import Tree
from dualmctx.types import Params, RecurrentFn, RefineFn, Traits


@dataclasses.dataclass(frozen=True)
class Chain(Phases):
    """Dual MCTS with K trees by K heads of one network; called like a policy of mctx.

    The first head grows tree 0. In each round, tree k = 1 … K − 1 then evaluates, by head k, its
    share of the best nodes that it has not evaluated yet. The outputs of the heads for a node are
    mixed in the order of evaluation:

        V ← α V + (1 − α) v_k;   P ← β P + (1 − β) p_k

    Each change of V is backed up in all earlier trees that have visited the node. K = 2 is `Dual`.

    Raises:
      ValueError: if an option is out of range, or if options conflict.

    Source: Kadam, Xu, Lieberherr 2021 (arXiv 2103.11517), section 6, which only mentions the idea.
    Our readings: a tree may evaluate any existing node, in the order of the visits in the previous
    tree, then of the visits in the tree before that; a node that a later head has already evaluated
    is added to a tree unchanged.
    """

    num_simulations: tuple[int, ...] = (40, 25, 20)
    """Simulations per search in each of the K trees, first to last; K at least 2, each at least 1.
    The evaluations of the roots are not counted."""
    num_rounds: int = 5
    """Number of rounds, from 1 (one tree after the other) to the largest budget of a later tree
    (interleaved)."""
    value_mix: float = 0.25
    """Weight α of the earlier heads' value if a later head evaluates a state, in [0, 1]."""
    prior_mix: float = 0.25
    """Weight β of the earlier heads' policy, in the same case."""
    action_weights: ActionWeights = "small_visits"
    """The policy returned. small_visits: visits of the first tree, whose values all later heads
    have corrected. all_visits: visits of all trees. large_visits: smoothed visits of the last tree.
    regularized: the regularised policy from the Q-values of the last tree."""
    puct: Puct = dataclasses.field(default_factory=Puct)
    """The selection rule."""
    root: Root = dataclasses.field(default_factory=Root)
    """Noise at the root, and how visits become weights and an action."""
    backup: Backup = dataclasses.field(default_factory=Backup)
    """The window of the backup, and the exploration outside it."""
    execution: Execution = dataclasses.field(default_factory=Execution)
    """Depth, children per node, and parallel leaves."""
    reuse_capacity: int = 0
    """Nodes reused from the previous move's trees, not counting the root; 0 disables reuse."""

    def __post_init__(self) -> None:
        """Checks the options."""
        normalize_options(self)
        remedy = "two numbers or more, one for each tree, each at least 1"
        check_budgets(self.num_simulations, lambda x: len(x) >= 2 and min(x) >= 1, remedy)
        most = max(self.num_simulations[1:])
        check_rounds(self.num_rounds, most, f"the {most} simulations of a later tree")
        check_multi_tree(self)

    @property
    def heads(self) -> tuple[int, ...]:
        """The heads of the trees: the first ones in order, and the final head for the last tree."""
        return (*range(len(self.num_simulations) - 1), -1)

    @property
    def traits(self) -> Traits:
        """The rounds, and the capacity for nodes reused between moves."""
        return Traits(num_rounds=self.num_rounds, reuse_capacity=self.reuse_capacity)

    def for_evaluation(self) -> Self:
        """Returns the policy for evaluation: no noise at the root, the best action."""
        return dataclasses.replace(self, root=self.root.for_evaluation())

    @checked_init
    def init(
        self,
        params: Params,
        rng_key: Array,
        root: mctx.RootFnOutput,
        recurrent_fn: RecurrentFn,
        refine_fn: RefineFn | tuple[RefineFn, ...],
        *,
        invalid_actions: Array | None = None,
        search_tree: Tree | None = None,
    ) -> SearchState:
        """Sets up a search from a batch of roots.

        Args:
          params: passed on to `recurrent_fn` and `refine_fn`.
          rng_key: consumed.
          root: `[B]` roots evaluated by the first head.
          recurrent_fn: as in mctx, by the first head; its logits must mask illegal actions.
          refine_fn: a tuple of K − 1 functions, in order, that evaluate embeddings by the later
            heads; for K = 2 it may be a single function. The logits must mask illegal actions.
          invalid_actions: `[B, A]` true for actions that are not allowed at the root.
          search_tree: the previous move's trees, as returned by `dualmctx.get_subtree`; elements
            without a subtree start from `root`. Requires `reuse_capacity`.

        Returns:
          `action` `[B]`; `action_weights` `[B, A]`, which sum to 1; and `search_tree`, a
          `dualmctx.Tree` with the statistics of K trees. With `max_children`, it has an axis of
          action slots, see `dualmctx.search.slots`.
        """
        rounds = even_rounds(self.num_simulations, self.num_rounds)
        inputs = Inputs(root, recurrent_fn, refine_fn, invalid_actions)
        return init_multi_tree(
            self, params, rng_key, inputs, rounds=rounds, search_tree=search_tree
        )

    __call__ = composed(init)

    @standard_promotion()
    def output(self, state: SearchState) -> mctx.PolicyOutput:
        """Returns the result of a search, see `init`."""
        return multi_tree_output(self, state)
