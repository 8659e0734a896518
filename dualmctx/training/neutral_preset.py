"""A preset for games without one: a configuration that follows from measurements of the game."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import games
from dualmctx.policies import Dual, Execution
from dualmctx.training.config import Config, EvalConfig, NetworkOptions
from dualmctx.training.learner import Learner
from dualmctx.training.selfplay import SelfPlay
from dualmctx.types import Environment

_NUM_GAMES, _MAX_PLIES = 64, 1024
# The replay buffer takes at most this many bytes.
_BUFFER_BYTES = 2**28
# With at least this many actions, a node gets this many children, as in the preset for chess.
_MANY_ACTIONS, _FEW_CHILDREN = 512, 64


class GameSize(NamedTuple):
    """Measurements of a game.

    Attributes:
      num_actions: A.
      observation_shape: the shape of one observation.
      observation_bytes: the bytes of one observation.
      mean_plies: mean length of random games in plies; unfinished games count with their length.
      max_plies: the longest of them.
      num_symmetries: the number of symmetries, with the identity.
    """

    num_actions: int
    observation_shape: tuple[int, ...]
    observation_bytes: int
    mean_plies: float
    max_plies: int
    num_symmetries: int


def measure_game(env: Environment) -> GameSize:
    """Measures a game by 64 random games, of at most 1,024 plies each, with a fixed key.

    Raises:
      ValueError: if all games are over after the first move, so that there is nothing to learn.
    """
    plies = np.asarray(jax.jit(lambda key: _play_randomly(env, key))(jax.random.PRNGKey(0)))
    if plies.max() < 2:
        raise ValueError(
            f"random games of {env.id} have at most {plies.max()} plies; run `dualmctx check-game "
            f"{env.id}` to check the game"
        )
    observation: Any = jax.eval_shape(env.init, jax.random.PRNGKey(0)).observation
    return GameSize(
        num_actions=env.num_actions,
        observation_shape=tuple(env.observation_shape),
        observation_bytes=observation.size * observation.dtype.itemsize,
        mean_plies=float(plies.mean()),
        max_plies=int(plies.max()),
        num_symmetries=len(games.symmetries(env).action),
    )


def _play_randomly(env: Environment, rng_key: jax.Array) -> jax.Array:
    """Returns the lengths of random games."""
    player = jax.vmap(games.random_player())

    def is_running(carry: Any) -> jax.Array:
        ply, state, _ = carry
        return (ply < _MAX_PLIES) & ~(state.terminated | state.truncated).all()

    def play(carry: Any) -> Any:
        ply, state, lengths = carry
        keys = jax.random.split(jax.random.fold_in(rng_key, ply), _NUM_GAMES)
        after = jax.vmap(env.step)(state, player(keys, state))
        return ply + 1, after, lengths + ~(state.terminated | state.truncated)

    state = jax.vmap(env.init)(jax.random.split(rng_key, _NUM_GAMES))
    carry = (jnp.int32(0), state, jnp.zeros(_NUM_GAMES, jnp.int32))
    return jax.lax.while_loop(is_running, play, carry)[2]


def neutral_preset(game: str, size: GameSize) -> Config:
    """Chooses a configuration from the size of a game.

    The values are those of the presets of games of similar size. They show progress on two CPU
    cores within ten minutes; strong play needs larger networks, more simulations and more games.

    Args:
      game: the name of the game.
      size: the measurements of the game.
    """
    is_small = size.observation_bytes <= 512
    num_games, num_steps = 128 if is_small else 32, _steps(size.mean_plies)
    return Config(
        game=game,
        search=_search(size.num_actions),
        network=_network(size),
        selfplay=SelfPlay(
            num_games=num_games,
            num_steps=num_steps,
            # In the first third of a game, moves are sampled; the first quarter may be random.
            temperature_plies=max(4, round(size.mean_plies / 3)),
            random_plies=max(1, round(size.mean_plies / 4)),
        ),
        learner=Learner(
            learning_rate=2e-3,
            batch_size=256 if is_small else 128,
            capacity=_capacity(size, num_games * num_steps),
            augment=size.num_symmetries > 1,
        ),
        evals=EvalConfig(every=10 if is_small else 20, num_games=100 if is_small else 32),
        num_iterations=100,
    )


def describe_neutral_preset(config: Config, size: GameSize) -> str:
    """Describes the measurements and the choices, for the user."""
    shape = " × ".join(map(str, size.observation_shape)) or "1"
    search, network = config.search, config.network
    simulations = search.num_simulations
    total = sum(simulations) if isinstance(simulations, tuple) else simulations
    symmetries = f", {size.num_symmetries} symmetries" if size.num_symmetries > 1 else ""
    return (
        f"{config.game} has no preset; a neutral one is used for {size.num_actions} actions, "
        f"observations of {shape}, and random games of {size.mean_plies:.0f} plies on average (at "
        f"most {size.max_plies}){symmetries}: {type(search).__name__} with {total} simulations, "
        f"{network.num_blocks} blocks of width {network.width}, {config.selfplay.num_games} games "
        f"of {config.selfplay.num_steps} moves per iteration, buffer of "
        f"{config.learner.capacity:,} positions. Flags change each value"
    )


def _steps(mean_plies: float) -> int:
    """Returns the moves per game in each iteration, from 8 in short games to 32 in long ones."""
    return 8 if mean_plies <= 10 else 16 if mean_plies <= 30 else 32


def _search(num_actions: int) -> Dual:
    children = _FEW_CHILDREN if num_actions >= _MANY_ACTIONS else None
    return Dual(num_simulations=(16, 8), num_rounds=4, execution=Execution(max_children=children))


def _network(size: GameSize) -> NetworkOptions:
    num_cells = math.prod(size.observation_shape[:2])
    # On a board this small, dense layers are faster and learn as well.
    if len(size.observation_shape) == 3 and num_cells > 16:
        return NetworkOptions(width=32, compact_states=size.num_actions >= _MANY_ACTIONS)
    return NetworkOptions(trunk="mlp", compact_states=size.num_actions >= _MANY_ACTIONS)


def _capacity(size: GameSize, num_added: int) -> int:
    """Returns a power of two: about 32 iterations, within `_BUFFER_BYTES`, at least one."""
    # A position has an observation, action weights in float32 and a mask.
    num_bytes = size.observation_bytes + 5 * size.num_actions
    most = max(_BUFFER_BYTES // num_bytes, 2 * num_added)
    return 2 ** (min(most, 32 * num_added).bit_length() - 1)
