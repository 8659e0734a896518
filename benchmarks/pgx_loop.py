"""pgx's AlphaZero example as a training loop, for `benchmarks.throughput`.

This is a new implementation of the example's algorithm:

- Each iteration starts new games. A step of all games is one of mctx's searches from whole pgx
  states, and pgx's auto-reset.
- A game that the iteration cuts off has no value target.
- Samples are copied to the host and shuffled there. Each is learned once, one minibatch per call,
  with Adam.

Deviations: there is no evaluation against a baseline and there are no checkpoints. One device runs
with `jax.jit` in place of `pmap`. The network is any Flax network of ours, which has no state
except its parameters, in place of a Haiku network with BatchNorm. In addition to the example's
Gumbel search there is mctx's MuZero search.

Every iteration starts new games, so a position has a value target only if its game ends within the
iteration. The example plays 256 moves; with few moves, nearly all values are masked, at the same
cost.

Source: pgx 2 (sotetsuk/pgx, examples/alphazero/train.py).
"""

import functools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import mctx
import optax

from dualmctx.types import Environment, PolicyValueNetwork

SEARCHES = {
    "gumbel": functools.partial(
        mctx.gumbel_muzero_policy, qtransform=mctx.qtransform_completed_by_mix_value
    ),
    "muzero": mctx.muzero_policy,
}


class Sizes(NamedTuple):
    """The sizes of an iteration: games, moves per game, simulations, positions per step."""

    num_games: int
    num_steps: int
    num_simulations: int
    batch_size: int
    learning_rate: float = 1e-3


class Step(NamedTuple):
    """Moves played; `[T, B, ...]` each."""

    observation: Any
    action_weights: Any
    reward: Any
    discount: Any
    is_end: Any


class Sample(NamedTuple):
    """Positions to learn from; `has_value` is false if the game was cut off."""

    observation: Any
    action_weights: Any
    value: Any
    has_value: Any


class Loop(NamedTuple):
    """The loop: `init(seed) -> state`, and `iterate(state) -> (state, metrics)`."""

    init: Callable[[int], Any]
    iterate: Callable[[Any], tuple[Any, dict[str, float]]]


def make_loop(env: Environment, network: PolicyValueNetwork, search: str, sizes: Sizes) -> Loop:
    """Makes the loop; `search` is one of SEARCHES, and only the network's last head is used."""
    optimizer = optax.adam(sizes.learning_rate)
    play = jax.jit(make_play(env, network, SEARCHES[search], sizes))
    to_samples = jax.jit(make_samples)

    def init(seed: int) -> tuple:
        key, params_key = jax.random.split(jax.random.PRNGKey(seed))
        params = jax.jit(network.init)(params_key, jnp.zeros((1, *env.observation_shape)))
        return params, optimizer.init(params), key

    @jax.jit
    def learn(params: Any, opt_state: Any, batch: Sample) -> tuple:
        gradient, losses = jax.grad(loss, has_aux=True)(params, network, batch)
        updates, opt_state = optimizer.update(gradient, opt_state)
        return optax.apply_updates(params, updates), opt_state, losses

    def iterate(state: tuple) -> tuple:
        params, opt_state, key = state
        key, play_key, shuffle_key = jax.random.split(key, 3)
        start = time.perf_counter()
        samples = jax.device_get(to_samples(play(params, play_key)))
        middle = time.perf_counter()
        samples = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), samples)
        order = jax.random.permutation(shuffle_key, len(samples.value))
        samples = jax.tree.map(lambda x: x[order], samples)
        found = []
        for first in range(0, len(order) - sizes.batch_size + 1, sizes.batch_size):
            batch = jax.tree.map(
                lambda x, first=first: x[first : first + sizes.batch_size], samples
            )
            params, opt_state, losses = learn(params, opt_state, batch)
            found.append([loss.item() for loss in losses])
        end = time.perf_counter()
        metrics = {"policy_loss": found[-1][0], "value_loss": found[-1][1], "updates": len(found)}
        seconds = {"selfplay_seconds": middle - start, "learn_seconds": end - middle}
        return (params, opt_state, key), metrics | {"positions": len(order)} | seconds

    return Loop(init, iterate)


