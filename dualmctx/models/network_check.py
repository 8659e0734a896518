"""Checks that a network keeps the contract of `PolicyValueNetwork`, by evaluating positions."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownMemberType=false

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dualmctx.errors import UserError
from dualmctx.models.adapted_network import evaluate_parts
from dualmctx.models.search_memory import compile_quickly
from dualmctx.models.user_modules import read_head
from dualmctx.types import Environment, Params, PolicyValueNetwork

# Two evaluations of a position may differ by this share of the largest logit, and by this number in
# their values. Rounding in bfloat16 stays below it.
_TOLERANCE = 0.05
# New networks often have heads of zeros, in which mistakes do not show.
_NOISE = 0.1


def check_network(network: PolicyValueNetwork, env: Environment) -> None:
    """Checks a network on two positions of a game: its start, and the position after one move.

    The parameters are new ones, with noise for most checks. It compiles for some seconds.

    Args:
      network: the network.
      env: the game, as `games.make` returns it.

    Raises:
      ValueError: if an output has the wrong shape or is not finite, or a value is not in [-1, 1];
        if the evaluation of a position depends on the other positions of the batch; or if `begin`
        or `resume` differs from an evaluation by all heads.
    """
    key = jax.random.PRNGKey(0)
    observation = compile_quickly(functools.partial(_two_observations, env), key)(key)
    params = compile_quickly(network.init, key, observation[:1])(key, observation[:1])
    noisy = _with_noise(params)

    def join(output: Any, observation: Array) -> Array:
        """Returns `[M, A + 1]`: the logits and the value of a head."""
        logits, value = read_head(output, observation.shape[0], env.num_actions)
        return jnp.concatenate([logits, value[:, None]], axis=1)

    def evaluate(params: Params, observation: Array) -> list[Array]:
        return [join(output, observation) for output in network.apply(params, observation)]

    def evaluate_calls(params: Params, observation: Array) -> dict[str, tuple[int, Array]]:
        parts = evaluate_parts(network, params, observation)
        return {name: (head, join(x, observation)) for name, (head, x) in parts.items()}

    evaluate_two = compile_quickly(evaluate, params, observation)
    for head, output in enumerate(evaluate_two(params, observation)):
        _check_numbers(head, np.asarray(output))
    whole = evaluate_two(noisy, observation)
    if len(whole) != len(network.head_depths):
        depths = len(network.head_depths)
        raise UserError(f"the network has {len(whole)} heads, but {depths} head_depths")
    alone = compile_quickly(evaluate, noisy, observation[:1])(noisy, observation[:1])
    for head, output in enumerate(alone):
        batch = f"head {head} evaluates a position differently beside another position"
        _compare(output, whole[head][:1], f"{batch}; use no normalisation over the batch")
    parts = compile_quickly(evaluate_calls, noisy, observation)(noisy, observation)
    for name, (head, output) in parts.items():
        _compare(output, whole[int(head)], f"{name} differs from head {head} of all heads")


def _two_observations(env: Environment, key: Array) -> Array:
    start = env.init(key)
    after = env.step(start, jnp.argmax(start.legal_action_mask).astype(jnp.int32))
    return jnp.stack([start.observation, env.observe(after)])


def _with_noise(params: Params) -> Params:
    generator = np.random.default_rng(0)

    def add_noise(x: Array) -> Array:
        return x + jnp.asarray(generator.normal(0, _NOISE, x.shape), x.dtype)

    return jax.tree.map(add_noise, params)


def _check_numbers(head: int, output: Any) -> None:
    if not np.isfinite(output).all():
        wrong = output[~np.isfinite(output)][0]
        raise UserError(
            f"head {head} of a new network returns {wrong}; its logits and values must be finite"
        )
    largest = np.abs(output[:, -1]).max()
    if largest > 1:
        raise UserError(
            f"head {head} of a new network returns a value of size {largest:.3g}; values must be "
            "in [-1, 1]: apply jnp.tanh to them"
        )


def _compare(output: Any, expected: Any, problem: str) -> None:
    output, expected = np.asarray(output), np.asarray(expected)
    for part, size in ((slice(-1), np.abs(expected[:, :-1]).max()), (slice(-1, None), 1.0)):
        one, other = output[:, part], expected[:, part]
        difference = np.abs(one - other)
        # The comparison is false for NaN.
        if not (difference <= _TOLERANCE * max(1.0, float(size))).all():
            place = int(difference.argmax())
            raise UserError(f"{problem} ({one.flat[place]:.3g} and {other.flat[place]:.3g})")
