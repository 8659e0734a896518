"""The lines that the stages print to a log file."""

import io
from collections.abc import Callable
from typing import Any

import pytest

from dualmctx.console import Console
from dualmctx.pipeline.player.report import describe_match
from dualmctx.pipeline.reinforce.report import describe_row
from dualmctx.pipeline.supervised import report as supervised
from dualmctx.pipeline.value import report as value
from dualmctx.runs.progress import Described, Display

POINTS = {f"reinforce/points{x}": 1.0 for x in ("", "_low", "_high")}
ERRORS = {f"value/{split}_mse": 4.0 for split in ("train", "test")}
TOP1 = {f"validation/{name}_top1": 1.0 for name in ("policy", "rollout", "chance")}
LOSSES = {"policy_loss": 12.345, "rollout_loss": 12.345, "policy_top1": 1.0, "rollout_top1": 1.0}
POOL = {"pool_points": 1.0, "entropy": 12.34, "value_loss": 1.234}
RESULTS = {"wins": 100.0, "draws": 14.0, "losses": 14.0}


def describe_games(row: dict[str, Any]) -> str:
    return describe_match("lambda 0.1234", "rollout policy", row)


@pytest.mark.parametrize(
    ("describe", "row"),
    [
        (supervised.describe, LOSSES),
        (supervised.describe, LOSSES | TOP1 | {"exact/policy_keeping": 1.0}),
        (describe_row, POOL),
        (describe_row, POOL | POINTS),
        (value.describe, {"value_loss": 4.0}),
        (value.describe, {"value_loss": 4.0} | ERRORS),
        (describe_games, RESULTS),
    ],
)
def test_lines_of_all_stages_fit_80_columns(
    describe: Callable[[dict[str, Any]], str], row: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    output = io.StringIO()
    display = Display(
        1000, console=Console(file=output), describe=lambda row: Described((describe(row),), "")
    )
    monkeypatch.setattr(display._pace, "left", lambda total: "12:34:56 left")
    display.show({"iteration": 999, "seconds": 12345.6} | row)
    [line] = output.getvalue().splitlines()
    assert line.endswith("12:34:56 left")
    assert " 999/1000  12345.6 s" in line
    assert len(line) <= 80
