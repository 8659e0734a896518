"""Results on a terminal."""

import io
from typing import Any

import pytest

from dualmctx.commands.result_table import print_rows
from dualmctx.console import Console

ROW: dict[str, Any] = {
    **{"id": "opening", "line": 1, "action": 3, "move": "4", "value": -0.3167},
    **{"network_value": [-0.25, 0.5], "tree_values": [0.1], "pv": ["4", "3"] * 30},
    "legal": [{"move": str(i), "weight": x} for i, x in enumerate((0.0, 0.7, 0.3, 0.001))],
}
OVER = ROW | {"id": 2, "move": None, "value": 1.0, "network_value": [None], "pv": [], "legal": []}
BAD = {"id": 3, "line": 3, "error": "move 1, '[x]', is wrong"}


def show(*rows: dict[str, Any], fields: Any = None, width: int = 80) -> list[str]:
    file = io.StringIO()
    print_rows(Console(file=file, width=width), fields, list(rows))
    return file.getvalue().splitlines()


def test_a_batch_is_a_table_and_its_errors_are_lines() -> None:
    header, rule, row, over, bad = show(ROW, BAD, OVER)
    assert header.split() == ["id", "move", "value", "network", "moves", "expected", "line"]
    assert {*rule} == {"─"}
    moves = ["1", "70%,", "2", "30%", "4", "3", "4", "3", "4", "…"]
    assert row.split() == ["opening", "4", "−0.317", "−0.250", "0.500", *moves]
    assert over.split() == ["2", "1.000"]
    assert bad == "3: move 1, '[x]', is wrong"
    assert show(BAD) == [bad]


@pytest.mark.parametrize("width", [40, 80, 200])
def test_lines_fit_the_terminal(width: int) -> None:
    assert max(map(len, show(ROW, OVER, BAD, width=width))) <= width


def test_selected_fields_are_the_columns() -> None:
    row = ROW | {"player": "Anna", "tags": ["a", 1], "value": -1e-5}
    header, _, shown = show(row, fields=("line", "player", "tags", "value"))
    assert header.split() == ["line", "player", "tags", "value"]
    # A rounded zero has no sign.
    assert shown.split() == ["1", "Anna", "a", "1", "0.000"]


def test_control_characters_do_not_reach_the_terminal() -> None:
    hostile = "\x1b[2J\x1b]0;x\x07"
    rows = ROW | {"player": hostile}, BAD | {"error": hostile}
    text = "".join(show(*rows, fields=("line", "player")))
    assert text.isprintable()
    assert text.count("[2J") == 2
