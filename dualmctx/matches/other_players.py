"""Players of other projects, on the host: OpenSpiel, bitbully, programs of GTP and of UCI."""

import functools
import math
import random
from collections.abc import Callable, Mapping
from typing import Any

from dualmctx.checks import check, check_count, check_number
from dualmctx.errors import UserError
from dualmctx.import_path import import_installed
from dualmctx.matches.players import HostMover, Player, host_mover, perfect_player
from dualmctx.models.costs import FREE, MoveCost
from dualmctx.programs.engine import Engine, EnginePool
from dualmctx.programs.gtp import GtpEngine
from dualmctx.programs.uci import UciEngine
from dualmctx.types import Environment
from games.exact import load_bitbully

LIMITS = ("nodes", "depth", "movetime")
"""The limits of a move in UCI; the last one is in milliseconds."""
# Games whose actions have the same numbers in OpenSpiel; see `tests/games/test_games_openspiel.py`.
_OPENSPIEL_GAMES = ("connect_four", "hex", "othello", "tic_tac_toe")
# Memory limit of the bot's tree in MiB; exploration constant of OpenSpiel's AlphaZero evaluation.
_MEMORY, _UCT_C = 1000, 2.0


def openspiel_mcts(
    env: Environment, num_simulations: int, *, uct_c: float = _UCT_C, name: str | None = None
) -> Player:
    """Builds OpenSpiel's MCTS bot: UCT with random rollouts and the solver enabled.

    A move depends only on the position and its seed.

    Args:
      env: a game of `games.make` whose actions have the same numbers in OpenSpiel.
      num_simulations: simulations per move, at least 1; each move starts a new tree.
      uct_c: exploration constant.
      name: name of the player; by default `mcts-` and the number of simulations.

    Raises:
      ValueError: if the game is not supported, the number of simulations is less than 1, or
        OpenSpiel is not installed.
    """
    if env.id not in _OPENSPIEL_GAMES:
        supported = ", ".join(_OPENSPIEL_GAMES)
        raise UserError(f"OpenSpiel's MCTS supports {supported}, not {env.id}")
    check(num_simulations >= 1, "num_simulations", num_simulations, "at least 1")
    try:
        pyspiel = import_installed("pyspiel")
    except ImportError as error:
        remedy = 'pip install "dualmctx[compare]"'
        raise UserError(f"OpenSpiel's MCTS needs pyspiel: {remedy} ({error})") from error
    size = math.isqrt(env.num_actions)
    parameters = {"board_size": size, "swap": True} if env.id == "hex" else {}
    game = pyspiel.load_game(env.id, parameters)
    solve, is_verbose = True, False

    def choose_one(history: list[int], seed: int) -> int:
        state = game.new_initial_state()
        for action in history:
            state.apply_action(action)
        evaluator = pyspiel.RandomRolloutEvaluator(1, seed)
        options = (num_simulations, _MEMORY, solve, seed, is_verbose)
        return pyspiel.MCTSBot(game, evaluator, uct_c, *options).step(state)

    about = {"player": "OpenSpiel's MCTS", "simulations": num_simulations, "uct_c": uct_c}
    cost = MoveCost(num_simulations, 0, 0)
    mover = host_mover(choose_one)
    return Player(name or f"mcts-{num_simulations}", mover, cost=cost, about=about)


def exact_player(env: Environment, name: str = "perfect") -> Player:
    """Builds the perfect player of a small game, or bitbully's of Connect Four; or raises.

    bitbully's player wins fast, loses slowly, and samples uniformly from equally good moves.
    bitbully is licensed under the AGPL. It is not a dependency of dualmctx and must be installed
    separately.
    """
    if env.id != "connect_four":
        return perfect_player(env, name)
    bitbully, solver = load_bitbully()

    def choose_one(history: list[int], seed: int) -> int:
        scores = solver.score_all_moves(bitbully.Board(history))
        best = max(scores.values())
        moves = sorted(move for move, score in scores.items() if score == best)
        return random.Random(seed).choice(moves)

    return Player(name, host_mover(choose_one), cost=FREE, about={"player": "bitbully"})


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
