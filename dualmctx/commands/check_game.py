"""`dualmctx check-game GAME`: checks a game of the user against the contract of games."""

import dataclasses
import sys
from typing import Annotated, Any

import games
from dualmctx.checks import check_seed
from dualmctx.commands.flags import REQUIRED, Positional, named, parse_flags
from dualmctx.distributed.backend import require_backend
from dualmctx.import_path import call_factory, is_import_path
from games.contract import find_static_faults
from games.contract_check import check_game

_PROGRAM = "dualmctx check-game"
_DESCRIPTION = """Checks a game: whether JAX can trace and batch it, its shapes, and 128 random
games: legal actions, rewards, the end of a game, the order of the players, two players, no chance
and no hidden information, and the optional abilities. Names each fault and its remedy. Exit codes:
0 without a fault, 2 otherwise. games/README.md describes the contract."""


@dataclasses.dataclass(frozen=True)
class Options:
    """The game and its parameters."""

    game: Positional[Annotated[str, named(metavar="GAME")]] = REQUIRED
    """package.module:factory, or the name of a game."""
    game_parameters: dict[str, int | float] = dataclasses.field(default_factory=dict)
    """Parameters of the game, such as `size 5`."""
    seed: int = 0
    """Seed of the random games."""


def main(arguments: list[str]) -> int:
    """Runs the command; returns its exit code."""
    options = parse_flags(Options(), arguments, _PROGRAM, _DESCRIPTION)
    check_seed(options.seed)
    require_backend(_PROGRAM)
    checked = check_game(_build(options), seed=options.seed)
    for line in checked.facts:
        print(line)
    if not checked.faults:
        print(f"{options.game}: nothing is wrong")
        return 0
    for number, fault in enumerate(checked.faults, start=1):
        print(f"{number}. {fault.problem}\n   Remedy: {fault.remedy}.", file=sys.stderr)
    number = len(checked.faults)
    print(f"{_PROGRAM}: {options.game} has {number} fault{'s' * (number > 1)}", file=sys.stderr)
    return 2


def _build(options: Options) -> Any:
    """Builds the game; a faulty one as the factory returns it, so that all faults are found."""
    if is_import_path(options.game):
        env = call_factory(options.game, options.game_parameters, "game")
        if find_static_faults(env):
            return env
    return games.make(options.game, **options.game_parameters)
