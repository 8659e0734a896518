"""Games on file: JSON Lines, both games of a pair one after the other."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from dualmctx.ratings.results import Results, count_pairs


class Game(NamedTuple):
    """A game as it is saved.

    Attributes:
      players: the names of those on the first and on the second side.
      pair: the number of its pair, whose other game has the same opening and the sides exchanged.
      seed: the tournament's, by which the game can be played again.
      opening: the number of its first moves that were given.
      moves: all actions from the start of the game.
      result: of the first side: 1 won, 0 drawn, -1 lost.
      is_over: false where the game was cut short, which counts as a draw.
      num_chosen: how many of the moves each of the players chose.
      fen: where the moves begin; `None` for the start of the game.
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
        """Returns the first moves, after the FEN if there is one, as an `openings.Opening`."""
        return (*(() if self.fen is None else (self.fen,)), *self.moves[:number])


def append_games(file: Path, games: Iterable[Game]) -> None:
    """Appends games, on the disk when this returns."""
    text = "".join(json.dumps(_to_json(game)) + "\n" for game in games)
    with file.open("a") as lines:
        lines.write(text)
        lines.flush()
        os.fsync(lines.fileno())


def read_games(file: Path) -> list[Game]:
    """Reads all pairs of games; what a kill has left of a last one is left out.

    Raises:
      ValueError: when there is anything else in the file, or a pair is there twice, in one line.
    """
    return _read(file)[0]


def mend_games(file: Path) -> list[Game]:
    """Reads all pairs of games, and cuts off what a kill has left of a last one.

    Raises:
      ValueError: as `read_games`; the file is not changed then.
    """
    if not file.exists():
        return []
    games, size = _read(file)
    if size < file.stat().st_size:
        os.truncate(file, size)
    return games


def results_of(players: Iterable[str], games: Iterable[Game]) -> Results:
    """Counts the results of players among themselves; games of others are left out.

    Args:
      players: their names.
      games: as `read_games` returns them.
    """
    names, rows = tuple(players), list(games)
    known = set(names)
    chosen = [
        (first, second)
        for first, second in zip(rows[::2], rows[1::2], strict=True)
        if known.issuperset(first.players)
    ]
    pairs = [(*first.players, first.result, -second.result) for first, second in chosen]
    # Pairs of one number share an opening, whoever plays.
    return count_pairs(names, pairs, [first.pair for first, _ in chosen])


def _read(file: Path) -> tuple[list[Game], int]:
    """Reads whole pairs; returns the bytes that they take, too."""
    games: list[Game] = []
    lines: dict[tuple[frozenset[str], int], int] = {}
    size = end = 0
    for number, line in enumerate(file.read_bytes().splitlines(keepends=True), start=1):
        if not line.endswith(b"\n"):
            break
        game = _parse(line, f"{file}, line {number}")
        is_second = len(games) % 2 == 1
        if is_second and (game.pair, game.players[::-1]) != (games[-1].pair, games[-1].players):
            raise ValueError(f"{file}, line {number} is not the second game of the pair before it")
        first = number if is_second else lines.setdefault(_pair_of(game), number)
        if first != number:
            raise ValueError(
                f"{file}, line {number} has the same pair as line {first}: two processes have "
                f"written to it; keep its first {number - 1} lines and go on with --resume, which "
                "plays the same games again"
            )
        games.append(game)
        end += len(line)
        size = end if is_second else size
    return games[: len(games) // 2 * 2], size


def _pair_of(game: Game) -> tuple[frozenset[str], int]:
    """Returns what only the two games of a pair have in common."""
    return frozenset(game.players), game.pair


def _to_json(game: Game) -> dict[str, Any]:
    """Returns the fields of a game; `fen` only where there is one."""
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
        raise ValueError(f"{where} is not a game: {error}") from error
    if game.result not in (-1, 0, 1) or not all(isinstance(x, int) for x in game.moves):
        raise ValueError(f"{where} is not a game: its result or a move is no such number")
    if not isinstance(game.fen, str | None):
        raise ValueError(f"{where} is not a game: its FEN is {game.fen!r}")
    return game
