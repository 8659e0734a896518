"""The benchmarks run, at a tiny size, and compare like with like."""

import json
import pathlib

import numpy as np
import pytest

from benchmarks import contempt, dual, engine, memory, single_root, variants


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


def test_contempt_benchmark_counts_every_game(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "rows.json"
    contempt.main(["--quick", "--json", str(file)])
    rows = json.loads(file.read_text())
    for part, number in (("selfplay", 4), ("handicap", 16)):
        [row] = rows[part]
        assert row["limit"] == 2
        assert row["wins"] + row["draws"] + row["losses"] == number
        assert 0 < row["plies"] <= contempt.MAX_PLIES


def test_contempt_benchmark_needs_a_run(capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit):
        contempt.main([])
    assert "--run is missing" in capsys.readouterr().err


def test_repeated_games_are_those_that_began_as_another_one() -> None:
    actions = np.array([[1, 2, 3, -1], [1, 2, 4, 5], [1, 2, 4, 6], [2, 2, 4, 6]])
    shares = [contempt.repeated(actions, ply) for ply in (1, 2, 3, 4)]
    assert shares == [0.75, 0.75, 0.5, 0.0]


def test_variants_benchmark_measures_searches_and_windows(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "rows.json"
    variants.main(["--quick", "--only", "windows", "--json", str(file)])
    found = json.loads(file.read_text())
    [row] = found["variants"]
    assert (row["game"], row["search"], row["positions"]) == ("connect2", "alphazero", 23)
    assert 0.5 < row["optimal"] <= 1
    assert 0 < row["weight_on_optimal"] <= 1 + 1e-6
    # Nothing draws here, so the second key is the last.
    assert row["by_key"] == [row["optimal"]] * 2
    assert (row["better"], row["worse"]) == (0, 0)
    full, narrow = found["windows"]
    assert (full["window"], full["saved"], narrow["window"]) == (None, 0, 1)
    assert full["optimal"] == row["optimal"]
    # A window of one edge writes one for each of the 20 simulations.
    assert narrow["updates"] == 20 < narrow["steps"]
    assert narrow["saved"] == pytest.approx(1 - 20 / narrow["steps"], abs=1e-3)


def test_variants_benchmark_has_every_variant_at_one_budget() -> None:
    searches = variants.searches(400)
    assert set(variants.REGISTRY) <= set(searches)
    # Every row of options fits a variant.
    assert len(searches) == len(variants.REGISTRY) + len(variants.OPTIONS)
    for policy in searches.values():
        budgets = policy.num_simulations
        assert (sum(budgets) if isinstance(budgets, tuple) else budgets) == 400
        assert policy == policy.noiseless()
    assert searches["dual"].num_simulations == (235, 165)
