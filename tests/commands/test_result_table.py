"""The table of results on a terminal."""

import io
from typing import Any

import pytest

from dualmctx.commands.result_table import ResultTable
from dualmctx.console import Console

ROW: dict[str, Any] = {
    **{"id": "opening", "line": 1, "action": 3, "move": "4", "value": -0.3167},
    **{"network_value": [-0.25, 0.5], "tree_values": [0.1], "pv": ["4", "3"] * 30},
    "legal": [{"move": str(i), "weight": x} for i, x in enumerate((0.0, 0.7, 0.3, 0.001))],
}
OVER = ROW | {"id": 2, "move": None, "value": 1.0, "network_value": [None], "pv": [], "legal": []}
BAD = {"id": 3, "line": 3, "error": "move 1, '[x]', is wrong"}


def show(*batches: list[dict[str, Any]], fields: Any = None, width: int = 80) -> list[str]:
    file = io.StringIO()
    table = ResultTable(Console(file=file, width=width), fields)
    for batch in batches:
        table(batch)
    table.close()
    return file.getvalue().splitlines()


def test_rows_follow_one_header():
    header, row, over, bad, again, *note = show([ROW, OVER, BAD], [ROW])
    assert header.split() == ["id", "move", "value", "network", "moves", "expected", "line"]
    assert row.split()[:8] == ["opening", "4", "−0.317", "−0.250", "0.500", "1", "70%,", "2"]
    assert row.endswith("…")
    assert over.split() == ["2", "1.000"]
    assert bad == "3: move 1, '[x]', is wrong"
    assert again == row
    assert note[0].startswith("value, network: from -1 to 1 for the player to move")


@pytest.mark.parametrize("width", [40, 80, 200])
def test_lines_fit_the_terminal(width):
    assert max(map(len, show([ROW, OVER, BAD], width=width))) <= width


def test_a_rounded_zero_has_no_sign():
    *_, row = show([ROW | {"value": -1e-5}], fields=("line", "value"))
    assert row.split() == ["1", "0.000"]


def test_selected_fields_are_the_columns():
    rows = [ROW | {"player": "Anna", "tags": ["a", 1]}, BAD]
    header, row, bad = show(rows, fields=("line", "player", "tags", "value"))
    assert header.split() == ["line", "player", "tags", "value"]
    assert row.split() == ["1", "Anna", "a", "1", "−0.317"]
    assert bad.startswith("3: ")


def test_control_characters_do_not_reach_the_terminal():
    hostile = "\x1b[2J\x1b]0;x\x07"
    rows = [ROW | {"player": hostile}, BAD | {"error": hostile}]
    text = "".join(show(rows, fields=("line", "player")))
    assert text.isprintable()
    assert text.count("[2J") == 2


def test_a_first_batch_of_errors_has_a_header():
    header, bad, row, *_ = show([BAD], [ROW])
    assert header.split()[0] == "id"
    assert bad.startswith("3: ")
    assert row.split()[1] == "4"
