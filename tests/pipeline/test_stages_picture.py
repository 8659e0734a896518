"""The picture of the whole pipeline."""

from pathlib import Path
from typing import Any

import pytest

from dualmctx.pipeline.whole import picture
from dualmctx.pipeline.whole.report import StageFolder
from dualmctx.runs.journal import write_rows


def test_the_errors_of_the_value_network_start_at_zero(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"iteration": x, "value/train_mse": 0.5, "value/test_mse": 0.6} for x in (1, 2)]
    write_rows(tmp_path / "metrics.jsonl", rows)
    drawn: list[Any] = []
    monkeypatch.setattr(picture, "save_figure", lambda figure, *rest: drawn.append(figure))
    summary = {"title": "all", "stages": [{"stage": "value", "seconds": 1.0, "keeping": {}}]}
    picture.draw_stages(summary, [StageFolder("value", tmp_path)], tmp_path / "stages.png")
    low, high = drawn[0].axes[0].get_ylim()
    assert low == 0
    assert high > 0.6
