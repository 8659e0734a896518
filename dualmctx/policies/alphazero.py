"""AlphaZero: PUCT, one evaluation per simulation, and moves sampled in proportion to visits."""

import dataclasses
from typing import Self

import mctx
from jax import Array

from dualmctx.checks import check_budget, normalize_options
from dualmctx.policies.call_checks import checked_init, composed, standard_promotion
from dualmctx.policies.combinations import check_single_tree
from dualmctx.policies.option_groups import Backup, Execution, Puct, Root
from dualmctx.policies.root_head import OneTree
from dualmctx.policies.single_tree import init_single_tree, single_tree_output
from dualmctx.policies.top_actions import Inputs
from dualmctx.search.phases import SearchState
from dualmctx.search.speculation import num_spare
from dualmctx.search.tree import Tree
from dualmctx.types import Params, RecurrentFn, RefineFn, Traits


@dataclasses.dataclass(frozen=True)
class AlphaZero(OneTree):
    """AlphaZero's search; called like a policy of mctx.

    Raises:
      ValueError: if an option is out of range, or if options conflict.

    Source: Silver et al. 2017 (arXiv 1712.01815).
    """

    num_simulations: int = 85
    """Simulations per search, not counting the evaluation of the root; at least 1."""
    puct: Puct = dataclasses.field(default_factory=Puct)
    """The selection rule."""
    root: Root = dataclasses.field(default_factory=Root)
    """Noise at the root, and how visits become weights and an action."""
    backup: Backup = dataclasses.field(default_factory=Backup)
    """The window of the backup, and the exploration outside it."""
    execution: Execution = dataclasses.field(default_factory=Execution)
    """Depth, children per node, parallel leaves, and speculation."""
    reuse_capacity: int = 0
    """Nodes reused from the previous move's tree, not counting the root; 0 disables reuse."""

    def __post_init__(self) -> None:
        """Checks the options."""
        normalize_options(self)
        check_budget(self)
        self.check_heads()
        check_single_tree(self)

    @property
    def traits(self) -> Traits:
        """The capacity for nodes reused between moves, and for those guessed in vain."""
        guesses = self.execution.speculation > 1
        return Traits(
            reuse_capacity=self.reuse_capacity,
            num_spare=num_spare(self.num_simulations) if guesses else 0,
        )

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
        refine_fn: RefineFn | None = None,
        *,
        invalid_actions: Array | None = None,
        search_tree: Tree | None = None,
    ) -> SearchState:
        """Sets up a search from a batch of roots.

        Args:
          params: passed on to `recurrent_fn`.
          rng_key: consumed.
          root: `[B]` roots; values from the view of the player to move.
          recurrent_fn: as in mctx; its logits must mask illegal actions below the root.
          refine_fn: evaluates the root by `root_head`; `None` without one.
          invalid_actions: `[B, A]` true for actions that are not allowed at the root.
          search_tree: the previous move's tree, as returned by `dualmctx.get_subtree`; elements
            without a subtree start from `root`. Requires `reuse_capacity`.

        Returns:
          `action` `[B]`; `action_weights` `[B, A]`, which sum to 1: the visits divided by their
          sum, unless `Root.visit_weights` or `Puct.regularized` change them; and `search_tree`, a
          `dualmctx.Tree`. With `max_children`, the tree has an axis of action slots, see
          `dualmctx.search.slots`. The output is an `ActingOutput` if actions are sampled from other
          weights than the training target.
        """
        inputs = Inputs(root, recurrent_fn, refine_fn, invalid_actions)
        return init_single_tree(self, params, rng_key, inputs, search_tree=search_tree)

    __call__ = composed(init)

    @standard_promotion()
    def output(self, state: SearchState) -> mctx.PolicyOutput:
        """Returns the result of a search, see `init`."""
        return single_tree_output(self, state)
