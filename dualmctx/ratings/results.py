"""Results of paired games: both games of a pair have the same opening, with sides exchanged."""

import dataclasses
from collections.abc import Iterable
from typing import Self

import numpy as np

from dualmctx.errors import UserError

LOSS, DRAW, WIN = range(3)


@dataclasses.dataclass(frozen=True, eq=False)
class Results:
    """Counts of the results of pairs of games, by opening.

    The two games of a pair, and the pairs of other players with the same number, share an opening.
    Only games from different openings are independent.

    Attributes:
      players: the names of P players.
      by_opening: `[C, P, P, 3, 3]` int: at `[c, i, j, a, b]` the number of pairs of players i and
        j from opening c in which i had result a on the first side and result b on the second
        side, each of `LOSS`, `DRAW` and `WIN`. A pair is counted once, at `[i, j]` or `[j, i]`.
    """

    players: tuple[str, ...]
    by_opening: np.ndarray

    @property
    def pairs(self) -> np.ndarray:
        """The counts over all openings, `[P, P, 3, 3]`."""
        return self.by_opening.sum(0)

    def select(self, players: Iterable[str]) -> Self:
        """Returns the results of games between the given players, in the given order."""
        chosen = tuple(players)
        rows = [self.players.index(name) for name in chosen]
        counts = self.by_opening[:, rows][:, :, rows]
        return dataclasses.replace(self, players=chosen, by_opening=counts)


def count_pairs(
    players: Iterable[str],
    pairs: Iterable[tuple[str, str, int, int]],
    openings: Iterable[int] | None = None,
) -> Results:
    """Counts pairs of games.

    Args:
      players: names of the players, all different.
      pairs: `(one, other, first, second)`: two names, and the results of `one`, in {-1, 0, 1}, in
        the game in which it has the first side and in the game in which it has the second side.
      openings: the number of the opening of each pair; `None` if all openings differ.

    Raises:
      ValueError: if a name is duplicate or unknown, or a result is not -1, 0 or 1.
    """
    names = tuple(players)
    place = {name: i for i, name in enumerate(names)}
    if len(place) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UserError(f"two players have the name {twice!r}; names must differ")
    rows = list(pairs)
    for one, other, *both in rows:
        for name in (one, other):
            if name not in place:
                raise UserError(f"there is no player {name!r}; the players are {', '.join(names)}")
        for result in both:
            if result not in (-1, 0, 1):
                raise UserError(f"the result of a game is {result}; it must be -1, 0 or 1")
    numbers = range(len(rows)) if openings is None else list(openings)
    found, opening = np.unique(np.array(numbers, np.int64), return_inverse=True)
    table = [
        (place[one], place[other], first + 1, second + 1) for one, other, first, second in rows
    ]
    cells = np.array(table, np.int64).reshape(-1, 4).T
    dtype = np.int16 if len(rows) <= np.iinfo(np.int16).max else np.int32
    counts = np.zeros((len(found), len(names), len(names), 3, 3), dtype)
    np.add.at(counts, (opening, *cells), 1)
    return Results(names, counts)


def count_wins_and_draws(pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Counts won and drawn games over both sides.

    Args:
      pairs: `[..., P, P, 3, 3]` as in `Results`.

    Returns:
      `wins` and `draws`, `[..., P, P]` each: the games that i won against j at `[i, j]`, and the
      games that they drew at both `[i, j]` and `[j, i]`.
    """
    first, second = pairs.sum(-1), pairs.sum(-2)
    both = first + second
    wins = both[..., WIN] + np.swapaxes(both[..., LOSS], -1, -2)
    return wins, both[..., DRAW] + np.swapaxes(both[..., DRAW], -1, -2)


def count_wins_and_draws_by_side(pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Counts won and drawn games of 2 P players: all P first sides, then all P second sides.

    All games are between a first and a second side, so two quarters of each matrix are zero.

    Args:
      pairs: `[..., P, P, 3, 3]` as in `Results`.

    Returns:
      `wins` and `draws`, `[..., 2 P, 2 P]` each, as returned by `count_wins_and_draws`.
    """
    first, second = pairs.sum(-1), pairs.sum(-2)

    def to_blocks(by_first: np.ndarray, by_second: np.ndarray) -> np.ndarray:
        """Arranges the games of the first sides and of the second sides in one matrix."""
        return np.block([[np.zeros_like(by_first), by_first], [by_second, np.zeros_like(by_first)]])

    def count_first_side(result: int) -> np.ndarray:
        # Player i has the first side and j the second; `second` holds the results of j.
        return first[..., result] + np.swapaxes(second[..., WIN - result], -1, -2)

    wins = to_blocks(count_first_side(WIN), np.swapaxes(count_first_side(LOSS), -1, -2))
    draws = count_first_side(DRAW)
    return wins, to_blocks(draws, np.swapaxes(draws, -1, -2))


def resample(rng: np.random.Generator, results: Results, number: int) -> np.ndarray:
    """Samples openings with replacement, each with all pairs of games played from it.

    Openings are sampled within groups in which the same players met equally often. The number of
    pairs of any two players is therefore the same in each resample as in the results.

    Returns:
      `[R, P, P, 3, 3]` int, R = `number`.
    """
    counts = results.by_opening
    flat = counts.reshape(len(counts), -1)
    # Only columns with any results are resampled; float64 represents the counts exactly.
    seen = np.flatnonzero(flat.any(0))
    _, group = np.unique(counts.sum((3, 4)).reshape(len(counts), -1), axis=0, return_inverse=True)
    sampled = np.zeros((number, flat.shape[1]), np.int64)
    for i in range(group.max(initial=-1) + 1):
        members = np.flatnonzero(group == i)
        size = len(members)
        times = rng.multinomial(size, np.full(size, 1 / size), size=number)
        sampled[:, seen] += (times @ flat[np.ix_(members, seen)].astype(float)).astype(np.int64)
    return sampled.reshape(number, *counts.shape[1:])
