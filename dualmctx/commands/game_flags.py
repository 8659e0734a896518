"""The configuration of a training run that names a game instead of a preset."""

import dataclasses
import re
import sys
from typing import NamedTuple

import games
from dualmctx.commands.flags import parse_flags
from dualmctx.distributed.backend import require_backend
from dualmctx.errors import UserError
from dualmctx.import_path import is_import_path
from dualmctx.training.config import Config
from dualmctx.training.neutral_preset import describe_neutral_preset, measure_game, neutral_preset
from dualmctx.training.presets import PRESETS


@dataclasses.dataclass(frozen=True)
class GameFlags:
    """The game and its parameters."""

    game: str = ""
    """The name of the game, or package.module:factory."""
    game_parameters: dict[str, int | float] = dataclasses.field(default_factory=dict)
    """Parameters of the game, such as `k 4 q 4 n 16`."""


class Preset(NamedTuple):
    """A preset with its name, which is also the name of the run's folder."""

    name: str
    config: Config


def preset_of_game(
    arguments: list[str], program: str, default: GameFlags | None = None
) -> Preset | None:
    """Returns the preset of the game that flags name, or a neutral preset for that game.

    A neutral preset follows from random games, which are played here. It is described on standard
    error.

    Args:
      arguments: the flags, perhaps with `--game`, `--game-parameters`, and others.
      program: the program's name, for messages.
      default: the game without these flags.

    Returns:
      The preset; `None` if no game is named.

    Raises:
      ValueError: if the game cannot be built, or the run has several processes: these must join
        before any computation.
    """
    given = [*_take(arguments, "game"), *_take(arguments, "game-parameters")]
    flags = parse_flags(default or GameFlags(), given, program, "")
    if not flags.game:
        return None
    name = run_name(flags.game)
    if name in PRESETS and not is_import_path(flags.game):
        return Preset(name, PRESETS[name])
    if _take(arguments, "coordinator"):
        raise UserError(
            f"{flags.game} has no preset, and a neutral one needs random games, which cannot be "
            "played before the processes of --coordinator have joined; name a preset, and --game "
            "with its values"
        )
    require_backend(program)
    env = games.make(flags.game, **flags.game_parameters)
    size = measure_game(env)
    config = neutral_preset(flags.game, size)
    has_network = not _take(arguments, "network.factory")
    text = describe_neutral_preset(config, size, has_network=has_network)
    print(f"{program}: {text}", file=sys.stderr)
    return Preset(name, config)


def run_name(game: str) -> str:
    """Returns the name of the runs of a game that has no preset, also of their folder."""
    return re.sub(r"[^A-Za-z0-9]+", "-", game).strip("-")


def _take(arguments: list[str], name: str) -> list[str]:
    """Returns the last occurrence of a flag with its values; nothing if it does not occur."""
    found: list[str] = []
    is_inside = False
    for argument in arguments:
        if argument.startswith("--"):
            is_inside = argument.split("=")[0].replace("_", "-") == f"--{name}"
            found = [] if is_inside else found
        if is_inside:
            found.append(argument)
    return found
