"""Games of a file, and the positions of a game as questions."""

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import BinaryIO, NamedTuple

from dualmctx.evaluation.fields import Row
from dualmctx.evaluation.move_parser import board_mismatch
from dualmctx.evaluation.questions import Board, Question
from dualmctx.types import Environment


class GameRecord(NamedTuple):
    """A game of a file.

    Attributes:
      moves: the moves, as for `Question`.
      texts: the moves in the notation of the game, as in results.
      fen: the FEN in which the moves begin; `None` for the initial position.
      board: the board on which the game is played, also of an invalid game if it is known.
      about: what the file says of the game, such as the names of the players.
      error: the reason why the game is invalid; `None` if it is valid.
      end: byte offset of the end of the game in the file.
      komi: the komi of a game of Go; `None` if the file does not say.
    """

    moves: Sequence[int | str] = ()
    texts: Sequence[str] = ()
    fen: str | None = None
    board: Board | None = None
    about: Row | None = None
    error: str | None = None
    end: int = 0
    komi: float | None = None


def to_questions(records: Iterable[GameRecord], *, every: bool) -> Iterator[Question]:
    """Yields the positions of games.

    The id of a position is `GAME.PLY`, such as 3.12, with the number of the game, from 1, and the
    number of moves before the position. `line` is the number of the position in the file. The
    results also have the fields `game`, `ply`, `played`, the move that follows in the game, and
    `about`.

    Args:
      records: the games of a file. An invalid game is one question with an error.
      every: whether to yield all positions of a game, from its first to its last; otherwise only
        the last one.
    """
    numbers = itertools.count(1)
    for game, record in enumerate(records, start=1):
        extra: Row = {"game": game, "ply": None, "played": None} | (record.about or {})
        if record.error is not None:
            invalid = _invalid_game(next(numbers), extra, record.error, record.end)
            yield invalid._replace(board=record.board)
            continue
        last = len(record.moves)
        for ply in range(last + 1) if every else [last]:
            played = record.texts[ply] if ply < last else None
            yield Question(
                line=next(numbers),
                id=f"{game}.{ply}",
                moves=list(record.moves[:ply]),
                fen=record.fen,
                end=record.end,
                extra=extra | {"ply": ply, "played": played},
                board=record.board,
            )


def reject_other_boards(env: Environment, questions: Iterable[Question]) -> Iterator[Question]:
    """Yields questions, with one error in place of the positions of each game on another board.

    Args:
      env: the game that is evaluated.
      questions: questions, those of a game in a row; questions without a board remain.
    """
    mismatch = functools.cache(functools.partial(board_mismatch, env))
    rejected: int | None = None
    for question in questions:
        error = None if question.board is None else mismatch(question.board)
        if error is None:
            yield question
            continue
        extra = dict(question.extra or {})
        if extra["game"] != rejected:
            rejected = extra["game"]
            yield _invalid_game(question.line, extra, error, question.end)


def _invalid_game(line: int, extra: Row, error: str, end: int) -> Question:
    """Returns the one question of a game that cannot be read; `extra` has the game's number."""
    game, extra = extra["game"], extra | {"ply": None, "played": None}
    return Question(line, str(game), error=f"game {game}: {error}", end=end, extra=extra)


def decode(data: bytes) -> str:
    """Decodes UTF-8 or, if it is not valid, Latin-1, which is the older standard of game files."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


ReadGamesFn = Callable[[BinaryIO], Iterator[GameRecord]]
"""Reads the games of a file."""
