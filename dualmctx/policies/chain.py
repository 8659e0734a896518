"""A chain of trees: each evaluates, by a later head, the best nodes of the trees before it."""

import dataclasses
from typing import Self

import mctx
from jax import Array

from dualmctx.policies.multi_tree import (
    ActionWeights,
    check_budgets,
    check_multi_tree,
    check_rounds,
    search_multi_tree,
)
from dualmctx.policies.option_groups import Backup, Execution, Puct, Root
from dualmctx.policies.top_actions import Inputs
from dualmctx.search.rounds import even_rounds
from dualmctx.search.tree import Tree
from dualmctx.types import Params, RecurrentFn, RefineFn, Traits


@dataclasses.dataclass(frozen=True)
class Chain:
    """Dual MCTS with K trees by K heads of one network; called like a policy of mctx.

    Tree 0 is grown by the first head. In each round, tree k = 1 … K − 1 then evaluates its share of
    the best nodes that it lacks, by the k-th head. The outputs of the heads for a node are mixed in
    the order in which they evaluate it:

        V ← α V + (1 − α) v_k;   P ← β P + (1 − β) p_k

    and each change of V goes to all earlier trees that had counted the node. K = 2 is `Dual`.

    Raises:
      ValueError: if an option is out of range, or excluded by another.

    Source: Kadam, Xu, Lieberherr 2021 (arXiv 2103.11517), section 6, which only names the idea.
    Readings: a tree may evaluate any node that exists, ordered by the visits in the tree before it,
    then by the visits in the tree before that; a node that a later head has evaluated already is
    adopted unchanged.
    """

    num_simulations: tuple[int, ...] = (40, 25, 20)
    """Simulations per search in each of the K trees, first to last, K at least 2, each at least 1;
    the roots' own evaluations apart."""
    num_rounds: int = 5
    """Number of rounds, from 1 (tree after tree) to the largest later budget (in turns)."""
    value_mix: float = 0.25
    """Weight α of the earlier heads' value if a later head evaluates a state, in [0, 1]."""
    prior_mix: float = 0.25
    """Weight β of the earlier heads' policy, likewise."""
    action_weights: ActionWeights = "small_visits"
    """The policy returned. small_visits: the visits of the first tree, whose values all later heads
    have corrected. all_visits: the visits of all trees. large_visits: the last tree's visits,
    smoothed. regularized: the regularised policy of the last tree's Q."""
    puct: Puct = dataclasses.field(default_factory=Puct)
    """The selection rule."""
    root: Root = dataclasses.field(default_factory=Root)
    """Noise at the root, and what is read off it."""
    backup: Backup = dataclasses.field(default_factory=Backup)
    """The window and its exploration."""
    execution: Execution = dataclasses.field(default_factory=Execution)
    """Depth, actions per node, and leaves in parallel."""
    reuse_capacity: int = 0
    """Nodes kept from the last move's trees, the root apart; 0 starts every search afresh."""

    def __post_init__(self) -> None:
        """Checks the options."""
        remedy = "two numbers or more, one for each tree, of at least 1"
        check_budgets(self.num_simulations, lambda x: len(x) >= 2 and min(x) >= 1, remedy)
        most = max(self.num_simulations[1:])
        check_rounds(self.num_rounds, most, f"the {most} simulations of a later tree")
        check_multi_tree(self)

    @property
    def heads(self) -> tuple[int, ...]:
        """The heads that the policy evaluates: the first ones, and the last for the last tree."""
        return (*range(len(self.num_simulations) - 1), -1)

    @property
    def traits(self) -> Traits:
        """The rounds, and the nodes kept between moves."""
        return Traits(num_rounds=self.num_rounds, reuse_capacity=self.reuse_capacity)

    def for_evaluation(self) -> Self:
        """Returns the policy for evaluation: no noise at the root, the best action."""
        return dataclasses.replace(self, root=self.root.for_evaluation())

    def __call__(
        self,
        params: Params,
        rng_key: Array,
        root: mctx.RootFnOutput,
        recurrent_fn: RecurrentFn,
        refine_fn: RefineFn | tuple[RefineFn, ...],
        *,
        invalid_actions: Array | None = None,
        search_tree: Tree | None = None,
    ) -> mctx.PolicyOutput:
        """Searches from a batch of roots.

        Args:
          params: passed on to `recurrent_fn` and `refine_fn`.
          rng_key: consumed.
          root: `[B]` roots evaluated by the first head.
          recurrent_fn: as mctx's, by the first head; its logits must mask illegal actions.
          refine_fn: K − 1 functions, in order, each of which evaluates embeddings by a later head;
            for K = 2 also the function itself. Their logits must mask illegal actions.
          invalid_actions: `[B, A]` true for actions that are not allowed at the root.
          search_tree: the last move's trees as `dualmctx.get_subtree` returns them; elements
            without one start from `root`. Needs `reuse_capacity`.

        Returns:
          `action` `[B]`; `action_weights` `[B, A]`, which sum to 1; and `search_tree`, a
          `dualmctx.Tree` with the statistics of K trees; its action axis has the kept actions only
          with `max_children`.
        """
        rounds = even_rounds(self.num_simulations, self.num_rounds)
        inputs = Inputs(root, recurrent_fn, refine_fn, invalid_actions)
        return search_multi_tree(
            self, params, rng_key, inputs, rounds=rounds, search_tree=search_tree
        )
