"""Large action spaces: each node has only the C actions with the largest logits.

Without a limit, arrays have an axis of all A actions of the game, few of which are legal: in chess,
at most 218 of 4,672. This module wraps the inputs of a policy; the search itself does not change.
All arrays of the search (priors, visits, noise, chosen actions) then have an axis of the C kept
actions of their node, its action slots, in place of the axis of all actions.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import mctx
from jax import Array

from dualmctx.search.refine import map_refine_fns
from dualmctx.search.slots import slot_actions, to_actions
from dualmctx.search.tree import Tree
from dualmctx.types import ActingOutput, Embedding, Params, RecurrentFn, RefineFn, RolloutFn


class Inputs(NamedTuple):
    """The arguments of a policy, over all A actions or over the C action slots.

    Attributes:
      root: `[B]` roots.
      recurrent_fn: plays actions and evaluates the resulting states.
      refine_fn: evaluates by a later head; a tuple of such functions for several heads, `None` for
        none.
      invalid_actions: `[B, A]` true for actions that are not allowed at the root, or `None`.
      search_tree: the trees of the previous move, or `None`.
      rollout_fn: plays games to the end; `None` for none.
      renews_root: whether roots of reused trees get the prior and the value of the given roots.
    """

    root: mctx.RootFnOutput
    recurrent_fn: RecurrentFn
    refine_fn: Any = None
    invalid_actions: Array | None = None
    search_tree: Tree | None = None
    rollout_fn: RolloutFn | None = None
    renews_root: bool = False


def keep_top_actions(inputs: Inputs, max_children: int | None) -> Inputs:
    """Limits each node to its C actions with the largest logits, in ascending order.

    The result is exact for a node with at most C legal actions, including ties, which go to the
    lowest action. At other nodes the remaining actions are treated as illegal, and the
    probabilities of the kept actions sum to 1. The actions are chosen when the node is created, by
    the head that `recurrent_fn` evaluates, or at a new root by the mixture with `root_head`; among
    equal logits the lowest actions are kept. A later head evaluates the same actions. A node with
    fewer than C legal actions also keeps masked ones.

    Args:
      inputs: over A actions.
      max_children: C, at least 1; nothing changes if this is `None` or at least A.

    Returns:
      The inputs over C action slots, whose actions nodes store in `Embedding.actions`; see
      `restore_actions`.
    """
    num_actions = inputs.root.prior_logits.shape[-1]
    if max_children is None or max_children >= num_actions:
        return inputs
    subset = _ActionSubset(max_children, isinstance(inputs.root.embedding, Embedding))
    logits, invalid = inputs.root.prior_logits, inputs.invalid_actions
    masked = logits
    if invalid is not None:
        # Masked only to choose the actions; the policy masks its inputs itself. Invalid actions
        # come last, also after those whose logit is -infinity.
        masked = jnp.where(invalid, -jnp.inf, jnp.nan_to_num(logits))
    actions = subset.choose(masked)
    root = inputs.root.replace(
        prior_logits=_pick(logits, actions), embedding=subset.attach(inputs.root.embedding, actions)
    )
    return inputs._replace(
        root=root,
        recurrent_fn=subset.limit_recurrent_fn(inputs.recurrent_fn),
        refine_fn=map_refine_fns(subset.limit_refine_fn, inputs.refine_fn),
        invalid_actions=None if invalid is None else _pick(invalid, actions),
    )


def restore_actions(output: mctx.PolicyOutput, num_actions: int) -> mctx.PolicyOutput:
    """Converts the output of a policy over action slots to one over the A actions of the game.

    `search_tree`, and its conversion by `to_mctx`, stay over action slots; see `played_actions`.
    """
    tree = output.search_tree  # A reused root has its own action slots.
    changes = {"action_weights": to_actions(tree, output.action_weights, num_actions)}
    if isinstance(output, ActingOutput):
        changes["acting_weights"] = to_actions(tree, output.acting_weights, num_actions)
    action = _pick(slot_actions(tree), output.action[:, None])[:, 0]
    return output.replace(action=action, **changes)


class _ActionSubset(NamedTuple):
    """Functions that limit the actions of nodes.

    Attributes:
      max_children: C, the number of kept actions.
      is_embedding: whether the embeddings without the limit are of type `Embedding`.
    """

    max_children: int
    is_embedding: bool

    def choose(self, logits: Array) -> Array:
        """Returns `[B, C]` int32 the actions with the largest `[B, A]` logits, ascending."""
        # `top_k` orders 0 before -0. They must be equal here, so that ties go to the lowest action.
        logits = jnp.where(logits == 0, 0, logits)
        best = jax.lax.top_k(logits, self.max_children)[1]
        return jnp.sort(best.astype(jnp.int32), axis=-1)

    def attach(self, embedding: Any, actions: Array) -> Embedding:
        if not self.is_embedding:
            return Embedding(state=embedding, actions=actions)
        return Embedding(embedding.state, embedding.activations, actions)

    def detach(self, embedding: Embedding) -> Any:
        if not self.is_embedding:
            return embedding.state
        return Embedding(embedding.state, embedding.activations)

    def limit_recurrent_fn(self, recurrent_fn: RecurrentFn) -> RecurrentFn:
        def limited(
            params: Params, rng_key: Array, action: Array, embedding: Any
        ) -> tuple[mctx.RecurrentFnOutput, Any]:
            played = _pick(embedding.actions, action[:, None])[:, 0]
            step, new = recurrent_fn(params, rng_key, played, self.detach(embedding))
            actions = self.choose(step.prior_logits)
            step = step.replace(prior_logits=_pick(step.prior_logits, actions))
            return step, self.attach(new, actions)

        return limited

    def limit_refine_fn(self, refine_fn: RefineFn) -> RefineFn:
        def limited(params: Params, rng_key: Array, embedding: Any) -> tuple[Array, Array]:
            logits, value = refine_fn(params, rng_key, self.detach(embedding))
            return _pick(logits, embedding.actions), value

        return limited


def _pick(array: Array, index: Array) -> Array:
    """Reads `[B, A]` at `[B, C]` indices, which are valid by construction."""
    return jnp.take_along_axis(array, index, axis=-1, mode="promise_in_bounds")