def make_model(env: Environment, network: PolicyValueNetwork) -> tuple[Callable, Callable]:
    """Makes `(params, state) -> (logits, value)` and a recurrent_fn for mctx, on pgx states."""

    def evaluate(params: Any, state: Any) -> tuple:
        output = network.apply(params, state.observation)[-1]
        logits = output.logits - jnp.max(output.logits, axis=-1, keepdims=True)
        lowest = jnp.finfo(logits.dtype).min
        return jnp.where(state.legal_action_mask, logits, lowest), output.value

    def recurrent_fn(params: Any, rng_key: Any, action: Any, before: Any) -> tuple:
        del rng_key
        state = jax.vmap(env.step)(before, action)
        logits, value = evaluate(params, state)
        output = mctx.RecurrentFnOutput(
            reward=reward_of(before, state),
            discount=jnp.where(state.terminated, 0.0, -1.0),
            prior_logits=logits,
            value=jnp.where(state.terminated, 0.0, value),
        )
        return output, state

    return evaluate, recurrent_fn


def make_search(
    env: Environment,
    network: PolicyValueNetwork,
    search: Callable,
    num_simulations: int,
    **options: float,
) -> Callable:
    """Makes `(params, rng_key, state) -> mctx.PolicyOutput` from one of mctx's searches."""
    evaluate, recurrent_fn = make_model(env, network)

    def run(params: Any, rng_key: Any, state: Any) -> Any:
        logits, value = evaluate(params, state)
        return search(
            params=params,
            rng_key=rng_key,
            root=mctx.RootFnOutput(prior_logits=logits, value=value, embedding=state),
            recurrent_fn=recurrent_fn,
            num_simulations=num_simulations,
            invalid_actions=~state.legal_action_mask,
            **options,
        )

    return run


def make_play(
    env: Environment, network: PolicyValueNetwork, search: Callable, sizes: Sizes
) -> Callable:
    """Makes `(params, key) -> [T, B] Step`, from new games."""
    # pgx creates arrays on import, which needs JAX's devices.
    from pgx.experimental import auto_reset

    run = make_search(env, network, search, sizes.num_simulations)

    def play(params: Any, rng_key: Any) -> Step:
        def step(state: Any, rng_key: Any) -> tuple:
            search_key, reset_key = jax.random.split(rng_key)
            output = run(params, search_key, state)
            keys = jax.random.split(reset_key, sizes.num_games)
            after = jax.vmap(auto_reset(env.step, env.init))(state, output.action, keys)
            return after, Step(
                observation=state.observation,
                action_weights=output.action_weights,
                reward=reward_of(state, after),
                discount=jnp.where(after.terminated, 0.0, -1.0),
                is_end=after.terminated,
            )

        rng_key, init_key = jax.random.split(rng_key)
        state = jax.vmap(env.init)(jax.random.split(init_key, sizes.num_games))
        return jax.lax.scan(step, state, jax.random.split(rng_key, sizes.num_steps))[1]

    return play


def reward_of(before: Any, after: Any) -> Any:
    """Returns `[B]` rewards of the player that moved."""
    return jnp.take_along_axis(after.rewards, before.current_player[:, None], axis=1)[:, 0]


def make_samples(steps: Step) -> Sample:
    """Turns `[T, B]` moves into samples; values are computed back from the end of the game."""

    def body(value: Any, step: tuple) -> tuple:
        reward, discount = step
        value = reward + discount * value
        return value, value

    start = jnp.zeros(steps.reward.shape[1])
    _, value = jax.lax.scan(body, start, (steps.reward, steps.discount), reverse=True)
    ends_to_come = jnp.cumsum(steps.is_end[::-1], axis=0)[::-1]
    return Sample(steps.observation, steps.action_weights, value, ends_to_come >= 1)


def loss(params: Any, network: PolicyValueNetwork, batch: Sample) -> tuple:
    """Returns the cross-entropy plus half the squared error, and the two terms."""
    output = network.apply(params, batch.observation)[-1]
    policy = jnp.mean(optax.softmax_cross_entropy(output.logits, batch.action_weights))
    value = jnp.mean(optax.l2_loss(output.value, batch.value) * batch.has_value)
    return policy + value, (policy, value)
