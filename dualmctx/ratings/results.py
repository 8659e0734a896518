"""Results of games that were played in pairs: one opening, each of two players on either side."""

import dataclasses
from collections.abc import Iterable
from typing import Self

import numpy as np

LOSS, DRAW, WIN = range(3)


@dataclasses.dataclass(frozen=True, eq=False)
class Results:
    """How often each pair of games ended how.

    The two games of a pair share an opening, so they are not independent: whoever resamples
    results resamples pairs.

    Attributes:
      players: the names of P players.
      pairs: `[P, P, 3, 3]` int, `pairs[i, j, a, b]` pairs of games of players i, j in which i got
        a on the first side and b on the second one, as `LOSS`, `DRAW` or `WIN`. A pair stands once,
        at `[i, j]` or at `[j, i]`.
    """

    players: tuple[str, ...]
    pairs: np.ndarray

    def select(self, players: Iterable[str]) -> Self:
        """Returns the results of some of the players among themselves, in this order."""
        chosen = tuple(players)
        rows = [self.players.index(name) for name in chosen]
        return dataclasses.replace(self, players=chosen, pairs=self.pairs[np.ix_(rows, rows)])


def count_pairs(players: Iterable[str], pairs: Iterable[tuple[str, str, int, int]]) -> Results:
    """Counts pairs of games.

    Args:
      players: their names, all different.
      pairs: `(one, other, first, second)`, two of the names, and the results of `one` in {-1, 0, 1}
        in the game in which it had the first side and in the one in which it had the second.

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
    counts = np.zeros((len(names), len(names), 3, 3), np.int64)
    for one, other, first, second in pairs:
        for name in (one, other):
            if name not in place:
                raise ValueError(f"no player {name!r}: there are {', '.join(names)}")
        for result in (first, second):
            if result not in (-1, 0, 1):
                raise ValueError(f"a game's result is {result}; it must be -1, 0 or 1")
        counts[place[one], place[other], int(first) + 1, int(second) + 1] += 1
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
    """Draws pairs anew with replacement, of any two players as many as they played.

    Args:
      rng: the source of randomness.
      results: what was played.
      number: R, of resamples.

    Returns:
      `[R, P, P, 3, 3]` int.
    """
    drawn = np.zeros((number, *results.pairs.shape), np.int64)
    for i, j in np.argwhere(results.pairs.sum((2, 3)) > 0):
        counts = results.pairs[i, j].reshape(-1)
        drawn[:, i, j] = rng.multinomial(counts.sum(), counts / counts.sum(), size=number).reshape(
            -1, 3, 3
        )
    return drawn
