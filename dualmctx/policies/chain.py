"""A chain of trees: each tree evaluates, by its own head, the best nodes of the earlier trees."""

import dataclasses

import mctx
from jax import Array

from dualmctx.policies.call_checks import checked_init, composed
from dualmctx.policies.multi_tree import (
    SeveralTrees,
    check_budgets,
    check_rounds,
    init_multi_tree,
)
from dualmctx.policies.top_actions import Inputs
from dualmctx.search.phases import SearchState
from dualmctx.search.rounds import Rounds, even_rounds
from dualmctx.search.tree import Tree
from dualmctx.types import Params, RecurrentFn, RefineFn, Traits


@dataclasses.dataclass(frozen=True)
class Chain(SeveralTrees):
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

    def __post_init__(self) -> None:
        """Checks the options."""
        super().__post_init__()
        remedy = "two numbers or more, one for each tree, each at least 1"
        check_budgets(self.num_simulations, lambda x: len(x) >= 2 and min(x) >= 1, remedy)
        most = max(self.num_simulations[1:])
        check_rounds(self.num_rounds, most, f"the {most} simulations of a later tree")

    @property
    def heads(self) -> tuple[int, ...]:
        """The heads of the trees: the first ones in order, and the final head for the last tree."""
        return (*range(len(self.num_simulations) - 1), -1)

    @property
    def rounds(self) -> Rounds:
        """The simulations of each tree in each round."""
        return even_rounds(self.num_simulations, self.num_rounds)

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
          The state before the first step; see `output` for the result.
        """
        inputs = Inputs(root, recurrent_fn, refine_fn, invalid_actions)
        return init_multi_tree(self, params, rng_key, inputs, search_tree=search_tree)

    __call__ = composed(init)
