"""A preset for games without one: a configuration that follows from measurements of the game."""

import dataclasses
import math
from typing import Any, NamedTuple

import jax

import games
from dualmctx.policies import Dual, Execution
from dualmctx.training.config import Config, EvalConfig, NetworkOptions
from dualmctx.training.learner import Learner
from dualmctx.training.selfplay import SelfPlay
from dualmctx.types import Environment, tree_budgets
from games.contract import KEY, find_static_faults, unusable
from games.contract_check import play_and_check

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
      ValueError: if the games break the contract of games, for example by hidden information, or
        are all over after the first move, so that there is nothing to learn.
    """
    if faults := find_static_faults(env):
        raise unusable(env, "trained", faults[0].problem)
    played, faults = play_and_check(env, jax.random.PRNGKey(0), _NUM_GAMES, _MAX_PLIES)
    if faults:
        raise unusable(env, "trained", faults[0].problem)
    if played.plies.max() < 2:
        raise unusable(env, "trained", f"random games have at most {played.plies.max()} plies")
    observation: Any = jax.eval_shape(env.init, KEY).observation
    return GameSize(
        num_actions=env.num_actions,
        observation_shape=tuple(env.observation_shape),
        observation_bytes=observation.size * observation.dtype.itemsize,
        mean_plies=float(played.plies.mean()),
        max_plies=int(played.plies.max()),
        num_symmetries=len(games.symmetries(env).action),
    )


def neutral_preset(game: str, size: GameSize) -> Config:
    """Chooses a configuration for a game of this name from its size.

    The values are those of the presets of games of similar size. They show progress on two CPU
    cores within ten minutes; strong play needs larger networks, more simulations and more games.
    """
    is_small, has_many = size.observation_bytes <= 512, size.num_actions >= _MANY_ACTIONS
    num_games, plies = 128 if is_small else 32, size.mean_plies
    num_steps = 8 if plies <= 10 else 16 if plies <= 30 else 32
    execution = Execution(max_children=_FEW_CHILDREN if has_many else None)
    num_cells = math.prod(size.observation_shape[:2])
    # On a board this small, dense layers are faster and learn as well.
    is_board = len(size.observation_shape) == 3 and num_cells > 16
    network = NetworkOptions(width=32) if is_board else NetworkOptions(trunk="mlp")
    return Config(
        game=game,
        search=Dual(num_simulations=(16, 8), num_rounds=4, execution=execution),
        network=dataclasses.replace(network, compact_states=has_many),
        selfplay=SelfPlay(
            num_games=num_games,
            num_steps=num_steps,
            # In the first third of a game, moves are sampled; the first quarter may be random.
            temperature_plies=max(4, round(plies / 3)),
            random_plies=max(1, round(plies / 4)),
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


def describe_neutral_preset(config: Config, size: GameSize, *, has_network: bool = True) -> str:
    """Describes the measurements and the choices, for the user.

    Args:
      config: the preset.
      size: the measurements of the game.
      has_network: whether the network of the preset is used, not one of the user.
    """
    shape = " × ".join(map(str, size.observation_shape)) or "1"
    search, network = config.search, config.network
    total = sum(tree_budgets(search))
    symmetries = f", {size.num_symmetries} symmetries" if size.num_symmetries > 1 else ""
    blocks = f"{network.num_blocks} blocks of width {network.width}, " if has_network else ""
    return (
        f"{config.game} has no preset; a neutral one is used for {size.num_actions} actions, "
        f"observations of {shape}, and random games of {size.mean_plies:.0f} plies on average (at "
        f"most {size.max_plies}){symmetries}: {type(search).__name__} with {total} simulations, "
        f"{blocks}{config.selfplay.num_games} games "
        f"of {config.selfplay.num_steps} moves per iteration, buffer of "
        f"{config.learner.capacity:,} positions. Flags change each value"
    )


def _capacity(size: GameSize, num_added: int) -> int:
    """Returns a power of two: about 32 iterations, within `_BUFFER_BYTES`, at least one."""
    # A position has an observation, action weights in float32 and a mask.
    num_bytes = size.observation_bytes + 5 * size.num_actions
    most = max(_BUFFER_BYTES // num_bytes, 2 * num_added)
    return 2 ** (min(most, 32 * num_added).bit_length() - 1)
