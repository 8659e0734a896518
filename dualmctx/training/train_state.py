"""The state of training: its fields, its initial value and its partition over devices."""

from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import optax

from dualmctx.distributed.devices import REPLICATED, SHARDED
from dualmctx.training.replay import Replay
from dualmctx.training.selfplay import PlayFn, SelfPlay, SelfPlayState, start_games
from dualmctx.training.targets import make_training_batch
from dualmctx.types import Environment, Params, PolicyValueNetwork


class TrainState(NamedTuple):
    """The complete state of training, as a checkpoint holds it.

    Attributes:
      params: the parameters of the network.
      opt_state: the state of the optimiser.
      buffer_state: the replay buffer.
      games: the games in progress.
      rng_key: raw key, split in each iteration.
      iteration: scalar int32, number of completed iterations.
    """

    params: Params
    opt_state: Any
    buffer_state: Any
    games: SelfPlayState
    rng_key: chex.PRNGKey
    iteration: chex.Array


def make_init(
    env: Environment,
    network: PolicyValueNetwork,
    selfplay: SelfPlay,
    play: PlayFn,
    replay: Replay,
    optimizer: optax.GradientTransformation,
) -> Callable[[chex.PRNGKey], TrainState]:
    """Returns a function that makes the initial state from a key, which is consumed."""

    def init(rng_key: chex.PRNGKey) -> TrainState:
        params_key, games_key, rng_key = jax.random.split(rng_key, 3)
        keys = jax.random.split(games_key, selfplay.num_games)
        games = start_games(env, keys, selfplay)
        params = network.init(params_key, games.state.observation[:1])
        trajectory = jax.eval_shape(play, params, keys, games)[1]
        batch = jax.eval_shape(make_training_batch, trajectory)
        return TrainState(
            params=params,
            opt_state=optimizer.init(params),
            buffer_state=replay.init(batch),
            games=games,
            rng_key=rng_key,
            iteration=jnp.int32(0),
        )

    return init


def partition_specs(state: TrainState) -> TrainState:
    """Returns the partition of each array: games and positions are sharded, others replicated."""
    specs = jax.tree.map(lambda _: REPLICATED, state)
    games, experience = jax.tree.map(
        lambda _: SHARDED, (state.games, state.buffer_state.experience)
    )
    buffer_state = specs.buffer_state.replace(experience=experience)
    return specs._replace(games=games, buffer_state=buffer_state)
