"""The rows of a covering array have all pairs of values."""

from typing import Any

import pytest

from pairwise import cover, pairs_of, product

ALL = product(a=(1, 2, 3), b=("x", "y", "z"), c=(None, True), d=(0, 5, 7, 9))


def is_allowed(row: dict[str, Any]) -> bool:
    return not (row["a"] == 1 and row["b"] == "x") and row["d"] + row["a"] != 3


@pytest.mark.parametrize("rows", [ALL, [row for row in ALL if is_allowed(row)]])
def test_all_pairs_occur_in_few_rows(rows: list[dict[str, Any]]) -> None:
    assert len(ALL) == 3 * 3 * 2 * 4
    chosen = cover(rows)
    assert pairs_of(chosen) == pairs_of(rows)
    assert all(row in rows for row in chosen)
    # At least the product of the two largest factors, and here not many more.
    assert 12 <= len(chosen) <= 15
    assert chosen == cover(rows)


def test_values_of_some_factors_need_no_pairs() -> None:
    rows = cover(ALL, once=("b", "d"))
    assert pairs_of({"a": row["a"], "c": row["c"]} for row in rows) == {
        (("a", a), ("c", c)) for a in (1, 2, 3) for c in (None, True)
    }
    assert {row["b"] for row in rows} == {"x", "y", "z"}
    assert {row["d"] for row in rows} == {0, 5, 7, 9}
    assert len(rows) == 6
