"""Exact values of a position and of its moves: from the solution of a small game, or from bitbully.

bitbully solves Connect Four. It is licensed under the AGPL and is no part of this package, nor of
its dependencies. It is used only if the user has installed it and its opening book, and it is
imported by name at run time, so that no module of the package contains or requires it.
"""

from __future__ import annotations

import concurrent.futures
import functools
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dualmctx.errors import UserError
from dualmctx.import_path import import_installed, is_installed
from games import solvers

if TYPE_CHECKING:
    import pgx

SECONDS = 10.0
"""How long `exact_values` waits for the solution of a game by default."""
_BITBULLY = ("bitbully", "bitbully_databases")
_REMEDY = "pip install bitbully bitbully-databases (AGPL)"
# The solver of bitbully keeps a table, which two threads must not use at once.
_LOCK = threading.Lock()


class ExactValues(NamedTuple):
    """The result of a position under perfect play, from the view of the player to move.

    Attributes:
      source: "solved" or "bitbully".
      value: -1, 0 or 1.
      moves: the value of each legal action, for the same player; empty if the game is over.
    """

    source: str
    value: int
    moves: dict[int, int]


def exact_source(env: pgx.Env) -> str | None:
    """Returns the source of exact values of a game, "solved" or "bitbully"; `None` without one.

    It computes and imports nothing.
    """
    if env.id == "connect_four":
        return "bitbully" if all(map(is_installed, _BITBULLY)) else None
    return "solved" if solvers.is_solvable(env) else None


def exact_values(env: pgx.Env, state: Any, seconds: float = SECONDS) -> ExactValues | None:
    """Returns the exact values of a position.

    The first call for a game solves it, in another thread. If this takes longer than `seconds`, the
    result is `None`, the thread goes on, and a later call finds the solution.

    Args:
      env: any environment.
      state: an unbatched state of `env`.
      seconds: how long to wait for the solution of the game.

    Returns:
      The values; `None` if the game has no solver, is not solved yet, or has no such position in
      games from its start.

    Raises:
      ValueError: if the solution of an own game fails, see `games.solve`.
    """
    source = exact_source(env)
    if source is None:
        return None
    if state.terminated or state.truncated:
        return ExactValues(source, int(np.sign(state.rewards[int(state.current_player)])), {})
    if source == "bitbully":
        return _connect_four(state)
    try:
        solution = _solving(env).result(timeout=seconds)
    except concurrent.futures.TimeoutError:
        return None
    return _look_up(solution, state)


def load_bitbully() -> tuple[Any, Any]:
    """Returns the module bitbully and its solver, which has an opening book of 12 plies.

    Raises:
      ValueError: if bitbully or its opening book is not installed.
    """
    for name in _BITBULLY:
        try:
            import_installed(name)
        except ImportError as error:
            purpose = "the perfect player of Connect Four"
            raise UserError(f"{purpose} needs {name}: {_REMEDY} ({error})") from error
    module = import_installed("bitbully")
    return module, module.BitBully(opening_book="12-ply-dist")


@functools.lru_cache(maxsize=8)
def _solving(env: pgx.Env) -> concurrent.futures.Future[solvers.Solution]:
    """Starts to solve a game, once; the thread does not keep the program from ending."""
    future: concurrent.futures.Future[solvers.Solution] = concurrent.futures.Future()

    def run() -> None:
        try:
            future.set_result(solvers.solve(env))
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=run, name=f"solve {env.id}", daemon=True).start()
    return future


def _look_up(solution: solvers.Solution, state: Any) -> ExactValues | None:
    code = int(solution.code_fn(state))
    if not solution.code_optimal[code].any():
        return None
    legal = np.flatnonzero(np.asarray(state.legal_action_mask)).tolist()
    moves = {action: int(solution.code_action_values[code, action]) for action in legal}
    return ExactValues("solved", int(solution.code_values[code]), moves)


@functools.cache
def _shared_bitbully() -> tuple[Any, Any]:
    return load_bitbully()


def _connect_four(state: Any) -> ExactValues:
    # pgx: 0 and 1 by the order of moves, -1 for an empty cell; bitbully: 1 and 2, and 0.
    cells = (np.asarray(state._x.board).reshape(6, 7) + 1).tolist()
    with _LOCK:
        bitbully, solver = _shared_bitbully()
        board = bitbully.Board(cells)
        moves = {move: _value_after(solver, board, move) for move in sorted(board.legal_moves())}
    return ExactValues("bitbully", max(moves.values()), moves)


def _value_after(solver: Any, board: Any, move: int) -> int:
    """Returns the value of a move of Connect Four for the player who makes it."""
    after = board.play_on_copy(move)
    if after.has_win():
        return 1
    if after.is_full():
        return 0
    # The window tells wins, draws and losses apart, but not how soon they come, which takes longer.
    score = -solver.negamax(after, alpha=-1, beta=1)
    return (score > 0) - (score < 0)
