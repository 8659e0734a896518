"""A chain of trees: each one, by a later head, looks where the trees before it found something."""

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
class Chain:
    """Dual MCTS with K trees by K heads of one network; called like a policy of mctx.

    Tree 0 is grown by the first head. In each round, tree k = 1 … K − 1 then evaluates its share of
    the best nodes that it lacks, by the k-th head. What the heads say of a node is mixed in the
    order in which they see it:

        V ← α V + (1 − α) v_k;   P ← β P + (1 − β) p_k

    and each change of V goes to all earlier trees that had counted the node. K = 2 is `Dual`.

    Raises:
      ValueError: when an option is out of range, in one line.

    Source: Kadam, Xu, Lieberherr 2021 (arXiv 2103.11517), section 6, which names the idea and no
    more. Readings: a tree may evaluate any node that exists, those of the tree before it first, by
    its visits there, then by visits in the tree before that; a node that a later head has
    evaluated already is adopted as it is.
    """

    num_simulations: tuple[int, ...] = (40, 25, 20)
    """Budgets of the K trees, first to last, K at least 2, each at least 1; the roots' own
    evaluations apart."""
    num_rounds: int = 5
    """Rounds, from 1 (tree after tree) to the largest budget of a later tree (in turns)."""
    value_mix: float = 0.25
    """Weight of the earlier heads' value where a later head evaluates a state; alpha."""
    prior_mix: float = 0.25
    """Weight of the earlier heads' policy likewise; beta."""
    action_weights: Weights = "small_visits"
    """The policy returned: the visits of the first tree (small_visits), whose values all later
    heads have corrected; the visits of all trees; the last tree's visits, smoothed (large_visits);
    or the regularised policy of the last tree's Q."""
    puct: Puct = dataclasses.field(default_factory=Puct)
    """How every tree is searched."""
    reuse_capacity: int = 0
    """Room for nodes of the last move's trees, the root apart; 0 starts every search afresh."""

    def __post_init__(self) -> None:
        """Checks the options."""
        remedy = "two numbers or more, one for each tree, of at least 1"
        check_budgets(self.num_simulations, lambda x: len(x) >= 2 and min(x) >= 1, remedy)
        most = max(self.num_simulations[1:])
        check_rounds(self.num_rounds, most, f"the {most} simulations of a later tree")
        check_trees(self)

    @property
    def heads(self) -> tuple[int, ...]:
        """The network's heads that it evaluates: the first ones, and the last for the last tree."""
        return (*range(len(self.num_simulations) - 1), -1)

    def for_evaluation(self) -> Self:
        """Returns the policy as it is for evaluation: no noise at the root, the best action."""
        return dataclasses.replace(self, puct=self.puct.for_evaluation())

    def __call__(
        self,
        params: Params,
        rng_key: chex.PRNGKey,
        root: mctx.RootFnOutput,
        recurrent_fn: RecurrentFn,
        refine_fn: RefineFn | tuple[RefineFn, ...],
        *,
        invalid_actions: chex.Array | None = None,
        search_tree: Tree | None = None,
    ) -> mctx.PolicyOutput:
        """Searches from a batch of roots.

        Args:
          params: passed on to `recurrent_fn` and `refine_fn`.
          rng_key: consumed.
          root: `[B]` roots evaluated by the first head.
          recurrent_fn: as mctx's, by the first head; its logits must mask illegal actions.
          refine_fn: K − 1 functions that evaluate embeddings by a later head each, in order; with
            K = 2 the function itself will do. Their logits must mask illegal actions.
          invalid_actions: `[B, A]` true for actions that are not allowed at the root.
          search_tree: what `dualmctx.get_subtree` made of the last move's trees, to go on from; the
            roots of elements that have none come from `root`. Needs `reuse_capacity`.

        Returns:
          `action` `[B]`; `action_weights` `[B, A]`, which sum to 1; and `search_tree`, a
          `dualmctx.Tree` of K stats; over slots in place of actions with `max_children`.
        """
        rounds = even_rounds(self.num_simulations, self.num_rounds)
        inputs = Inputs(root, recurrent_fn, refine_fn, invalid_actions)
        return search_trees(self, params, rng_key, inputs, rounds=rounds, search_tree=search_tree)
