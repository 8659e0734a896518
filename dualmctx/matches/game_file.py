"""Files of games: JSON Lines in which the two games of a pair are adjacent."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from dualmctx.errors import UserError
from dualmctx.ratings.results import Results, count_pairs


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


def append_games(file: Path, games: Iterable[Game]) -> None:
    """Appends games and syncs the file to disk."""
    text = "".join(json.dumps(_to_json(game)) + "\n" for game in games)
    with file.open("a") as lines:
        lines.write(text)
        lines.flush()
        os.fsync(lines.fileno())


def read_games(file: Path) -> list[Game]:
    """Reads all complete pairs of games; ignores an incomplete pair at the end of the file.

    Raises:
      ValueError: if the file is damaged, or contains a pair twice.
    """
    return _read(file)[0]


def repair_games(file: Path) -> list[Game]:
    """Reads all complete pairs of games, and truncates the file after the last of them.

    Returns an empty list if there is no file.

    Raises:
      ValueError: see `read_games`; in this case the file is not changed.
    """
    if not file.exists():
        return []
    games, size = _read(file)
    if size < file.stat().st_size:
        os.truncate(file, size)
    return games


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


def _read(file: Path) -> tuple[list[Game], int]:
    """Returns the complete pairs of games, and their size in bytes."""
    games: list[Game] = []
    lines: dict[tuple[frozenset[str], int], int] = {}
    size = end = 0
    for number, line in enumerate(file.read_bytes().splitlines(keepends=True), start=1):
        if not line.endswith(b"\n"):
            break
        game = _parse(line, f"{file}, line {number}")
        is_second = len(games) % 2 == 1
        if is_second and (game.pair, game.players[::-1]) != (games[-1].pair, games[-1].players):
            raise UserError(f"{file}, line {number} is not the second game of the pair before it")
        first = number if is_second else lines.setdefault(_pair_key(game), number)
        if first != number:
            raise UserError(
                f"{file}, line {number} has the same pair as line {first}: two processes have "
                f"written to this file; keep its first {number - 1} lines and continue with "
                "--resume, which plays the same games again"
            )
        games.append(game)
        end += len(line)
        size = end if is_second else size
    return games[: len(games) // 2 * 2], size


def _pair_key(game: Game) -> tuple[frozenset[str], int]:
    """Returns a key that only the two games of a pair share."""
    return frozenset(game.players), game.pair


def _to_json(game: Game) -> dict[str, Any]:
    """Returns the fields of a game; `fen` only if it is not None."""
    return {name: value for name, value in game._asdict().items() if value is not None}


def _parse(line: bytes, where: str) -> Game:
    try:
        game = Game(**json.loads(line))
        one, other = game.players
        first, second = game.num_chosen
        game = game._replace(
            players=(one, other), moves=tuple(game.moves), num_chosen=(first, second)
        )
    except (ValueError, TypeError) as error:
        raise UserError(f"{where} is not a game: {error}") from error
    if game.result not in (-1, 0, 1) or not all(isinstance(x, int) for x in game.moves):
        raise UserError(f"{where} is not a game: its result or a move is not a valid number")
    if not isinstance(game.fen, str | None):
        raise UserError(f"{where} is not a game: its FEN is {game.fen!r}")
    return game
