"""Tables keep every cell and fit a terminal, a page and a line of Markdown."""

import io
import re
from typing import Any

import jinja2
import pytest

from dualmctx.console import Console
from dualmctx.matches.report.page import standings
from dualmctx.reports.numbers import show_share
from dualmctx.reports.table import Table, entry


def make_table(columns: int, rows: int = 2, cell: str = "1234567") -> Table:
    head = ("", *(f"column {i}" for i in range(columns)))
    return Table("title", head, [(f"name {j}", *[cell] * columns) for j in range(rows)], "caption")


def printed(table: Table, width: int) -> str:
    text = io.StringIO()
    Console(file=text, width=width).print(table)
    return text.getvalue()


def test_columns_format_the_entries_of_records() -> None:
    columns = {"player": entry("name", str), "points": entry("score", show_share, 1)}
    table = Table.of("a [title]", columns, [{"name": "[b]x", "score": 0.5}], caption="below")
    assert table[:4] == ("a [title]", ("player", "points"), [("[b]x", "50.0%")], "below")
    title, head, rule, row, caption = printed(table, 80).splitlines()
    assert (title.strip(), caption.strip()) == ("a [title]", "below")
    assert (head, {*rule}, row) == ("player  points", {"─"}, "[b]x     50.0%")


def test_wide_tables_are_split_without_losing_a_cell() -> None:
    table = make_table(9)
    for width in (8, 50, 400):
        parts = table.split(width, gap=2, longest=20)
        assert [part.title for part in parts] == ["title", *[""] * (len(parts) - 1)]
        assert [part.caption for part in parts] == [*[""] * (len(parts) - 1), "caption"]
        assert [x for part in parts for x in part.head[1:]] == [*table.head[1:]]
        for part in parts:
            assert [row[0] for row in part.rows] == ["name 0", "name 1"]
            widths = [6] + [7] * (len(part.head) - 1)
            assert sum(widths) + 2 * (len(widths) - 1) <= max(width, 15)
    assert len(table.split(400, gap=2, longest=20)) == 1
    # Nine columns in two parts: five and four rather than eight and one.
    assert [len(x.head) for x in table.split(78, gap=2, longest=20)] == [6, 5]
    assert Table("", ("",), [("a",)]).split(9, gap=1, longest=9)[0].rows == [("a",)]


def test_a_table_is_markup_that_its_text_cannot_change() -> None:
    table = make_table(20, 20, "+100 =100 −100, 150.5")
    table.rows[0] = ("<b>|", *table.rows[0][1:])
    page = jinja2.Environment(autoescape=True).from_string("{{ table }}").render(table=table)
    heads = [part.count("<th>") for part in page.split("</table>")[:-1]]
    assert len(heads) > 1
    assert all(9 + (21 + 3) * (number - 1) <= 108 for number in heads)
    assert page.count('<td class="name">&lt;b&gt;|</td>') == len(heads)
    assert page.count("<h3>") == 1
    title, _, head, rule, row, *_ = table.to_markdown().splitlines()
    assert title == "**title**"
    assert head.startswith("|  | column 0 | column 1 |")
    assert re.fullmatch(r"\|( --- \|)+", rule)
    assert row.startswith(r"| <b>\| | +100 =100")


@pytest.mark.parametrize("width", [24, 80])
def test_standings_fit_the_terminal_and_keep_names_and_numbers(width: int) -> None:
    long = "runs/connect-four/2026-11-23@1200+dual:num_rounds=10:simulations=200,100:window=3"
    row: dict[str, Any] = {
        **{"elo": -1234.5, "low": -1400.0, "high": None, "score": 0.123, "mass": 1e-107},
        **{"simulations": 123_456, "blocks": 1_234_567, "seconds": 12.3456},
        "evaluations": 7_654_321,
    }
    report = {
        "players": [{"name": name} | row for name in ("dual", long)],
        "settings": {"game": "connect_four"},
        "games": {"played": 12_345},
    }
    shown = printed(standings(report), width)
    assert max(map(len, shown.splitlines())) <= width
    # A wrapped name is read down the first column, whose words are parts of the name.
    folded = "".join(line.split(" ")[0] for line in shown.splitlines())
    assert "dual" in folded
    assert long in folded
    for cell in ("−1,234", "−1,400 … +∞", "12.3%", "<0.001", "123,456", "1,234,567", "12,346"):
        assert cell in shown
    assert "…" not in shown.replace(" … ", "")
