"""Checks the moves of recorded games by the rules, in batches on the device."""

import functools
import math
from collections.abc import Iterable, Iterator, Sequence

import games
from dualmctx.evaluation.game_record import GameRecord
from dualmctx.evaluation.questions import Board
from dualmctx.types import Environment
from games.notation import num_actions

# At most this number of moves are checked at once.
_MAX_MOVES = 2**18


def reject_other_boards(env: Environment, records: Iterable[GameRecord]) -> Iterator[GameRecord]:
    """Yields games; those on another board than that of the game `env` have only an error."""
    mismatch = functools.cache(functools.partial(board_mismatch, env))
    for record in records:
        error = None if record.board is None else mismatch(record.board)
        if error is not None:
            record = record._replace(moves=(), texts=(), error=error, has_start=False, setup=0)
        yield record


def check_games(env: Environment, records: Iterable[GameRecord], size: int) -> Iterator[GameRecord]:
    """Yields games; each ends with an error before its first move that the rules forbid.

    Args:
      env: the game that is evaluated.
      records: the games of a file, on the board of the game.
      size: number of games that are checked at once; one program is compiled for it.
    """
    batch, num_moves = list[GameRecord](), 0
    for record in records:
        batch.append(record)
        num_moves += len(record.moves)
        if len(batch) == size or num_moves > _MAX_MOVES:
            yield from _check(env, batch, size)
            batch, num_moves = [], 0
    yield from _check(env, batch, size)


def _check(env: Environment, records: Sequence[GameRecord], size: int) -> Iterator[GameRecord]:
    if not any(record.moves or record.fen for record in records):
        yield from records
        return
    lines = [games.Line(list(x.moves) if x.has_start else [], x.fen) for x in records]
    opened = games.open_positions(env, lines, size)
    for row, record in enumerate(records):
        bad = opened.bad_moves.get(row)
        if row in opened.parsed.errors and record.has_start:
            yield record.up_to(0, opened.errors[row])._replace(has_start=False)
        elif bad is not None:
            number, text = bad.index + 1 - record.setup, record.texts[bad.index]
            where = f"move {number}, {text!r}," if number > 0 else f"the stone on {text}"
            yield record.up_to(bad.index, f"{where} {bad.problem}")
        else:
            yield record


def board_mismatch(env: Environment, board: Board) -> str | None:
    """Returns why moves on a board are not moves of a game; `None` if they are."""
    if env.id != board.game and not env.id.startswith(f"{board.game}_"):
        # PGN is of chess unless a tag says otherwise.
        tag = '; give its PGN the tag [Variant "Gardner"]' if env.id == "gardner_chess" else ""
        return f"the game is {board.game}, but the network plays {env.id}{tag}"
    # One action per cell, and perhaps one more to pass or to swap.
    cells, size = num_actions(env), board.size
    if not games.is_chess(env) and cells not in (size * size, size * size + 1):
        side = math.isqrt(cells)
        return f"the board is {size}×{size}, but the network plays {env.id} on {side}×{side}"
    return None
