"""AlphaZero: PUCT, one evaluation per simulation, and moves sampled in proportion to visits."""

import dataclasses

import mctx
from jax import Array

from dualmctx.policies.call_checks import checked_init, composed
from dualmctx.policies.single_tree import SingleTree, init_single_tree
from dualmctx.policies.top_actions import Inputs
from dualmctx.search.phases import SearchState
from dualmctx.search.speculation import num_spare
from dualmctx.search.tree import Tree
from dualmctx.types import Params, RecurrentFn, RefineFn, Traits


@dataclasses.dataclass(frozen=True)
class AlphaZero(SingleTree):
    """AlphaZero's search; called like a policy of mctx.

    Raises:
      ValueError: if an option is out of range, or if options conflict.

    Source: Silver et al. 2017 (arXiv 1712.01815).
    """

    @property
    def traits(self) -> Traits:
        """The capacity for nodes reused between moves, and for those guessed in vain."""
        guesses = self.execution.speculation > 1
        return Traits(
            reuse_capacity=self.reuse_capacity,
            num_spare=num_spare(self.num_simulations) if guesses else 0,
        )

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
          The state before the first step; see `output` for the result.
        """
        inputs = Inputs(root, recurrent_fn, refine_fn, invalid_actions)
        return init_single_tree(self, params, rng_key, inputs, search_tree=search_tree)

    __call__ = composed(init)
