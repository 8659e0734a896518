"""Covering arrays: few rows in which all pairs of values of any two factors occur.

Most faults of a product of options need one value or a pair of values (Kuhn, Wallace, Gallo 2004,
"Software fault interactions and implications for software testing"), so these rows find the
faults that the whole product finds, at a fraction of the time. A row is a dictionary of a value for
each factor.

    rows = cover(row for row in product(trees=(1, 2), window=(None, 2)) if is_allowed(**row))

Where some factors cost a compilation each, cover these first, and then their rows times the others.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

Row = dict[str, Any]


def product(**factors: Iterable[Any]) -> list[Row]:
    """Returns all rows of the factors' values."""
    return [dict(zip(factors, row, strict=True)) for row in itertools.product(*factors.values())]


def cover(rows: Iterable[Row], once: Sequence[str] = ()) -> list[Row]:
    """Returns some of the rows, which have all pairs of values that occur in the rows.

    The values of the factors `once` each occur at least once, and not in all pairs.

    Greedy: each next row is the one with the most new pairs, the first of equal ones. So the result
    is the same in every run.
    """
    rows = list(rows)
    numbers = dict[tuple[Any, ...], int]()
    pairs = np.array(
        [[numbers.setdefault(x, len(numbers)) for x in _pairs(row, once)] for row in rows]
    )
    is_missing, chosen = np.ones(len(numbers), bool), list[Row]()
    while is_missing.any():
        best = int(np.argmax(is_missing[pairs].sum(axis=1)))
        is_missing[pairs[best]] = False
        chosen.append(rows[best])
    return chosen


def pairs_of(rows: Iterable[Row]) -> set[tuple[Any, ...]]:
    """Returns the pairs of values in rows: `((factor, value), (factor, value))`."""
    return {pair for row in rows for pair in _pairs(row)}


def name_of(row: Mapping[str, Any], factors: Sequence[str] | None = None) -> str:
    """Returns a short name of a row for a test's identifier: the values, without empty texts."""
    values = [row[name] for name in factors or row]
    return ", ".join(str(value) for value in values if value != "")


def quick_first(rows: Iterable[Any], number: int) -> list[Any]:
    """Returns rows as parameters; those after the first ones, with fewer new pairs, are slow."""
    rows = list(rows)
    slow = [row if isinstance(row, tuple) else (row,) for row in rows[number:]]
    return [*rows[:number], *(pytest.param(*row, marks=pytest.mark.slow) for row in slow)]


def _pairs(row: Row, once: Sequence[str] = ()) -> Iterable[tuple[Any, ...]]:
    paired = [item for item in row.items() if item[0] not in once]
    return [
        *itertools.combinations(paired, 2),
        *((name, row[name]) for name in once if name in row),
    ]
