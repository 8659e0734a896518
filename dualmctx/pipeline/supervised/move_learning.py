"""The optimiser step of the supervised stage: both policies learn the moves of a batch."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import optax

from dualmctx.models.network import SeparateTrunks
from dualmctx.pipeline.parts import POLICY, ROLLOUT, get_part, policy_logits, with_part
from dualmctx.pipeline.supervised.accuracy import MoveScores, ScoreSums, score_moves
from dualmctx.training.batch import TrainingBatch
from dualmctx.types import Params

POLICIES = (POLICY, ROLLOUT)
"""The parts of the network that the supervised stage trains."""


class Learned(NamedTuple):
    """The arrays that an optimiser step changes.

    Attributes:
      params: the parameters of the whole network.
      opt_state: the state of the optimiser of each trained part, by its name.
      sums: sums of the scores of each trained part over the positions learned, each position with
        the parameters before its step.
    """

    params: Params
    opt_state: dict[str, Any]
    sums: dict[str, ScoreSums]


UpdateFn = Callable[[Learned, TrainingBatch, chex.Array], Learned]
"""`(learned, positions, counts) -> learned`: takes one optimiser step; donates `learned`."""


def move_loss(
    network: SeparateTrunks,
    params: Params,
    part: str,
    positions: TrainingBatch,
    weights: chex.Array,
) -> tuple[chex.Array, MoveScores]:
    """Computes the loss of one policy on `[M]` positions.

    Formula: 1/M Σ_m w_m (-Σ_a π_m(a) log p_m(a)), with the moves played π, the policy p of the part
    and the weights w. If the weights have the mean 1 over the data set, the expected gradient of a
    random batch is that of the weighted mean over the data set.

    Args:
      network: the network of the pipeline.
      params: the parameters of the whole network.
      part: `POLICY` or `ROLLOUT`.
      positions: the positions with the moves played.
      weights: `[M]`, at least 0.

    Returns:
      The loss in nats, and the `[M]` scores.
    """
    logits = policy_logits(network, params, positions.observation, part)
    scores = score_moves(logits, positions.legal_action_mask, positions.policy)
    return jnp.mean(weights * scores.loss), scores


def make_update(
    network: SeparateTrunks, optimizer: optax.GradientTransformation, mean_count: float
) -> UpdateFn:
    """Returns a compiled function that takes one optimiser step for both policies.

    The policies have no parameters in common, so each has an optimiser of its own.

    Args:
      network: the network of the pipeline.
      optimizer: the optimiser, for each part separately.
      mean_count: mean of the counts over the data set, by which they are divided.
    """

    @functools.partial(jax.jit, donate_argnums=0)
    def update(learned: Learned, positions: TrainingBatch, counts: chex.Array) -> Learned:
        params, opt_state, sums = learned.params, dict(learned.opt_state), dict(learned.sums)

        def loss_fn(own: Params, part: str) -> tuple[chex.Array, MoveScores]:
            whole = with_part(learned.params, part, own)
            return move_loss(network, whole, part, positions, counts / mean_count)

        for part in POLICIES:
            own = get_part(params, part)
            gradients, scores = jax.grad(loss_fn, has_aux=True)(own, part)
            updates, opt_state[part] = optimizer.update(gradients, opt_state[part], own)
            params = with_part(params, part, optax.apply_updates(own, updates))
            sums[part] = sums[part].add(scores, counts.astype(jnp.float32))
        return Learned(params, opt_state, sums)

    return update
