"""Players that are programs of others: those that speak GTP or UCI."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from dualmctx.checks import check_count, check_number
from dualmctx.errors import UserError
from dualmctx.matches.players import HostMover, Player
from dualmctx.programs.engine import Engine
from dualmctx.programs.gtp import GtpEngine
from dualmctx.programs.pool import EnginePool
from dualmctx.programs.uci import UciEngine
from dualmctx.types import Environment

LIMITS = ("nodes", "depth", "movetime")
"""The limits of a move in UCI; the last one is in milliseconds."""


def gtp_player(
    env: Environment,
    command: str,
    *,
    timeout: float = 60.0,
    num_processes: int | None = None,
    name: str | None = None,
) -> Player:
    """Builds a player from a program that speaks the Go Text Protocol.

    Each game in progress has a process of its own, which is started at once to check it, and then
    with the first moves. `player.mover.close()` ends them all.

    Args:
      env: a game of `games.make`, but not chess and Gardner's chess; its sides must alternate.
      command: the command, as in a shell; `{seed}` in it is replaced by a number, and each game
        then starts the program anew.
      timeout: the longest time in seconds for an answer.
      num_processes: how many programs think at the same time; by default one for each core.
      name: name of the player; by default `gtp:` and the command.

    Raises:
      UserError: if the program cannot be started, does not answer, or the game does not fit.
    """
    _check_timeout(timeout)
    about = {"player": "gtp", "command": command, "timeout": timeout}
    make = functools.partial(GtpEngine, env, command, timeout)
    return _build(name or f"gtp:{command}", make, num_processes, about)


def uci_player(
    env: Environment,
    command: str,
    *,
    limits: Mapping[str, int],
    options: Mapping[str, str] | None = None,
    timeout: float = 60.0,
    num_processes: int | None = None,
    name: str | None = None,
) -> Player:
    """Builds a player from a program that speaks UCI; see `gtp_player`.

    Args:
      env: chess or Gardner's chess.
      command: the command.
      limits: limits of a move: `nodes`, `depth`, `movetime` (milliseconds), at least one of them.
      options: options of the program, such as `{"Hash": "16"}`.
      timeout: the longest time in seconds for an answer, longer than `movetime`.
      num_processes: how many programs think at the same time; by default one for each core.
      name: name of the player; by default `uci:` and the command.

    Raises:
      UserError: also if there is no limit, or the program lacks an option.
    """
    _check_timeout(timeout)
    if not limits or not {*limits} <= {*LIMITS}:
        given = ", ".join(limits) or "none"
        raise UserError(f"the limits of a move are {given}; set one or more of {', '.join(LIMITS)}")
    for limit, value in limits.items():
        check_count(limit, value, 1)
    about = {"player": "uci", "command": command, "timeout": timeout}
    about |= {"limits": dict(limits), "options": dict(options or {})}
    make = functools.partial(UciEngine, env, command, timeout, limits, options or {})
    return _build(name or f"uci:{command}", make, num_processes, about)


def _check_timeout(timeout: float) -> None:
    check_number("timeout", timeout, lambda x: x > 0, "positive and finite")


def _build(
    name: str, make: Callable[[], Engine], num_processes: int | None, about: dict[str, Any]
) -> Player:
    """Starts the program once, for its name; returns the player."""
    engine = make()
    try:
        program = engine.identify()
    finally:
        engine.close()
    pool = EnginePool(make, num_processes)
    takes_fen = isinstance(engine, UciEngine)
    mover = HostMover(pool.choose, pool.begin, pool.close, takes_fen)
    return Player(name, mover, about=about | {"program": program})
