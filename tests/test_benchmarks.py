"""The benchmarks run, at a tiny size, and compare like with like."""

import json
import pathlib

from benchmarks import engine


def test_engine_benchmark_compares_equal_searches(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "rows.json"
    engine.main(["--quick", "--repeats", "1", "--json", str(file)])
    rows = json.loads(file.read_text())
    assert [row["rule"] for row in rows] == list(engine.RULES)
    assert all(row["same_visits"] and row["ours_us"] > 0 for row in rows)
