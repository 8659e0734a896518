"""The benchmarks run, at a tiny size, and compare like with like."""

import json
import pathlib

import pytest

from benchmarks import dual, engine, memory, single_root


def test_engine_benchmark_compares_equal_searches(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "rows.json"
    engine.main(["--quick", "--repeats", "1", "--json", str(file)])
    rows = json.loads(file.read_text())
    assert [row["rule"] for row in rows] == list(engine.RULES)
    assert all(row["same_visits"] and row["ours_us"] > 0 for row in rows)


def test_dual_benchmark_compares_all_searches(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "rows.json"
    dual.main(["--quick", "--repeats", "1", "--json", str(file)])
    rows = json.loads(file.read_text())
    names = ["mctx AlphaZero", "AlphaZero", *["Dual", "MPV"] * 2]
    assert [row["search"] for row in rows] == names
    # Two blocks for each of 5 + 4 evaluations; four and six without anything to resume.
    assert [row["blocks"] for row in rows] == [36, 36, 18, 44, 18, 44]
    assert all(row["ms"] > 0 for row in rows)


def test_memory_benchmark_predicts_what_xla_reports(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "rows.json"
    memory.main(["--quick", "--json", str(file)])
    [row] = json.loads(file.read_text())
    assert row["check"] == pytest.approx(1, abs=0.05)
    assert row["compact"] <= row["plain"] < row["mctx"]
    assert row["dual16"] < row["dual"]


@pytest.mark.parametrize(("name", "share"), [("chess", 0.25), ("go_19x19", 0.5)])
def test_a_node_takes_a_part_of_what_mctx_takes(name: str, share: float) -> None:
    game = memory.open_game(name)
    ours = memory.a_node(memory.compact_tree(name, game))
    assert ours <= share * memory.mctx_node(game)


def test_single_root_benchmark_measures_every_search(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "rows.json"
    single_root.main(["--quick", "--json", str(file)])
    rows = json.loads(file.read_text())
    engines = ["dualmctx, 1 a step", "dualmctx, 256 a step", "mctx"]
    expected = [(name, engine) for name in ("hash", "network") for engine in engines]
    assert [(row["evaluation"], row["engine"]) for row in rows["times"]] == expected
    assert all(row["seconds"] >= 0 and row["mib"] > 0 for row in rows["times"])
    assert [row["leaves_per_step"] for row in rows["agreement"]] == [1, 256]
    assert all(0 <= row["keeps_value"] <= row["positions"] == 4 for row in rows["agreement"])
