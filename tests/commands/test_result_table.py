"""Results on a terminal."""

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


def show(*rows: dict[str, Any], fields: Any = None, width: int = 80) -> list[str]:
    file = io.StringIO()
    ResultTable(Console(file=file, width=width), fields)([*rows])
    return file.getvalue().splitlines()


def test_results_and_errors_are_lines() -> None:
    header, rule, row, over, bad = show(ROW, BAD, OVER)
    assert header.split() == ["id", "move", "value", "network", "moves", "expected", "line"]
    assert {*rule} == {"─"}
    moves = ["1", "70%,", "2", "30%", "4", "3", "4", "3", "4", "…"]
    assert row.split() == ["opening", "4", "−0.317", "−0.250", "0.500", *moves]
    assert over.split() == ["2", "1.000"]
    assert bad == "3: move 1, '[x]', is wrong"
    assert show(BAD) == [bad]


@pytest.mark.parametrize("width", [40, 80, 200])
def test_batches_have_one_head_and_a_line_for_each_result(width: int) -> None:
    file = io.StringIO()
    table = ResultTable(Console(file=file, width=width), None)
    for batch in ([BAD], [ROW, OVER], [ROW | {"id": "x" * 300}, OVER]):
        table(batch)
    bad, head, _, *rows = file.getvalue().splitlines()
    assert (bad[:2], head[:2]) == ("3:", "id")
    assert [row.split()[0][:3] for row in rows] == ["ope", "2", "xxx", "2"]
    assert "x… " in rows[2]
    assert max(map(len, (head, *rows))) <= width
    # Numbers end where their title ends, in every batch.
    end = head.index("value") + len("value")
    numbers = [row[:end].split()[-1] for row in rows]
    assert numbers == ["−0.317", "1.000"] * 2


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
