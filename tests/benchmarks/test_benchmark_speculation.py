"""The benchmark of speculation compares equal searches and counts fewer calls."""

import json
import pathlib

import pytest

from benchmarks import speculation


def test_the_benchmark_compares_equal_searches(
    capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "rows.json"
    speculation.main(["--quick", "--json", str(file)])
    assert "8 simulations, 2 positions" in capsys.readouterr().out
    rows = json.loads(file.read_text())["rows"]
    assert [row["width"] for row in rows] == [1, 4, 1, 4]
    for row in rows:
        # No game ends within 8 simulations, so each one takes a call of its own.
        assert row["calls"] == 8 if row["width"] == 1 else 2 <= row["calls"] < 8
        assert row["other policies"] == 0


def test_the_benchmark_refuses_options_out_of_range() -> None:
    with pytest.raises(SystemExit, match="simulations is 0"):
        speculation.main(["--simulations", "0"])
