"""The learner: the losses of all heads, augmentation, and optimiser steps in one program."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import optax

from dualmctx.checks import (
    check_count,
    check_norm,
    check_not_negative,
    check_positive,
    check_share,
    normalize_options,
)
from dualmctx.errors import UserError
from dualmctx.models.game_model import mask_illegal
from dualmctx.training.batch import PERMUTED, TrainingBatch
from dualmctx.training.replay import Replay
from dualmctx.types import Params, PolicyValueNetwork


@dataclasses.dataclass(frozen=True)
class Learner:
    """Options of the learner.

    Raises:
      ValueError: if an option is out of range.
    """

    learning_rate: float = 1e-3
    """Peak of the schedule: a linear warm-up, then a cosine decay to a tenth of the peak."""
    warmup_steps: int = 50
    """Optimiser steps of the warm-up."""
    weight_decay: float = 1e-4
    """Weight decay of AdamW, on matrices and kernels only."""
    max_gradient_norm: float = 1.0
    """Gradients are scaled down to this global norm; inf disables clipping."""
    value_weight: float = 1.0
    """Weight of the squared error of the value, relative to the cross-entropy of the policy."""
    search_value_weight: float = 0.0
    """Weight of the search value in the value target, in [0, 1]; the rest is the result of the
    game. If it is above 0, positions without a result, or with a result that follows from random
    moves, have the search value as their target."""
    batch_size: int = 256
    """Positions per optimiser step."""
    num_updates: int = 16
    """Optimiser steps per iteration. The replay ratio, which is the average number of times that a
    position is learned, is num_updates * batch_size / (num_games * num_steps). Each row of the
    metrics contains it."""
    capacity: int = 65_536
    """Positions in the replay buffer."""
    augment: bool = False
    """Whether to apply a uniformly sampled symmetry of the game to each position of a batch. An
    error for games without symmetries, and in `make_trainer` without an `augment_fn`."""

    def __post_init__(self) -> None:
        """Checks the options."""
        normalize_options(self)
        for name in ("batch_size", "num_updates", "capacity"):
            check_count(name, getattr(self, name), 1)
        check_count("warmup_steps", self.warmup_steps, 0)
        check_positive(self, "learning_rate")
        check_not_negative(self, "weight_decay", "value_weight")
        check_share(self, "search_value_weight")
        check_norm("max_gradient_norm", self.max_gradient_norm)


class Losses(NamedTuple):
    """Means over a batch, one number per head.

    Attributes:
      policy: `[H]` cross-entropy minus the entropy of the target, in nats; 0 is a perfect fit.
      value: `[H]` squared error over the positions with a known target.
      target_entropy: scalar, entropy of the policy target, in nats. It decreases during training,
        as the weights of the search concentrate on fewer actions. An untrained network has a policy
        loss near 0, so the measure of progress is the cross-entropy, the sum of policy loss and
        target entropy.
    """

    policy: chex.Array
    value: chex.Array
    target_entropy: chex.Array


AugmentFn = Callable[[chex.PRNGKey, TrainingBatch], TrainingBatch]
"""Transforms a batch of positions before it is learned; consumes the key."""


def check_augment(options: Learner, augment_fn: AugmentFn | None) -> None:
    """Checks that a learner that augments has a function for it."""
    if options.augment and augment_fn is None:
        raise UserError(
            "augment is True, but there is no augment_fn; pass "
            "augment_fn=training.make_augment(*games.symmetries(env)), or leave augment False"
        )


def make_optimizer(options: Learner, num_steps: int) -> optax.GradientTransformation:
    """Returns AdamW with gradient clipping and a schedule over `num_steps` optimiser steps."""
    warmup = min(options.warmup_steps, max(num_steps - 1, 0))
    schedule = optax.warmup_cosine_decay_schedule(
        init_value=0.0 if warmup else options.learning_rate,
        peak_value=options.learning_rate,
        warmup_steps=warmup,
        decay_steps=max(num_steps, warmup + 1),
        end_value=options.learning_rate / 10,
    )

    def is_decayed(params: Params) -> Any:
        return jax.tree.map(lambda x: x.ndim > 1, params)

    return optax.chain(
        optax.clip_by_global_norm(options.max_gradient_norm),
        optax.adamw(schedule, weight_decay=options.weight_decay, mask=is_decayed),
    )


def compute_losses(
    network: PolicyValueNetwork,
    params: Params,
    batch: TrainingBatch,
    search_value_weight: float = 0.0,
) -> Losses:
    """Computes the losses of all heads on `[M]` positions.

    Formula, for each head h: Σ_a π(a) log(π(a) / p_h(a)) and (z − v_h)², with the same π and z for
    all heads. z is `TrainingBatch.value_target(search_value_weight)`.

    Source: Kadam, Xu, Lieberherr 2021 name no loss for two heads. The sum of AlphaZero's loss over
    the heads is our reading.
    """
    target, is_known = batch.value_target(search_value_weight)
    known = is_known.astype(jnp.float32)
    num_known = jnp.maximum(jnp.sum(known), 1)
    policy_losses, value_losses = [], []
    for output in network.apply(params, batch.observation):
        logits = mask_illegal(output.logits, batch.legal_action_mask)
        divergence = optax.losses.kl_divergence(jax.nn.log_softmax(logits), batch.policy)
        policy_losses.append(jnp.mean(divergence))
        value_losses.append(jnp.sum(known * (target - output.value) ** 2) / num_known)
    entropy = jnp.mean(jnp.sum(jax.scipy.special.entr(batch.policy), axis=-1))
    return Losses(jnp.stack(policy_losses), jnp.stack(value_losses), entropy)


def make_learn(
    network: PolicyValueNetwork,
    optimizer: optax.GradientTransformation,
    replay: Replay,
    options: Learner,
    *,
    augment_fn: AugmentFn | None = None,
) -> Callable[[Params, Any, Any, chex.PRNGKey], tuple[Params, Any, Losses]]:
    """Returns a function that takes `num_updates` optimiser steps.

    Args:
      network: a `dualmctx.models.network.Network`.
      optimizer: an optimiser of optax, such as that of `make_optimizer`.
      replay: the replay buffer, which must hold at least one position when the function is called.
      options: options of the learner; those of the optimiser and the buffer are not used.
      augment_fn: transforms each batch before it is learned, see `make_augment`; `None` leaves
        batches unchanged.

    Returns:
      `(params, opt_state, buffer_state, rng_key) -> (params, opt_state, losses)`, to be jitted,
      where `buffer_state` is the state of `replay`. The losses are means over the steps. The key is
      consumed.

    Raises:
      ValueError: if `options.augment` is true and there is no `augment_fn`.
    """
    check_augment(options, augment_fn)

    def loss_fn(params: Params, batch: TrainingBatch) -> tuple[chex.Array, Losses]:
        losses = compute_losses(network, params, batch, options.search_value_weight)
        return jnp.sum(losses.policy + options.value_weight * losses.value), losses

    def learn(params: Params, opt_state: Any, buffer_state: Any, rng_key: chex.PRNGKey) -> tuple:
        def step(carry: tuple[Params, Any], key: chex.PRNGKey) -> tuple:
            params, opt_state = carry
            sample_key, augment_key = jax.random.split(key)
            batch = replay.sample(buffer_state, sample_key)
            if augment_fn is not None:
                batch = augment_fn(augment_key, batch)
            gradients, losses = jax.grad(loss_fn, has_aux=True)(params, batch)
            updates, opt_state = optimizer.update(gradients, opt_state, params)
            return (optax.apply_updates(params, updates), opt_state), losses

        keys = jax.random.split(rng_key, options.num_updates)
        (params, opt_state), losses = jax.lax.scan(step, (params, opt_state), keys)
        return params, opt_state, jax.tree.map(lambda x: jnp.mean(x, axis=0), losses)

    return learn


def make_augment(observation_index: Any, action_index: Any) -> AugmentFn:
    """Returns a function that applies a uniformly sampled symmetry to each position.

    The network therefore learns all symmetric forms of each position. A symmetry permutes the
    fields `PERMUTED`: the observation, the legal actions and the policy. Their new entry i is the
    old entry `index[s, i]`, with the same s for all fields of a position. The other fields, such as
    the value, do not change.

    Args:
      observation_index: `[S, D]` int32, a permutation of the flattened observation for each of the
        S symmetries, such as `games.symmetries(env).observation`.
      action_index: `[S, A]` int32, the same for the actions.

    Returns:
      `(rng_key, batch) -> batch`, for `[M]` positions; the key is consumed.

    Raises:
      ValueError: if the identity is the only symmetry.

    Source: Silver et al. 2017 (AlphaGo Zero), "Neural network training", which uses the eight
    symmetries of the square.
    """
    num_symmetries = len(action_index)
    if num_symmetries < 2:
        raise UserError("augment is True, but the game has no symmetries; leave augment False")

    def augment(rng_key: chex.PRNGKey, batch: TrainingBatch) -> TrainingBatch:
        symmetry = jax.random.randint(rng_key, batch.policy.shape[:1], 0, num_symmetries)
        indices = {
            "observation": jnp.asarray(observation_index)[symmetry],
            "action": jnp.asarray(action_index)[symmetry],
        }
        fields = {}
        for name, kind in PERMUTED.items():
            x, index = getattr(batch, name), indices[kind]
            permuted = jnp.take_along_axis(x.reshape(index.shape), index, axis=1)
            fields[name] = permuted.reshape(x.shape)
        return batch._replace(**fields)

    return augment
