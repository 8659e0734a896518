"""Counts of games and positions while a data set is made, as JSON values."""

import collections
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from dualmctx.datasets.checking import CheckedGame
from dualmctx.datasets.shards import Shard

_SIDES = {1: "first_wins", 0: "draws", -1: "second_wins"}


class Tally(NamedTuple):
    """Counts of the games that have been read.

    Attributes:
      read: games read.
      bad: games that cannot be used.
      duplicates: games that are equal, up to a symmetry, to an earlier one.
      without_result: games that were skipped because they have no result.
      without_positions: games that were skipped because no player chose a move.
      contradicted: games kept whose file and whose end give different results.
    """

    read: int = 0
    bad: int = 0
    duplicates: int = 0
    without_result: int = 0
    without_positions: int = 0
    contradicted: int = 0

    @classmethod
    def total(cls, tallies: Iterable["Tally"]) -> "Tally":
        """Returns the sums of counts."""
        return cls(*map(sum, zip(*tallies, strict=True)))


def describe_split(shards: Iterable[Shard], num_actions: int) -> dict[str, Any]:
    """Returns the statistics of a split.

    Args:
      shards: the shards of the split.
      num_actions: A, the number of actions of the game.

    Returns:
      `games`; `positions`, merged ones included; `rows`, the positions that are stored; `results`
      by side; `lengths`, the numbers of games by their number of moves; `moves`, how often each
      action was played.
    """
    games = positions = rows = 0
    results: collections.Counter[str] = collections.Counter()
    lengths: collections.Counter[int] = collections.Counter()
    moves = np.zeros(num_actions, np.int64)
    for shard in shards:
        games, rows = games + len(shard.lengths), rows + len(shard.plies)
        positions += int(shard.counts.sum())
        results.update(map(side_of, shard.results.tolist()))
        lengths.update(shard.lengths.tolist())
        moves += np.bincount(shard.moves[~shard.is_random], minlength=num_actions)
    return {
        "games": games,
        "positions": positions,
        "rows": rows,
        "results": {name: results[name] for name in (*_SIDES.values(), "unknown")},
        "lengths": {str(length): lengths[length] for length in sorted(lengths)},
        "moves": moves.tolist(),
    }


def side_of(result: float) -> str:
    """Returns the name of a result of the first side: a win, a draw, a loss, or unknown."""
    return "unknown" if result != result else _SIDES[int(np.sign(result))]


def summarize_lengths(lengths: dict[str, int]) -> tuple[int, float, int] | None:
    """Returns the smallest, the mean and the largest length; `None` without games."""
    if not lengths:
        return None
    numbers, counts = np.array([*map(int, lengths)]), np.array([*lengths.values()])
    return int(numbers.min()), float(np.average(numbers, weights=counts)), int(numbers.max())


def has_positions(game: CheckedGame) -> bool:
    """Returns whether a player chose at least one move of a game."""
    return not bool(game.is_random.all())
