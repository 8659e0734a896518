"""AlphaZero: PUCT, one evaluation a simulation, moves in proportion to visits."""

import dataclasses
from typing import Self

import chex
import mctx

from dualmctx.checks import check, check_budget, is_whole
from dualmctx.policies.one_tree import search_one_tree
from dualmctx.policies.options import Puct
from dualmctx.policies.top_actions import Inputs
from dualmctx.search.tree import Tree
from dualmctx.types import Params, RecurrentFn, RefineFn


@dataclasses.dataclass(frozen=True)
class AlphaZero:
    """AlphaZero's search; called like a policy of mctx.

    Raises:
      ValueError: when an option is out of range, in one line.

    Source: Silver et al. 2017 (arXiv 1712.01815).
    """

    num_simulations: int = 85
    """Simulations a search, the root's own evaluation apart; at least 1."""
    puct: Puct = dataclasses.field(default_factory=Puct)
    """How the tree is searched."""
    reuse_capacity: int = 0
    """Room for nodes of the last move's tree, the root apart; 0 starts every search afresh."""
    head: int = -1
    """The network's head that evaluates, by its index; -1 is the final head. What the trunk has
    beyond an earlier head is not computed."""

    def __post_init__(self) -> None:
        """Checks the options."""
        check_budget(self)
        check(is_whole(self.head), "head", self.head, "a whole number, -1 for the final head")

    @property
    def heads(self) -> tuple[int, ...]:
        """The network's heads that it evaluates: one, by `recurrent_fn`."""
        return (self.head,)

    def for_evaluation(self) -> Self:
        """Returns the policy as it is for evaluation: no noise at the root, the best action."""
        return dataclasses.replace(self, puct=self.puct.for_evaluation())

    def __call__(
        self,
        params: Params,
        rng_key: chex.PRNGKey,
        root: mctx.RootFnOutput,
        recurrent_fn: RecurrentFn,
        refine_fn: RefineFn | None = None,
        *,
        invalid_actions: chex.Array | None = None,
        search_tree: Tree | None = None,
    ) -> mctx.PolicyOutput:
        """Searches from a batch of roots.

        Args:
          params: passed on to `recurrent_fn`.
          rng_key: consumed.
          root: `[B]` roots; values from the view of the player to move.
          recurrent_fn: as mctx's; its logits must mask illegal actions below the root.
          refine_fn: not used.
          invalid_actions: `[B, A]` true for actions that are not allowed at the root.
          search_tree: what `dualmctx.get_subtree` made of the last move's tree, to go on from; the
            roots of elements that have none come from `root`. Needs `reuse_capacity`.

        Returns:
          `action` `[B]`; `action_weights` `[B, A]`, the visits' shares, which sum to 1, or what
          `Puct.visit_weights` and `Puct.regularized` say; and `search_tree`, a
          `dualmctx.Tree`; over slots in place of actions with `max_children`. An `ActingOutput`
          where it acts by one and learns the other.
        """
        inputs = Inputs(root, recurrent_fn, refine_fn, invalid_actions)
        return search_one_tree(self, params, rng_key, inputs, search_tree=search_tree)
