"""Numbers in reports, and tables that fit a page or a terminal."""

import io
import math
from typing import Any

import numpy as np
import pytest

from dualmctx.commands.standings import standings
from dualmctx.console import Console
from dualmctx.matches.report.html import fit_page
from dualmctx.matches.report.layout import Table, split_columns
from dualmctx.runs.numbers import (
    show_decimal,
    show_interval,
    show_number,
    show_probability,
    show_share,
    show_signed,
)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (math.nan, "–"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
        (0, "0"),
        (0.0, "0"),
        (-0.0, "0"),
        (12_345, "12,345"),
        (np.int64(-12_345), "−12,345"),
        (10**12, "1,000,000,000,000"),
        (1234.5, "1,234"),
        (123.4, "123"),
        (12.34, "12.3"),
        (0.9996, "1.00"),
        (99.96, "100"),
        (0.001234, "0.00123"),
        (0.0001, "0.000100"),
        (-0.5, "−0.500"),
        (1e-107, "1.00e−107"),
        (-2.22e-16, "−2.22e−16"),
        (9.996e-5, "1.00e−4"),
        (1.5e300, "1.50e300"),
    ],
)
def test_numbers_have_three_digits(value: float | None, shown: str) -> None:
    assert show_number(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (-2.2e-16, "0"),
        (0.0, "0"),
        (1e-107, "<0.001"),
        (0.00099, "<0.001"),
        (0.25, "0.250"),
        (0.9989, "0.999"),
        (0.9999999, ">0.999"),
        (1 + 2e-16, "1"),
    ],
)
def test_probabilities_have_three_decimals_or_a_bound(value: float | None, shown: str) -> None:
    assert show_probability(value) == shown


def test_a_rounded_zero_has_no_sign() -> None:
    assert [show_decimal(x, 2) for x in (-0.001, 0.0, -0.006)] == ["0.00", "0.00", "−0.01"]
    assert [show_share(x, 1) for x in (-1e-9, 0.125, None)] == ["0.0%", "12.5%", "–"]
    assert [show_signed(x) for x in (-0.4, 0.4, -0.6, 1234.0)] == ["0", "0", "−1", "+1,234"]
    assert show_interval({"low": -0.2, "high": None}) == "0 … +∞"


def test_random_numbers_stay_short_and_keep_their_value() -> None:
    rng = np.random.default_rng(0)
    for value in (rng.choice([-1, 1], 500) * 10 ** rng.uniform(-120, 120, 500)).tolist():
        shown = show_number(value)
        assert len(shown) <= 12
        read = float(shown.replace("−", "-").replace(",", ""))
        assert read == pytest.approx(value, rel=0.0051)


def make_table(columns: int, rows: int = 2, cell: str = "1234567") -> Table:
    head = ("", *(f"column {i}" for i in range(columns)))
    return Table("title", head, [(f"name {j}", *[cell] * columns) for j in range(rows)])


def test_wide_tables_are_split_without_losing_a_cell() -> None:
    table = make_table(9)
    for width in (8, 30, 50, 80, 400):
        parts = split_columns(table, width, gap=2, longest=20)
        assert [part.title for part in parts] == ["title", *[""] * (len(parts) - 1)]
        assert [x for part in parts for x in part.head[1:]] == [*table.head[1:]]
        for part in parts:
            assert [row[0] for row in part.rows] == ["name 0", "name 1"]
            widths = [6] + [7] * (len(part.head) - 1)
            assert sum(widths) + 2 * (len(widths) - 1) <= max(width, 15)
    assert len(split_columns(table, 400, gap=2, longest=20)) == 1
    # Nine columns in two parts: five and four rather than eight and one.
    assert [len(x.head) for x in split_columns(table, 78, gap=2, longest=20)] == [6, 5]
    assert split_columns(Table("", ("",), [("a",)]), 9, gap=1, longest=9)[0].rows == [("a",)]


def test_twenty_players_fit_the_page() -> None:
    parts = fit_page(make_table(20, 20, "+100 =100 −100, 150.5"))
    assert len(parts) > 1
    assert all(9 + (21 + 3) * (len(part.head) - 1) <= 108 for part in parts)


def standings_of(names: list[str], width: int) -> str:
    rows: list[dict[str, Any]] = [
        {
            "name": name,
            **{"elo": -1234.5, "low": -1400.0, "high": None, "score": 0.123, "mass": 1e-107},
            **{"simulations": 123_456, "blocks": 1_234_567, "seconds": 12.3456},
        }
        for name in names
    ]
    report = {
        "players": rows,
        "ratings": {"level": 0.95},
        "settings": {"game": "connect_four"},
        "games": {"played": 12_345},
    }
    text = io.StringIO()
    console = Console(file=text, width=width)
    for table in standings(report, console.width):
        console.print(table)
    return text.getvalue()


@pytest.mark.parametrize("width", [24, 40, 60, 80, 200])
def test_standings_fit_the_terminal_and_keep_names_and_numbers(width: int) -> None:
    long = "runs/connect-four/2026-11-23@1200+dual:num_rounds=10:simulations=200,100:window=3"
    shown = standings_of(["dual", long], width)
    assert max(map(len, shown.splitlines())) <= width
    # A wrapped name is read down the first column, whose words are parts of the name.
    folded = "".join(line.split(" ")[0] for line in shown.splitlines())
    assert "dual" in folded
    assert long in folded
    for cell in ("−1,234", "−1,400 … +∞", "12.3%", "<0.001", "123,456", "1,234,567", "12,346"):
        assert cell in shown
    assert "…" not in shown.replace(" … ", "")
