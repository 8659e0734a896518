"""Large action spaces: a node keeps only its best children, and the search runs over these.

The arrays with an axis of actions are as long as the game has actions, of which few are legal: in
chess 4,672, of which 218 at most. Here the game is renamed around the search, which does not
change: a node has C slots, its C actions with the largest logits, and everything that the search
sees (priors, visits, noise, the choice of an action) has an axis of slots in place of actions.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import mctx

from dualmctx.policies import root as roots
from dualmctx.search.slots import slot_actions, to_actions
from dualmctx.types import ActingOutput, Embedding, Params, RecurrentFn, RefineFn

RestoreFn = Callable[[mctx.PolicyOutput], mctx.PolicyOutput]


class Inputs(NamedTuple):
    """What a policy is called with, over A actions or over C slots.

    Attributes:
      root: `[B]` roots.
      recurrent_fn: plays and evaluates.
      refine_fn: evaluates by a later head; a tuple of such functions where there are several,
        `None` where there is none.
      invalid_actions: `[B, A]` true for actions that are not allowed at the root, or `None`.
    """

    root: mctx.RootFnOutput
    recurrent_fn: RecurrentFn
    refine_fn: Any
    invalid_actions: chex.Array | None


def keep_top_actions(inputs: Inputs, max_children: int | None) -> tuple[Inputs, RestoreFn]:
    """Gives each node C slots: its C actions with the largest logits, in ascending order.

    Exact where a node has at most C legal actions, down to ties, which go to the lowest action in
    both. Elsewhere the actions beyond are as if they were illegal, and the probabilities of those
    that are left sum to 1. Which they are is settled when the node is made, by the head that
    `recurrent_fn` evaluates (of equal logits the lowest actions are taken); a later head that
    evaluates the node has its say about these only. Slots that no legal action is left for hold
    masked ones.

    Args:
      inputs: over A actions.
      max_children: C, at least 1; nothing changes if this is `None` or at least A.

    Returns:
      The inputs over slots, whose nodes hold their actions in `Embedding.actions`. And what turns
      a policy's output back: `action` and `action_weights` are over A actions again, `search_tree`
      stays over slots, as does what `to_mctx` makes of it; see `played_actions`.
    """
    num_actions = inputs.root.prior_logits.shape[-1]
    if max_children is None or max_children >= num_actions:
        return inputs, lambda output: output
    slots = _ActionSubset(max_children, isinstance(inputs.root.embedding, Embedding))
    logits, invalid = inputs.root.prior_logits, inputs.invalid_actions
    # Masked for the choice only: the policy masks what it is given by itself.
    actions = slots.choose(roots.mask_logits(logits, invalid))
    root = inputs.root.replace(  # pyright: ignore[reportAttributeAccessIssue]
        prior_logits=_pick(logits, actions), embedding=slots.attach(inputs.root.embedding, actions)
    )
    limited = Inputs(
        root,
        slots.limit_recurrent_fn(inputs.recurrent_fn),
        jax.tree.map(slots.limit_refine_fn, inputs.refine_fn),
        None if invalid is None else _pick(invalid, actions),
    )

    def restore(output: mctx.PolicyOutput) -> mctx.PolicyOutput:
        # A search that goes on from an earlier tree has that tree's root, with slots of its own.
        tree = output.search_tree
        changes = {"action_weights": to_actions(tree, output.action_weights, num_actions)}
        if isinstance(output, ActingOutput):
            changes["acting_weights"] = to_actions(tree, output.acting_weights, num_actions)
        action = _pick(slot_actions(tree), output.action[:, None])[:, 0]
        return output.replace(  # pyright: ignore[reportAttributeAccessIssue]
            action=action, **changes
        )

    return limited, restore


class _ActionSubset(NamedTuple):
    """How nodes over slots are made from the game's; `is_embedding` tells what it embeds in."""

    max_children: int
    is_embedding: bool

    def choose(self, logits: chex.Array) -> chex.Array:
        """Returns `[B, C]` int32 the actions with the largest `[B, A]` logits, ascending."""
        # `top_k` takes 0 before -0; as equals the lowest action goes first.
        logits = jnp.where(logits == 0, 0, logits)
        best = jax.lax.top_k(logits, self.max_children)[1]
        return jnp.sort(best.astype(jnp.int32), axis=-1)

    def attach(self, embedding: Any, actions: chex.Array) -> Embedding:
        if not self.is_embedding:
            return Embedding(state=embedding, actions=actions)
        return Embedding(embedding.state, embedding.activations, actions)

    def detach(self, embedding: Embedding) -> Any:
        if not self.is_embedding:
            return embedding.state
        return Embedding(embedding.state, embedding.activations)

    def limit_recurrent_fn(self, recurrent_fn: RecurrentFn) -> RecurrentFn:
        def limited(params: Params, rng_key: Any, action: Any, embedding: Any) -> tuple:
            played = _pick(embedding.actions, action[:, None])[:, 0]
            step, new = recurrent_fn(params, rng_key, played, self.detach(embedding))
            actions = self.choose(step.prior_logits)
            step = step.replace(  # pyright: ignore[reportAttributeAccessIssue]
                prior_logits=_pick(step.prior_logits, actions)
            )
            return step, self.attach(new, actions)

        return limited

    def limit_refine_fn(self, refine_fn: RefineFn) -> RefineFn:
        def limited(params: Params, rng_key: Any, embedding: Any) -> tuple:
            logits, value = refine_fn(params, rng_key, self.detach(embedding))
            return _pick(logits, embedding.actions), value

        return limited


def _pick(array: chex.Array, index: chex.Array) -> chex.Array:
    """Reads `[B, A]` at `[B, C]` indices, which are valid by construction."""
    return jnp.take_along_axis(array, index, axis=-1, mode="promise_in_bounds")
