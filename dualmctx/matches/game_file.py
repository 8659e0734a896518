"""Files of games: journals in which the two games of a pair are adjacent."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from dualmctx.errors import UserError
from dualmctx.ratings.results import Results, count_pairs
from dualmctx.runs.journal import Journal, Line, read_lines, reopen_journal

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

    def history(self, number: int) -> tuple[int | str, ...]:
        """Returns the FEN, if any, and the first `number` moves; this is an `openings.Opening`."""
        return (*(() if self.fen is None else (self.fen,)), *self.moves[:number])


def append_games(journal: Journal, games: Iterable[Game]) -> None:
    """Appends pairs of games; they are on the disk when the function returns."""
    journal.append(map(_to_json, games))


def read_games(file: Path) -> list[Game]:
    """Reads all complete pairs of games; ignores an incomplete pair at the end of the file.

    Raises:
      UserError: if the file does not exist or is damaged.
    """
    if not file.exists():
        raise UserError(f"{file} does not exist")
    games = [_to_game(line, file) for line in read_lines(file, _REMEDY)]
    return games[: len(games) // 2 * 2]


def reopen_games(file: Path) -> tuple[Journal, list[Game]]:
    """Opens a file of games to continue it; an incomplete pair at its end is removed.

    Returns:
      The journal and its games; without a file, there are none.

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
    names, rows = tuple(players), list(games)
    known = set(names)
    chosen = [
        (first, second)
        for first, second in zip(rows[::2], rows[1::2], strict=True)
        if known.issuperset(first.players)
    ]
    pairs = [(*first.players, first.result, -second.result) for first, second in chosen]
    # Pairs with the same number share an opening.
    return count_pairs(names, pairs, [first.pair for first, _ in chosen])


def _to_json(game: Game) -> dict[str, Any]:
    """Returns the fields of a game; `fen` only if it is not None."""
    return {name: value for name, value in game._asdict().items() if value is not None}


def _to_game(line: Line, file: Path) -> Game:
    try:
        game = Game(**line.row())
        one, other = game.players
        first, second = game.num_chosen
        return game._replace(
            players=(one, other), moves=tuple(game.moves), num_chosen=(first, second)
        )
    except (ValueError, TypeError) as error:
        raise UserError(f"{file}, line {line.number} is not a game: {error}") from error
