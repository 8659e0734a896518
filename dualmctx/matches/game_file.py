"""Files of games: journals in which the two games of a pair are adjacent."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple, NotRequired, TypedDict, get_type_hints

from dualmctx.errors import UserError
from dualmctx.ratings.results import Results, count_pairs
from dualmctx.runs.journal import Journal, read_lines, reopen_journal
from dualmctx.typed_values import decode

GAMES = "games.jsonl"
"""The name of the file in the folder of a tournament."""
_REMEDY = "put back a copy of the file, or remove it, and all games are played again"


class Game(NamedTuple):
    """A saved game.

    Attributes:
      players: the names of the players on the first and on the second side.
      pair: number of the pair. Both games of a pair have the same opening, with sides exchanged.
      seed: seed of the tournament, which reproduces the game.
      opening: number of opening moves.
      moves: all actions, including the opening.
      result: result of the first side: 1 for a win, 0 for a draw, -1 for a loss.
      is_over: false if the game was cut short; such a game counts as a draw.
      num_chosen: number of moves that each player chose, without the opening.
      fen: FEN of the position from which the moves start; `None` for the initial position.
      ending: `kind` of the `Failure` by which a player lost; `None` if the rules ended the game.
      reason: the message of that failure.
    """

    players: tuple[str, str]
    pair: int
    seed: int
    opening: int
    moves: tuple[int, ...]
    result: int
    is_over: bool
    num_chosen: tuple[int, int]
    fen: str | None = None
    ending: str | None = None
    reason: str | None = None

    def history(self, number: int) -> tuple[int | str, ...]:
        """Returns the FEN, if any, and the first `number` moves; this is an `openings.Opening`."""
        return (*(() if self.fen is None else (self.fen,)), *self.moves[:number])


_HINTS = get_type_hints(Game) | {"result": Literal[-1, 0, 1]}
# The fields of a row; those that are `None` are left out.
_FIELDS = {x: NotRequired[y] if x in Game._field_defaults else y for x, y in _HINTS.items()}
_Row = TypedDict("_Row", _FIELDS)  # pyright: ignore


def append_games(journal: Journal, games: Iterable[Game]) -> None:
    """Appends pairs of games, which are on the disk when the function returns."""
    # Games from the initial position have no field `fen`, and those that the rules ended no ending.
    journal.append({x: y for x, y in game._asdict().items() if y is not None} for game in games)


def read_games(file: Path) -> list[Game]:
    """Reads all complete pairs of games; ignores an incomplete pair at the end of the file.

    Raises:
      UserError: if the file does not exist or is damaged.
    """
    if not file.exists():
        raise UserError(f"{file} does not exist")
    games = [
        Game(**decode(f"{file}, line {line.number}", line.row(), _Row))
        for line in read_lines(file, _REMEDY)
    ]
    return games[: len(games) // 2 * 2]


def reopen_games(file: Path) -> tuple[Journal, list[Game]]:
    """Opens a file of games, or none, to continue it; returns the journal and its games.

    An incomplete pair at its end is removed.

    Raises:
      UserError: if the file is damaged; it stays unchanged then.
    """
    journal = reopen_journal(file, remedy=_REMEDY)
    games = read_games(file) if file.exists() else []
    if journal.num_rows > len(games):
        journal.cut(len(games))
        print(f"{file}: the last pair of games was incomplete and is removed", file=sys.stderr)
    return journal, games


def count_results(players: Iterable[str], games: Iterable[Game]) -> Results:
    """Counts the results of games between the given players; other games are ignored.

    Args:
      players: names of the players.
      games: games of `read_games`.
    """
    names = tuple(players)
    rows = games_between(names, games)
    both = zip(rows[::2], rows[1::2], strict=True)
    pairs = [(*first.players, first.result, -second.result) for first, second in both]
    # Pairs with the same number share an opening.
    return count_pairs(names, pairs, [first.pair for first in rows[::2]])


def games_between(players: Iterable[str], games: Iterable[Game]) -> list[Game]:
    """Returns the games between the given players."""
    names = {*players}
    return [game for game in games if names.issuperset(game.players)]
