"""Results of games that were played in pairs: one opening, each of two players on either side."""

import dataclasses
from collections.abc import Iterable
from typing import Self

import numpy as np

LOSS, DRAW, WIN = range(3)


@dataclasses.dataclass(frozen=True, eq=False)
class Results:
    """Counts of the results of pairs of games, by opening.

    The two games of a pair share an opening, and so do the pairs of other players from it: games
    are independent from opening to opening only.

    Attributes:
      players: the names of P players.
      by_opening: `[C, P, P, 3, 3]` int: at `[c, i, j, a, b]` the pairs of games from opening c of
        players i, j in which i got a on the first side and b on the second one, as `LOSS`, `DRAW`
        or `WIN`. A pair stands once, at `[i, j]` or at `[j, i]`.
    """

    players: tuple[str, ...]
    by_opening: np.ndarray

    @property
    def pairs(self) -> np.ndarray:
        """The counts over all openings, `[P, P, 3, 3]`."""
        return self.by_opening.sum(0)

    def select(self, players: Iterable[str]) -> Self:
        """Returns the results of some of the players among themselves, in this order."""
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
      players: their names, all different.
      pairs: `(one, other, first, second)`, two of the names, and the results of `one` in {-1, 0, 1}
        in the game in which it had the first side and in the one in which it had the second.
      openings: the number of each pair's opening; `None` where no two pairs share one.

    Returns:
      The results.

    Raises:
      ValueError: when a name is there twice or is unknown, or a result is none, in one line.
    """
    names = tuple(players)
    place = {name: i for i, name in enumerate(names)}
    if len(place) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"there are two players {twice!r}; names must differ")
    rows = list(pairs)
    for one, other, *both in rows:
        for name in (one, other):
            if name not in place:
                raise ValueError(f"no player {name!r}: there are {', '.join(names)}")
        for result in both:
            if result not in (-1, 0, 1):
                raise ValueError(f"a game's result is {result}; it must be -1, 0 or 1")
    numbers = range(len(rows)) if openings is None else list(openings)
    found, opening = np.unique(np.array(numbers, np.int64), return_inverse=True)
    table = [
        (place[one], place[other], first + 1, second + 1) for one, other, first, second in rows
    ]
    cells = np.array(table, np.int64).reshape(-1, 4).T
    counts = np.zeros((len(found), len(names), len(names), 3, 3), np.int16)
    np.add.at(counts, (opening, *cells), 1)
    return Results(names, counts)


def games_of(pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Counts games, whatever the sides.

    Args:
      pairs: `[..., P, P, 3, 3]` as in `Results`.

    Returns:
      `wins` and `draws`, `[..., P, P]` each: games that i won against j, and games that they drew,
      at `[i, j]` and at `[j, i]`.
    """
    first, second = pairs.sum(-1), pairs.sum(-2)
    both = first + second
    wins = both[..., WIN] + np.swapaxes(both[..., LOSS], -1, -2)
    return wins, both[..., DRAW] + np.swapaxes(both[..., DRAW], -1, -2)


def games_by_side(pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Counts games as those of 2 P players: each of the P on the first side, then on the second.

    Only games across the sides exist, so both matrices have two empty quarters.

    Args:
      pairs: `[..., P, P, 3, 3]` as in `Results`.

    Returns:
      `wins` and `draws`, `[..., 2 P, 2 P]` each, as `games_of` returns them.
    """
    first, second = pairs.sum(-1), pairs.sum(-2)

    def across(by_first: np.ndarray, by_second: np.ndarray) -> np.ndarray:
        """Joins what players on the first side did, and those on the second."""
        return np.block([[np.zeros_like(by_first), by_first], [by_second, np.zeros_like(by_first)]])

    def of_firsts(result: int) -> np.ndarray:
        # At [i, j]: i on the first side, j on the second. What j got as the second is the other's.
        return first[..., result] + np.swapaxes(second[..., WIN - result], -1, -2)

    wins = across(of_firsts(WIN), np.swapaxes(of_firsts(LOSS), -1, -2))
    draws = of_firsts(DRAW)
    return wins, across(draws, np.swapaxes(draws, -1, -2))


def resample(rng: np.random.Generator, results: Results, number: int) -> np.ndarray:
    """Draws openings with replacement, each with all pairs of games that were played from it.

    Openings are drawn among those from which the same players met equally often, so every two
    players have as many pairs in a resample as they played.

    Args:
      rng: the source of randomness.
      results: what was played.
      number: R, of resamples.

    Returns:
      `[R, P, P, 3, 3]` int.
    """
    counts = results.by_opening
    flat = counts.reshape(len(counts), -1)
    # Only these kinds of results were seen at all; float64 holds such counts exactly.
    seen = np.flatnonzero(flat.any(0))
    _, group = np.unique(counts.sum((3, 4)).reshape(len(counts), -1), axis=0, return_inverse=True)
    drawn = np.zeros((number, flat.shape[1]), np.int64)
    for i in range(group.max(initial=-1) + 1):
        members = np.flatnonzero(group == i)
        size = len(members)
        times = rng.multinomial(size, np.full(size, 1 / size), size=number)
        drawn[:, seen] += (times @ flat[np.ix_(members, seen)].astype(float)).astype(np.int64)
    return drawn.reshape(number, *counts.shape[1:])
