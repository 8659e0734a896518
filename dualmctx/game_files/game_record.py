"""Games of a file: checked by the rules, in batches on the device, and their positions."""

import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import games
from dualmctx.game_files.questions import Board, Question, Row
from dualmctx.types import Environment
from games.notation import num_actions
from games.records import is_go

# At most this number of moves are checked at once.
_MAX_MOVES = 2**18


class GameRecord(NamedTuple):
    """A game of a file.

    Attributes:
      moves: the moves up to the first that cannot be read, as for `Question`.
      texts: the moves in the notation of the game, as in results. Passes after the end of a game of
        Go may follow.
      fen: the FEN in which the moves begin; `None` for the initial position.
      board: the board on which the game is played, also of an invalid game if it is known.
      about: facts about the game from the file, such as the names of the players.
      error: the reason why the game cannot be read further than its moves; `None` if it can.
      end: byte offset of the end of the game in the file.
      komi: the komi of a game of Go; `None` if the file does not state it.
      has_start: whether the position before the moves is known.
      setup: the number of first moves that are not in the file; they set up its first position.
      passes: indices of further moves that are not in the file: passes between two moves of the
        same colour.
      places: where each move stands in the file: its line and the column of its end in PGN; its
        node and 0 in SGF, (0, 0) for a move that is not in the file.
    """

    moves: Sequence[int | str] = ()
    texts: Sequence[str] = ()
    fen: str | None = None
    board: Board | None = None
    about: Row | None = None
    error: str | None = None
    end: int = 0
    komi: float | None = None
    has_start: bool = True
    setup: int = 0
    passes: tuple[int, ...] = ()
    places: Sequence[tuple[int, int]] = ()

    def up_to(self, index: int, error: str) -> "GameRecord":
        """Returns the game with the first `index` moves, and the reason why it ends there."""
        return self._replace(
            moves=self.moves[:index],
            texts=self.texts[:index],
            error=error,
            has_start=index >= self.setup,
            passes=tuple(ply for ply in self.passes if ply < index),
        )


def to_questions(records: Iterable[GameRecord], *, every: bool) -> Iterator[Question]:
    """Yields the positions of games.

    The id of a position is `GAME.PLY`, such as 3.12, with the number of the game, from 1, and the
    number of moves before the position. `line` is the number of the position in the file. The
    results also have the fields `game`, `ply`, `played`, the move that follows in the game, and
    `about`.

    Args:
      records: the games of a file. Where a game cannot be read further, the next position is a
        question with the error.
      every: whether to yield all positions of a game, from its first to its last; otherwise only
        the last one, or the error.
    """
    numbers = itertools.count(1)
    for game, record in enumerate(records, start=1):
        extra: Row = {"game": game, "ply": None, "played": None} | (record.about or {})
        first, last = record.setup, len(record.moves)
        plies = range(first if every else last, last + 1) if record.has_start else ()
        for ply in plies if every or record.error is None else ():
            played = record.texts[ply] if ply < len(record.texts) else None
            yield Question(
                line=next(numbers),
                id=f"{game}.{ply - first}",
                moves=list(record.moves[:ply]),
                fen=record.fen,
                end=record.end,
                extra=extra | {"ply": ply - first, "played": played},
            )
        if record.error is not None:
            ply = last + 1 - first if record.has_start else None
            is_lost = not every and record.has_start
            effect = "; its last position is unknown" if is_lost else ""
            yield Question(
                line=next(numbers),
                id=str(game) if ply is None else f"{game}.{ply}",
                error=f"game {game}: {record.error.rstrip('.')}{effect}",
                end=record.end,
                extra=extra | {"ply": ply},
            )


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
    if board.game == "go":
        is_same = is_go(env)
    else:
        is_own = board.game == "gomoku" and env.id.startswith(("gomoku_", "gomoku:"))
        is_same = is_own or env.id == board.game
    if not is_same:
        # PGN is of chess unless a tag says otherwise.
        is_gardner = env.id == "gardner_chess"
        remedy = 'its PGN the tag [Variant "Gardner"]' if is_gardner else f"games of {env.id}"
        return f"the game is {board.game}, but this is {env.id}; give {remedy}"
    # One action per cell, and perhaps one more to pass or to swap.
    cells, size = num_actions(env), board.size
    if not games.is_chess(env) and cells not in (size * size, size * size + 1):
        side = math.isqrt(cells)
        on = f"{env.id} on {side}×{side}"
        return f"the board is {size}×{size}, but this is {on}; give games on that board"
    return None
