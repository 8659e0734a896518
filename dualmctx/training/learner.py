"""The learner: a loss over all heads, and many optimiser steps as one program."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import chex
import jax
import jax.numpy as jnp
import optax

from dualmctx.checks import (
    check,
    check_count,
    check_not_negative,
    check_positive,
    check_share,
)
from dualmctx.models.game_model import mask_illegal
from dualmctx.training.replay import draw
from dualmctx.training.targets import TrainingBatch
from dualmctx.types import Params, PolicyValueNetwork


@dataclasses.dataclass(frozen=True)
class Learner:
    """How the network learns.

    Raises:
      ValueError: when an option is out of range, in one line.
    """

    learning_rate: float = 1e-3
    """Peak of the schedule: a linear warm-up, then a cosine down to a tenth of it."""
    warmup_steps: int = 50
    """Optimiser steps of the warm-up."""
    weight_decay: float = 1e-4
    """AdamW's weight decay, on matrices and kernels only."""
    max_gradient_norm: float = 1.0
    """Gradients are scaled down to this global norm; inf leaves them as they are."""
    value_weight: float = 1.0
    """Weight of the value's squared error beside the policy's cross-entropy."""
    search_value_weight: float = 0.0
    """Share of the search's value in the value's target, the rest being the game's result; above
    0, positions whose result is unknown, or comes of random moves, have the search's value."""
    batch_size: int = 256
    """Positions an optimiser step."""
    num_updates: int = 16
    """Optimiser steps an iteration. The replay ratio, how often a position is learned on average,
    is num_updates * batch_size / (num_games * num_steps); it stands in each row of the metrics."""
    capacity: int = 65_536
    """Positions in the replay buffer."""
    augment: bool = False
    """Whether each position drawn is seen by a symmetry of its game, drawn uniformly; refused for
    games that have none."""

    def __post_init__(self) -> None:
        """Checks the options."""
        for name in ("batch_size", "num_updates", "capacity"):
            check_count(name, getattr(self, name), 1)
        check_count("warmup_steps", self.warmup_steps, 0)
        check_positive(self, "learning_rate")
        check_not_negative(self, "weight_decay", "value_weight")
        check_share(self, "search_value_weight")
        # Infinite, it scales nothing.
        norm = self.max_gradient_norm
        check(norm > 0, "max_gradient_norm", norm, "positive")


class Losses(NamedTuple):
    """Means over a batch, a number a head.

    Attributes:
      policy: `[H]` cross-entropy less the target's entropy, in nats; 0 is a perfect fit.
      value: `[H]` squared error where the target is known.
      target_entropy: scalar, of the policy's target, in nats. It falls as searches become decided:
        the policy loss of a network that knows nothing is 0 at first, and the cross-entropy, the
        sum of both, is what falls.
    """

    policy: chex.Array
    value: chex.Array
    target_entropy: chex.Array


AugmentFn = Callable[[chex.PRNGKey, TrainingBatch], TrainingBatch]
"""Changes a batch of positions into others to learn from; consumes the key."""


class LearnFn(Protocol):
    """Takes optimiser steps; see `make_learn`."""

    def __call__(
        self, params: Params, opt_state: Any, buffer_state: Any, rng_key: chex.PRNGKey
    ) -> tuple[Params, Any, Losses]:
        """Takes an iteration's steps; consumes the key."""
        ...


def make_optimizer(options: Learner, num_steps: int) -> optax.GradientTransformation:
    """Makes AdamW with gradient clipping and a schedule over `num_steps` optimiser steps."""
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
    samples: TrainingBatch,
    search_value_weight: float = 0.0,
) -> Losses:
    """Computes the losses of every head on `[M]` positions.

    Formula, a head: Σ_a π(a) log(π(a) / p_h(a)) and (z − v_h)², with the same π and z for all. With
    a `search_value_weight`, z is `TrainingBatch.value_target` of it.

    Source: Kadam, Xu, Lieberherr 2021 name no loss for two heads; the sum of AlphaZero's over
    them is our reading.
    """
    target, is_known = samples.value_target(search_value_weight)
    known = is_known.astype(jnp.float32)
    num_known = jnp.maximum(jnp.sum(known), 1)
    policy_losses, value_losses = [], []
    for output in network.apply(params, samples.observation):
        logits = mask_illegal(output.logits, samples.legal_action_mask)
        divergence = optax.losses.kl_divergence(jax.nn.log_softmax(logits), samples.policy)
        policy_losses.append(jnp.mean(divergence))
        value_losses.append(jnp.sum(known * (target - output.value) ** 2) / num_known)
    entropy = jnp.mean(jnp.sum(jax.scipy.special.entr(samples.policy), axis=-1))
    return Losses(jnp.stack(policy_losses), jnp.stack(value_losses), entropy)


def make_learn(
    network: PolicyValueNetwork,
    optimizer: optax.GradientTransformation,
    buffer: Any,
    options: Learner,
    *,
    change_fn: AugmentFn = lambda rng_key, samples: samples,
) -> LearnFn:
    """Makes the function that takes an iteration's optimiser steps.

    Args:
      network: a `dualmctx.models.network.Network`.
      optimizer: as `make_optimizer` makes it.
      buffer: the replay buffer, which holds at least one position.
      options: how the network learns.
      change_fn: what becomes of a batch of positions before it is learned.

    Returns:
      `(params, opt_state, buffer_state, rng_key) -> (params, opt_state, losses)`, to be jitted;
      the losses are means over the steps, and the key is consumed.
    """

    def loss_fn(params: Params, samples: TrainingBatch) -> tuple[chex.Array, Losses]:
        losses = compute_losses(network, params, samples, options.search_value_weight)
        return jnp.sum(losses.policy + options.value_weight * losses.value), losses

    def learn(params: Params, opt_state: Any, buffer_state: Any, rng_key: chex.PRNGKey) -> tuple:
        def step(carry: tuple[Params, Any], key: chex.PRNGKey) -> tuple:
            params, opt_state = carry
            draw_key, change_key = jax.random.split(key)
            samples = change_fn(change_key, draw(buffer, buffer_state, draw_key))
            gradients, losses = jax.grad(loss_fn, has_aux=True)(params, samples)
            updates, opt_state = optimizer.update(gradients, opt_state, params)
            return (optax.apply_updates(params, updates), opt_state), losses

        keys = jax.random.split(rng_key, options.num_updates)
        (params, opt_state), losses = jax.lax.scan(step, (params, opt_state), keys)
        return params, opt_state, jax.tree.map(lambda x: jnp.mean(x, axis=0), losses)

    return learn
