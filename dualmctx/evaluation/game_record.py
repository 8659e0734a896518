"""Games of a file, and the positions of a game as questions."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from dualmctx.evaluation.fields import Row
from dualmctx.evaluation.questions import Board, Question


class GameRecord(NamedTuple):
    """A game of a file.

    Attributes:
      moves: the moves up to the first that cannot be read, as for `Question`.
      texts: the moves in the notation of the game, as in results. Passes after the end of a game of
        Go may follow.
      fen: the FEN in which the moves begin; `None` for the initial position.
      board: the board on which the game is played, also of an invalid game if it is known.
      about: what the file says of the game, such as the names of the players.
      error: the reason why the game cannot be read further than its moves; `None` if it can.
      end: byte offset of the end of the game in the file.
      komi: the komi of a game of Go; `None` if the file does not say.
      has_start: whether the position before the moves is known.
      setup: the number of first moves that are not in the file; they set up its first position.
      passes: indices of further moves that are not in the file: passes between two moves of the
        same colour.
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
