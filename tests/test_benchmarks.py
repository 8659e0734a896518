"""The benchmarks run at a tiny size and compare equal searches."""

import functools
import json
import pathlib
import random
import warnings
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import mctx
import numpy as np
import pyspiel
import pytest

import games
from benchmarks import (
    connect_four,
    contempt,
    coverage,
    dual,
    engine,
    evaluation,
    first_move,
    go_step,
    learning,
    leaves,
    mates,
    memory,
    openspiel_loop,
    pgx_loop,
    readouts,
    scaling,
    single_root,
    startup,
    strength,
    throughput,
    variants,
)
from benchmarks.common import (
    Estimate,
    estimate,
    make_params,
    make_parser,
    run_in_turns,
    time_in_turns,
    untrained_model,
)
from benchmarks.dual import make_positions
from dualmctx.experiment.run_record import record_of
from dualmctx.models.network import Network, make_network
from dualmctx.policies import AlphaZero, Dual, Gumbel, MuZero
from dualmctx.policies.costs import move_cost
from dualmctx.ratings.davidson import fit
from dualmctx.ratings.elo import ELO
from dualmctx.runs.checkpoint import open_checkpoints
from dualmctx.runs.folder import create_run
from dualmctx.runs.journal import write_rows
from dualmctx.runs.network_record import build_network, with_architecture
from dualmctx.runs.saved_network import export_trained, load_trained
from dualmctx.training.config import Config, NetworkOptions
from untrained import export_untrained


def test_timing_alternates_and_skips_first_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    called, clock = [], [0.0]
    monkeypatch.setattr("benchmarks.common.time.perf_counter", lambda: clock[0])
    seconds = {"a": iter([9, 3, 1, 2]), "b": iter([9, 6, 4, 5])}

    def run(name: str) -> str:
        called.append(name)
        clock[0] += next(seconds[name])
        return f"{name}{len(called)}"

    runs = {name: functools.partial(run, name) for name in "ab"}
    assert time_in_turns(runs, 3) == {"a": 2, "b": 5}
    assert called == ["a", "b"] * 4
    seconds["a"], seconds["b"] = iter([1]), iter([2])
    assert run_in_turns(runs, 1) == {"a": [(1, "a9")], "b": [(2, "b10")]}


def test_a_benchmark_whose_platform_is_missing_ends_with_a_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def fail(program: str) -> None:
        raise ValueError("JAX found no usable GPU")

    monkeypatch.setattr("benchmarks.common.require_backend", fail)
    with pytest.raises(SystemExit, match=r"^2$"):
        make_parser("A benchmark.")
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert captured.err.endswith(": JAX found no usable GPU\n")


def test_coverage_counts_intervals_that_hold(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "rows.json"
    coverage.main(["--quick", "--json", str(file)])
    found = json.loads(file.read_text())
    assert len(found["pairs"]) == 36
    assert len(found["shared"]) == 2
    held = [row["interval"]["held"] for row in found["pairs"]]
    assert np.mean(held) > 0.95 > np.mean([row["percentiles"]["held"] for row in found["pairs"]])
    ends = [(0.0, 2.0), (-np.inf, 0.5), (1.5, 3.0), (1.0, np.inf)]
    assert coverage.share_held(ends, 1.0) == {"held": 0.5, "width": pytest.approx(np.inf)}
    # The same games, with an opening of its own for every pair.
    shared = coverage.play_shared(np.random.default_rng(0), 3, 0.3)
    apart = coverage.separate(shared)
    assert apart.by_opening.shape[0] == 45
    np.testing.assert_array_equal(apart.pairs, shared.pairs)


@pytest.mark.parametrize("luck", coverage.LUCK)
def test_coverage_true_value_matches_large_sample(luck: str) -> None:
    """A fit to many simulated pairs finds the true difference, for each kind of luck."""
    setting = coverage.Setting(100_000, 200.0, 0.3, luck)
    [counts] = coverage.play_pairs(np.random.default_rng(1), setting, 1)
    table = counts.reshape(3, 3)
    won, lost = (int(table[x].sum() + table[:, x].sum()) for x in (2, 0))
    wins = np.array([[0, won], [lost, 0]])
    draws = (200_000 - won - lost) * (1 - np.eye(2))
    strengths = fit(wins, draws)[0]
    found = ELO * (strengths[0] - strengths[1])
    assert found == pytest.approx(coverage.true_gap(setting), abs=6)
    assert (found < 180) == (luck == "side")
    assert (table[2, 0] + table[0, 2] == 0) == (luck == "shared")


@pytest.mark.parametrize(
    ("backend", "sizes"), [("cpu", engine.CPU_SIZES), ("gpu", engine.GPU_SIZES)]
)
def test_engine_benchmark_chooses_sizes_by_device(
    backend: str,
    sizes: tuple,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
    tmp_path: pathlib.Path,
) -> None:
    def measure(rule: str, size: tuple, *_: Any, **__: Any) -> engine.Row:
        return engine.Row(*size, rule, 2.0, 1.0, 2.0, rule != "muzero", 1.0, 1.0)

    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    monkeypatch.setattr(engine, "measure", measure)
    row = {"rule": "puct", "sizes": [{"B": 8, "N": 2, "A": 3}], "us": [1.5], "growth": 1.0}
    monkeypatch.setattr(engine, "measure_growth", lambda *_: row)
    file = tmp_path / "rows.json"
    engine.main(["--json", str(file)])
    found = json.loads(file.read_text())
    assert {(row["B"], row["N"], row["A"]) for row in found["rows"]} == set(sizes)
    device = found["environment"]
    assert (device["platform"], device["jax"]) == (jax.devices()[0].platform, jax.__version__)
    said = capsys.readouterr().out
    assert f"Device: {device['device']}" in said
    # MuZero's third of the rows differs.
    assert "The visits equal mctx's in 10 of 15 rows." in said


@pytest.mark.slow
def test_engine_benchmark_compares_equal_searches(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "rows.json"
    engine.main(["--quick", "--repeats", "1", "--json", str(file)])
    rows = json.loads(file.read_text())["rows"]
    assert [row["rule"] for row in rows] == list(engine.RULES)
    assert all(row["same_visits"] and row["ours_us"] > 0 for row in rows)


@pytest.mark.slow
def test_evaluation_benchmark_compares_equal_searches(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "rows.json"
    evaluation.main(["--quick", "--repeats", "1", "--json", str(file)])
    found = json.loads(file.read_text())
    assert [(row["engine"], row["batch"]) for row in found["rows"]] == [
        ("dualmctx", 4),
        ("mctx", 4),
    ]
    assert all(row["same"] == 1 and row["per_second"] > 0 for row in found["rows"])
    assert found["saturated"] == {"dualmctx, gumbel": 4, "mctx, gumbel": 4}


@pytest.mark.slow
def test_startup_benchmark_starts_with_an_empty_and_a_filled_cache(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "rows.json"
    startup.main(["--quick", "--json", str(file)])
    rows = json.loads(file.read_text())["rows"]
    assert [row["cache"] for row in rows] == ["empty cache", "filled cache"]
    cpu = {row["cache"]: row["cpu_seconds"] for row in rows}
    assert 0 < cpu["filled cache"] < cpu["empty cache"]


@pytest.mark.slow
def test_first_move_benchmark_starts_the_server_twice(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "rows.json"
    first_move.main(["--quick", "--json", str(file)])
    rows = json.loads(file.read_text())["rows"]
    assert [row["cache"] for row in rows] == list(first_move.CACHES)
    assert 0 < rows[1]["processor"] < rows[0]["processor"]


@pytest.mark.slow
def test_go_step_benchmark_compares_equal_states(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "rows.json"
    go_step.main(["--quick", "--json", str(file)])
    found = json.loads(file.read_text())
    [row] = found["rows"]
    assert row["same_states"]
    assert min(row["pgx_us"], row["ours_us"], row["ours_kernels"], row["pgx_iterations"]) > 0
    assert row["ours_kernels"] < row["pgx_kernels"]
    assert [(x["step"], x["while"]) for x in found["lowered"]] == [("pgx", 1), ("ours", 0)]


@pytest.mark.slow
def test_mates_benchmark_finds_all_mates(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "result.json"
    mates.main(["--quick", "--json", str(file)])
    found = json.loads(file.read_text())
    assert (found["positions"], found["found"], found["missed"]) == (4, 4, [])


def test_mating_moves_are_found() -> None:
    fool = "rnbqkbnr/pppp1ppp/4p3/8/6P1/5P2/PPPPP2P/RNBQKBNR b KQkq g3 0 2"
    assert mates.mating_moves(fool) == {"d8h4"}
    for fen in mates.mating_positions(2, seed=3):
        assert mates.mating_moves(fen)


@pytest.mark.slow
def test_evaluation_benchmark_times_the_host(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "rows.json"
    evaluation.main(["--host", "--quick", "--repeats", "1", "--json", str(file)])
    [rows] = json.loads(file.read_text()).values()
    times = {row["part"]: row["microseconds_per_row"] for row in rows}
    *parts, host, command = times
    assert (host, command) == ("host", "command")
    assert times[host] == pytest.approx(sum(times[part] for part in parts), abs=0.05)
    assert all(row["rows_per_second"] > 0 for row in rows)


def test_evaluation_benchmark_refuses_partial_batches(capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit):
        evaluation.main(["--number", "96"])
    assert "--batches has 64; each must divide --number 96" in capsys.readouterr().err


def test_saturation_is_smallest_batch_near_best_speed() -> None:
    speeds = {32: 40.0, 64: 96.0, 128: 94.0, 256: 100.0}
    row = evaluation.Row("muzero", 0, "mctx", 0, 0, 0, 0, 0)
    rows = [row._replace(batch=size, per_second=speed) for size, speed in speeds.items()]
    assert evaluation.saturation(rows) == {"mctx, muzero": 64}


@pytest.mark.slow
def test_dual_benchmark_compares_all_searches(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "rows.json"
    dual.main(["--quick", "--repeats", "1", "--json", str(file)])
    rows = json.loads(file.read_text())["rows"]
    equal = ["AlphaZero, 4 simulations", "AlphaZero, early head"]
    names = ["mctx AlphaZero", "AlphaZero", *equal, "Dual", "MPV"]
    assert [row["search"] for row in rows] == 2 * names
    assert [row["positions"] for row in rows] == ["early"] * 6 + ["all"] * 6
    # Two blocks for each of 5 + 4 evaluations; four and six without resuming.
    assert [row["blocks"] for row in rows] == 2 * [36, 36, 16, 18, 18, 44]
    assert all(row["ms"] > 0 for row in rows)


def test_positions_from_all_stages_are_not_terminal() -> None:
    env = games.make("connect_four")
    state = make_positions(env, "all", 72)
    plies = np.sum(np.any(np.asarray(state.observation), axis=-1), axis=(1, 2))
    assert not np.any(state.terminated)
    assert np.all(plies <= np.arange(72) % 36)
    assert plies[0] == plies[36] == 0
    # A random game has at least seven moves.
    assert np.all(plies[1:7] == np.arange(1, 7))
    assert np.max(plies) > 20


@pytest.mark.slow
def test_memory_prediction_matches_xla(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "rows.json"
    memory.main(["--quick", "--json", str(file)])
    [row] = json.loads(file.read_text())["rows"]
    # The prediction has a margin of 10 % over the parts that it counts.
    assert 1 <= row["check"] <= 1.4
    assert row["compact"] <= row["plain"] < row["mctx"]
    assert row["dual16"] < row["dual"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "share"), [("chess", 0.25), ("go_19x19", 0.5)])
def test_node_is_smaller_than_mctx_node(name: str, share: float) -> None:
    game = memory.open_game(name)
    ours = memory.bytes_per_node(memory.compact_tree(name, game))
    assert ours <= share * memory.mctx_bytes_per_node(game)


@pytest.mark.slow
def test_single_root_benchmark_measures_every_search(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "rows.json"
    single_root.main(["--quick", "--json", str(file)])
    rows = json.loads(file.read_text())["rows"]
    searches = ["dualmctx, leaves per step 1", "dualmctx, leaves per step 256", "mctx"]
    parts = [("network", 6), ("hash", 6), ("hash", 60)]
    expected = [(name, search, number) for name, number in parts for search in searches]
    assert [(row["evaluation"], row["search"], row["simulations"]) for row in rows] == expected
    assert [row["extrapolated"] for row in rows] == [False] * 8 + [True]
    # No game can end within so few simulations.
    assert all(row["positions"] == row["simulations"] for row in rows)
    assert all(row["seconds"] > 0 and row["us_per_position"] > 0 < row["mib"] for row in rows[:8])


@pytest.mark.slow
def test_leaves_benchmark_compares_with_the_ordinary_search(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "rows.json"
    leaves.main(["--quick", "--json", str(file)])
    rows = json.loads(file.read_text())
    searches = [(row["leaves_per_step"], row["virtual_loss"]) for row in rows]
    assert searches == [(1, 0), (64, 0), (64, 3)]
    ordinary, *others = rows
    assert (ordinary["difference"], ordinary["better"], ordinary["worse"]) == (0, 0, 0)
    assert ordinary["per_step"] == 1
    for row in others:
        change = round(100 * (row["better"] - row["worse"]) / row["number"], 2)
        assert row["difference"] == change == round(100 * (row["keeps"] - ordinary["keeps"]), 2)
        assert 1 < row["per_step"] <= 24
    assert all(0 < row["evaluated"] <= 24 for row in rows)


def test_leaves_differences_are_paired_by_position() -> None:
    ordinary = np.array([True, True, False, False])
    found = leaves.compare(np.array([True, False, True, True]), ordinary)
    assert (found["keeps"], found["better"], found["worse"]) == (0.75, 2, 1)
    # Changes of 0, -100, 100 and 100: a mean of 25, a deviation of 95.74.
    assert (found["difference"], found["error"]) == (25, 47.87)


def test_leaves_benchmark_refuses_other_games(capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit):
        leaves.main(["tic-tac-toe"])
    assert "tic-tac-toe is a network for tic_tac_toe" in capsys.readouterr().err


@pytest.mark.slow
def test_contempt_benchmark_counts_every_game(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "rows.json"
    contempt.main(["--quick", "--json", str(file)])
    rows = json.loads(file.read_text())
    for part, number in (("selfplay", 4), ("handicap", 16)):
        [row] = rows[part]
        assert row["limit"] == 2
        assert row["wins"] + row["draws"] + row["losses"] == number
        assert 0 < row["plies"] <= contempt.MAX_PLIES
    assert [row["temperature"] for row in rows["temperatures"]] == [0.1, 2.0]
    for row in rows["temperatures"]:
        share, low, high = row["decided"]
        assert (row["limit"], share) == (None, (row["wins"] + row["losses"]) / 4)
        assert low <= share <= high


@pytest.mark.slow
def test_higher_temperature_repeats_fewer_games() -> None:
    model = (*untrained_model(), "untrained")
    sizes = contempt.Sizes(32, 32, 4, 0.5, (), (), ())
    cold, hot = (contempt.measure_selfplay(model, None, sizes, 0, heat) for heat in (0.0, 5.0))
    assert (cold.temperature, cold.distinct, cold.repeated[4]) == (0.0, 1, 1.0)
    assert hot.distinct > 16
    assert hot.repeated[4] < 1
    assert cold.decided.share in (0.0, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("opening", ["11111111", "1212121", "9"])
def test_contempt_benchmark_refuses_bad_opening(
    opening: str, capsys: pytest.CaptureFixture
) -> None:
    with pytest.raises(SystemExit):
        contempt.main(["--quick", "--opening", opening])
    assert "error: " in (said := capsys.readouterr().err)
    assert opening in said


@pytest.mark.slow
def test_contempt_games_start_after_opening() -> None:
    model = (*untrained_model(), "untrained")
    # Three in a column each: the player to move wins, and 64 simulations find the win.
    sizes = contempt.Sizes(2, 2, 64, 0.0, (), (), (), opening="121212")
    row = contempt.measure_selfplay(model, None, sizes, 0)
    assert (row.wins, row.draws, row.losses, row.plies) == (2, 0, 0, 1.0)


def test_contempt_benchmark_requires_run(capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit):
        contempt.main([])
    assert "--run is missing" in capsys.readouterr().err


def test_repeated_games_share_first_moves() -> None:
    actions = np.array([[1, 2, 3, -1], [1, 2, 4, 5], [1, 2, 4, 6], [2, 2, 4, 6]])
    shares = [contempt.share_repeated(actions, ply) for ply in (1, 2, 3, 4)]
    assert shares == [0.75, 0.75, 0.5, 0.0]


@pytest.mark.slow
def test_variants_benchmark_measures_searches_and_windows(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "rows.json"
    variants.main(["--quick", "--only", "windows", "--json", str(file)])
    found = json.loads(file.read_text())
    [row] = found["variants"]
    assert (row["game"], row["search"], row["positions"]) == ("connect2", "alphazero", 23)
    assert 0.5 < row["optimal"] <= 1
    assert 0 < row["weight_on_optimal"] <= 1 + 1e-6
    # Nothing is random here, so the second key is the last.
    assert row["by_key"] == [row["optimal"]] * 2
    assert (row["better"], row["worse"]) == (0, 0)
    assert 0.5 < found["random_moves"]["connect2"] < row["optimal"]
    full, narrow = found["windows"]
    assert (full["window"], full["saved"], narrow["window"]) == (None, 0, 1)
    assert full["optimal"] == row["optimal"]
    # A window of one edge writes one for each of the 20 simulations.
    assert narrow["updates"] == 20 < narrow["steps"]
    assert narrow["saved"] == pytest.approx(1 - 20 / narrow["steps"], abs=1e-3)


def test_variants_benchmark_has_all_variants_at_equal_budget() -> None:
    searches = variants.searches(400)
    assert set(variants.REGISTRY) <= set(searches)
    # Every row of options fits a variant.
    assert len(searches) == len(variants.REGISTRY) + len(variants.OPTIONS)
    for policy in searches.values():
        budgets = policy.num_simulations
        assert (sum(budgets) if isinstance(budgets, tuple) else budgets) == 400
        assert policy == policy.for_evaluation()
    assert searches["dual"].num_simulations == (235, 165)


def test_share_of_random_moves_counts_legal_moves() -> None:
    legal = np.array([[True, True, False, False], [True, True, True, True]])
    states = SimpleNamespace(legal_action_mask=legal)
    optimal = np.array([[True, False, False, False], [True, True, True, False]])
    case = variants.Case("connect2", games.make("connect2"), states, optimal)
    assert variants.random_share(case) == (1 / 2 + 3 / 4) / 2


def test_scaling_ratios() -> None:
    spread = {
        1: scaling.Speed(64, 3.0, 1.0, 128.0),
        2: scaling.Speed(128, 3.0, 2.0, 192.0),
        8: scaling.Speed(512, 5.0, 3.0, 256.0),
    }
    together = {1: spread[1], 2: spread[2]._replace(per_second=96.0)}
    together[8] = spread[8]._replace(per_second=512.0)
    rows = scaling.compare(spread, together)
    assert [(row.devices, row.num_games, row.selfplay_s, row.learn_s) for row in rows] == [
        (1, 64, 3, 1),
        (2, 128, 3, 2),
        (8, 512, 5, 3),
    ]
    # 192 of 2 × 128 positions per second, 256 of 8 × 128; 96 and 512 on one device.
    assert [row.efficiency for row in rows] == [1, 0.75, 0.25]
    assert [row.split for row in rows] == [1, 2, 0.5]


def test_scaling_rate_is_median_of_rates() -> None:
    seconds = [(1.0, 4.0), (2.0, 2.0), (9.0, 1.0)]
    names = ("selfplay_seconds", "learn_seconds")
    rows = [{"positions": 20, **dict(zip(names, pair, strict=True))} for pair in seconds]
    # Rates are 4, 5 and 2; the medians of the times would give 20 / (2 + 2) = 5.
    assert scaling.summarize(7, rows) == (7, 2.0, 2.0, 4.0)


@pytest.mark.slow
def test_scaling_benchmark_measures_one_device(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "rows.json"
    scaling.main(["--quick", "--repeats", "1", "--json", str(file)])
    [row] = json.loads(file.read_text())
    assert (row["devices"], row["num_games"]) == (1, scaling.QUICK.num_games)
    assert (row["efficiency"], row["split"]) == (1, 1)
    seconds = row["selfplay_s"] + row["learn_s"]
    assert row["per_second"] == pytest.approx(row["num_games"] * scaling.QUICK.num_steps / seconds)


@pytest.mark.parametrize(("search", "policy"), [("gumbel", Gumbel), ("muzero", MuZero)])
def test_throughput_loops_use_same_search(
    search: str, policy: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`tests/test_mctx.py` compares both policies with mctx's."""
    found = []

    def make_trainer(env: Any, network: Any, policy: Any, *_: Any, **options: Any) -> Any:
        found.append(policy)
        return SimpleNamespace(init=lambda seed: None, compile=lambda state: None)

    monkeypatch.setattr(throughput, "make_trainer", make_trainer)
    [(_, sizes)] = throughput.QUICK
    throughput.our_loop(games.make("connect_four"), None, search, sizes)
    assert found == [policy(sizes.num_simulations)]
    theirs = pgx_loop.SEARCHES[search]
    of_mctx = {"gumbel": mctx.gumbel_muzero_policy, "muzero": mctx.muzero_policy}[search]
    assert getattr(theirs, "func", theirs) is of_mctx


def test_throughput_rate_is_median_of_rates() -> None:
    counts = [(10, 5.0), (42, 6.0), (20, 4.0)]
    rest = {"selfplay_seconds": 1.0, "learn_seconds": 2.0}
    rows = [{"positions": number, "seconds": seconds} | rest for number, seconds in counts]
    # Rates are 2, 7 and 5; the medians would give 20 / 5 = 4.
    assert throughput.medians(rows) == {"positions": 20, "per_second": 5.0} | rest


def stats(params: Any) -> int:
    """Counts a network's layers below its heads."""
    leaves = jax.tree_util.tree_leaves_with_path(params)
    paths = [[part.key for part in path] for path, _ in leaves]
    return sum(path[-1] == "kernel" and "head" not in path[0].lower() for path in paths)


@pytest.mark.parametrize("trunk", ["conv", "mlp"])
def test_openspiel_network_has_same_depth(trunk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from open_spiel.python.algorithms.alpha_zero import model_linen
    monkeypatch.setattr(model_linen.Model, "build_model", lambda *arguments: arguments)
    [(_, sizes)] = throughput.QUICK
    size = throughput.Size(trunk, 4, 3)._asdict()
    kind, shape, actions, width, depth, *_ = openspiel_loop.make_loop(None, sizes, **size).init(0)
    theirs = model_linen.AlphaZeroModel(kind, tuple(shape), actions, width, depth)
    ours = make_network(actions, (6, 7, 2), head_depths=(3,), **size)
    init, key = functools.partial(theirs.init, training=False), jax.random.key(0)
    # The first layer, and two layers per block.
    for init_fn, example in ((ours.init, (1, 6, 7, 2)), (init, shape)):
        assert stats(jax.eval_shape(init_fn, key, jnp.zeros(example))["params"]) == 7


@pytest.mark.slow
def test_throughput_benchmark_measures_every_loop(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "rows.json"
    throughput.main(["--quick", "--repeats", "1", "--json", str(file)])
    rows = {row["loop"]: row for row in json.loads(file.read_text())["rows"]}
    example = throughput.EXAMPLE["muzero"]
    assert list(rows) == ["dualmctx", example, "OpenSpiel, our network", "network alone"]
    for name in ("dualmctx", example, "network alone"):
        assert rows[name]["positions"] == 16
    for row in rows.values():
        assert row["positions"] >= 7
        assert row["per_second"] > 0
        assert row["ratio"] == pytest.approx(
            rows["dualmctx"]["per_second"] / row["per_second"], rel=0.01, abs=0.006
        )


def test_pgx_loop_value_targets() -> None:
    # A game won by its second move, a game drawn by its third move, a game cut off.
    reward = jnp.array([[0, 0, 0], [1, 0, 0], [0, 0, 0]], jnp.float32)
    is_end = jnp.array([[False, False, False], [True, False, False], [False, True, False]])
    discount = jnp.where(is_end, 0.0, -1.0)
    samples = pgx_loop.make_samples(pgx_loop.Step(None, None, reward, discount, is_end))
    np.testing.assert_array_equal(samples.value[:2, 0], [-1, 1])
    np.testing.assert_array_equal(samples.value[:, 1], [0, 0, 0])
    expected = [[True, True, False], [True, True, False], [False, True, False]]
    np.testing.assert_array_equal(samples.has_value, expected)


@pytest.fixture(scope="module")
def solver() -> connect_four.bitbully.BitBully:
    return connect_four.make_solver()


# Columns from 0: the centre wins from the start; a win in 1; a threat that must be blocked but
# loses to a second threat one row higher; a full column.
@pytest.mark.parametrize(
    ("moves", "values"),
    [
        ("", [-1, -1, 0, 1, 0, -1, -1]),
        ("303030", [None, None, None, 1, None, None, None]),
        ("30313", [-1, -1, -1, None, -1, -1, -1]),
        ("000000", [np.nan, None, None, None, None, None, None]),
    ],
)
def test_labels_are_for_player_to_move(solver: object, moves: str, values: list) -> None:
    found = connect_four.move_values(solver, [int(column) for column in moves])
    for one, other in zip(found, values, strict=True):
        assert other is None or np.array_equal(one, other, equal_nan=True)


def negamax(state: pyspiel.State) -> float:
    """Returns the exact value of an OpenSpiel state for the player to move."""
    mover = state.current_player()
    values = []
    for action in state.legal_actions():
        child = state.child(action)
        is_over = child.is_terminal()
        values.append(child.returns()[mover] if is_over else -negamax(child))
    return max(values)


def test_labels_match_exhaustive_search(solver: object) -> None:
    rng, game, found = random.Random(0), pyspiel.load_game("connect_four"), 0
    while found < 4:
        moves = connect_four.random_game(rng, 33)
        if moves is None:
            continue
        found += 1
        state = connect_four.state_after(game, moves)
        labels = connect_four.move_values(solver, moves)
        assert list(np.flatnonzero(~np.isnan(labels))) == state.legal_actions()
        for action in state.legal_actions():
            child = state.child(action)
            over = child.is_terminal()
            value = child.returns()[state.current_player()] if over else -negamax(child)
            assert labels[action] == value


def test_positions_round_trip_through_csv(solver: object, tmp_path: pathlib.Path) -> None:
    decisive = connect_four.game_positions(solver, 3, 0)
    assert np.all(np.nanmin(decisive.move_values, axis=1) < decisive.values)
    openings = connect_four.balanced_openings(solver, 3, 0)
    assert len(set(map(tuple, openings))) == 3
    assert all(len(x) % 2 == 0 and not connect_four.move_values(solver, x).max() for x in openings)
    names = ["moves_1based", *(f"score_c{column}" for column in range(1, 8))]
    lines = [",".join(names)]
    for history, values in zip(decisive.histories, decisive.move_values, strict=True):
        moves = "".join(str(column + 1) for column in history if column >= 0)
        # Scores are larger for faster wins.
        lines.append(",".join([moves, *("" if np.isnan(x) else f"{7 * x:.0f}" for x in values)]))
    file = tmp_path / "positions.csv"
    file.write_text("\n".join(lines))
    again = connect_four.read_positions(file)
    np.testing.assert_array_equal(again.histories, decisive.histories)
    np.testing.assert_array_equal(again.move_values, decisive.move_values)
    file.write_text("moves_1based\n1\n")
    with pytest.raises(ValueError, match="no positions with score_c1"):
        connect_four.read_positions(file)


def test_random_share_counts_legal_moves() -> None:
    values = np.array([[1, 0, np.nan, -1, -1, -1, np.nan], [0, 0, 0, 0, 0, 0, 0.0]])
    positions = connect_four.Positions(np.zeros((2, 42), np.int32), values)
    assert positions.random_share() == pytest.approx((1 / 5 + 1) / 2)
    np.testing.assert_array_equal(positions.values, [1, 0])


def test_estimate_is_wilson_interval() -> None:
    assert estimate(0.5, 100) == (0.5, 0.404, 0.596)
    assert estimate(1.0, 10) == (1.0, 0.722, 1.0)
    assert estimate(0.0, 10) == (0.0, 0.0, 0.278)


def test_match_points_go_to_winner() -> None:
    """The player that moves first wins at once here, unless it plays at the edge."""
    env, bot = games.make("connect_four"), connect_four.make_bot(200, 0)
    tools = strength.Tools(env, print, print, jax.jit(jax.vmap(env.step)))
    openings = [[3, 0, 3, 0, 3, 0], [2, 6, 2, 6, 2, 6]]
    winning = jnp.array([3, 2])

    def play(columns: jax.Array, *, first: bool) -> list[float]:
        def choose(states: object) -> jax.Array:
            # The given column if it is legal, otherwise the first legal column.
            legal = states.legal_action_mask
            is_legal = jnp.take_along_axis(legal, columns[:, None], axis=1)[:, 0]
            return jnp.where(is_legal, columns, jnp.argmax(legal, axis=1))

        return list(strength.play(tools, choose, bot, openings, moves_first=first))

    assert play(winning, first=True) == [1, 1]
    assert play(winning, first=False) == [0, 0]
    assert play(jnp.array([6, 0]), first=True) == [0, 0]


SEARCH = Dual(num_simulations=(2, 2), num_rounds=1)


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A run of two checkpoints of tiny networks."""
    folder = tmp_path_factory.mktemp("run")
    options = NetworkOptions(width=2, num_blocks=2)
    config = Config(game="connect_four", search=SEARCH, network=options)
    env = games.make("connect_four")
    record = record_of("connect-four", config)
    record = with_architecture(record, build_network(record, env))
    create_run(folder, record)
    write_rows(
        folder / "metrics.jsonl", [{"iteration": i, "seconds": 18.0 * i} for i in range(1, 6)]
    )
    state = jax.vmap(env.init)(jax.random.split(jax.random.key(0), 1))
    checkpoints = open_checkpoints(folder / "checkpoints")
    for step in (5, 7):
        params = make_params(build_network(record, env), state, step)
        checkpoints.save(step, {"params": params})
    checkpoints.wait()
    return folder


@pytest.mark.slow
def test_strength_benchmark_measures_a_run(run_folder: pathlib.Path) -> None:
    file = run_folder / "rows.json"
    strength.main([str(run_folder), "--quick", "--checkpoints", "all", "--json", str(file)])
    found = json.loads(file.read_text())
    assert found["search"] == str(SEARCH.for_evaluation())
    # 1.5 minutes at iteration 5, unknown at iteration 7.
    expected = [(5, 1.5), (7, None)]
    assert [(row["iteration"], row["minutes"]) for row in found["matches"]] == expected
    for row in found["matches"]:
        assert row["wins"] + row["draws"] + row["losses"] == row["games"] == 4
        assert row["points"][0] == pytest.approx((row["first"] + row["second"]) / 2, abs=1e-3)
    names = [(row["iteration"], row["positions"]) for row in found["positions"]]
    assert names == [(step, name) for step in (5, 7) for name in ("random", "games")]
    for row in found["positions"]:
        assert row["number"] == 8
        for share, low, high in (row["network"], row["search"]):
            assert 0 <= low <= share <= high <= 1


def refusal(benchmark: Any, capsys: pytest.CaptureFixture, *arguments: str) -> str:
    with pytest.raises(SystemExit):
        benchmark.main(list(arguments))
    return capsys.readouterr().err


@pytest.mark.slow
def test_strength_benchmark_refuses_bad_run(
    run_folder: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture
) -> None:
    error = functools.partial(refusal, strength, capsys)
    assert "RUN is missing" in error()
    assert "no run there" in error(str(tmp_path))
    record = json.loads((run_folder / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(record | {"game": "nim"}))
    assert "is a run of nim" in error(str(tmp_path))


@pytest.mark.slow
def test_strength_benchmark_uses_requested_search(run_folder: pathlib.Path) -> None:
    asked = ["--variant", "alphazero", "--simulations", "3"]
    _, options = strength.read_options([str(run_folder), *asked])
    [subject] = strength.load_subjects(options)
    assert subject.policy == AlphaZero(3).for_evaluation()
    assert subject.iteration == 7


@pytest.mark.slow
def test_strength_benchmark_measures_an_exported_file(
    run_folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    export_trained(load_trained(run_folder, 5), tmp_path / "five.safetensors")
    _, options = strength.read_options([str(tmp_path / "five.safetensors"), "--checkpoints", "all"])
    [subject] = strength.load_subjects(options)
    assert (subject.iteration, subject.minutes) == (5, None)
    assert subject.policy == SEARCH.for_evaluation()


@pytest.fixture
def experiment(run_folder: pathlib.Path, tmp_path: pathlib.Path) -> pathlib.Path:
    """The folder of an experiment with one run, of two steps."""
    run = tmp_path / "dual" / "seed-3"
    for step, iteration in ((0, 5), (2, 7)):
        export_trained(
            load_trained(run_folder, iteration), run / "steps" / f"{step:04d}.safetensors"
        )
    rows = [{"iteration": step, "seconds": 45.0 * step} for step in (1, 2, 3)]
    write_rows(run / "metrics.jsonl", rows)
    return tmp_path


@pytest.mark.slow
def test_learning_benchmark_measures_the_runs_of_an_experiment(experiment: pathlib.Path) -> None:
    file = experiment / "rows.json"
    learning.main([str(experiment), "--quick", "--steps", "0", "2", "--json", str(file)])
    rows = json.loads(file.read_text())
    names = [(row["step"], row["minutes"], row["positions"]) for row in rows]
    kinds = ("random", "games")
    assert names == [(step, step and 2.25, kind) for step in (0, 2) for kind in kinds]
    for row in rows:
        assert (row["algorithm"], row["seed"]) == ("dual", 3)
        for share, low, high in (row["network"], row["search"], row["alphazero"]):
            assert 0 <= low <= share <= high <= 1
        assert 0 < row["weights"] < 1
        assert 0 < row["alphazero_weights"] < 1


def test_learning_counts_moves_and_weights_that_keep_value() -> None:
    values = np.full((2, 7), -1.0)
    values[0, 3] = values[1, :2] = 1
    positions = connect_four.Positions(np.full((2, 42), -1, np.int32), values)
    weights = np.array([[0, 0, 0, 0.5, 0.5, 0, 0], [0.25, 0, 0.75, 0, 0, 0, 0]])
    found = SimpleNamespace(
        network_action=np.array([[3, 0], [0, 5]]),
        network_value=np.zeros((2, 2)),
        action=np.array([3, 1]),
        action_weights=weights,
        value=np.zeros(2),
    )
    tools = strength.Tools(games.make("connect_four"), lambda *_: found, print, print)
    # The final head is the last one.
    measured = learning.measure(tools, None, positions)
    assert measured == learning.Measured(network=0, search=1, weights=0.375)


def test_learning_rows_are_averaged_over_seeds() -> None:
    def row(step: int, seed: int, more: float) -> learning.Row:
        def share(x: float) -> Estimate:
            return Estimate(x + more, 0, 1)

        shares = (share(0.1), 0.2 + more, share(0.3), share(0.4), 0.5 + more)
        early = (None, None) if step == 4 and seed else (share(0.2), 0.1 + more)
        shares = (*shares, share(0.6), 0.3 + more, *early)
        return learning.Row("dual", seed, step, 1 + more, "games", 0.4, *shares)

    rows = [row(8, 0, 0.0), row(4, 0, 0.0), row(4, 1, 0.2), row(8, 1, 0.4)]
    common = {"algorithm": "dual", "positions": "games", "seeds": 2}
    names = ("minutes", *learning.Row._fields[6:])
    means = {
        8: (1.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.5, 0.4, 0.3),
        4: (1.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.4, None, None),
    }
    assert learning.mean_over_seeds(rows) == [
        common | {"step": step} | dict(zip(names, mean, strict=True))
        for step, mean in means.items()
    ]


def test_learning_benchmark_uses_run_search_and_alphazero(
    experiment: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def measured(tools: Any, params: Any, positions: Any) -> learning.Measured:
        share = 0.5 if tools == SEARCH.for_evaluation() else tools.num_simulations / 10
        return learning.Measured(share, share, share)

    monkeypatch.setattr(learning, "measure", measured)
    monkeypatch.setattr(
        learning, "make_tools", lambda subject, _: made.append(subject.policy) or subject.policy
    )
    labelled = {"games": connect_four.Positions(np.zeros((2, 42), np.int32), np.ones((2, 7)))}
    [run] = learning.find_runs(experiment, [0, 2])
    rows = list(learning.measure_run(run, labelled, 8, 6))
    controls = [AlphaZero(6), AlphaZero(3), AlphaZero(6, head=0)]
    assert made == [SEARCH.for_evaluation(), *(x.for_evaluation() for x in controls)]
    for step, row in zip((0, 2), rows, strict=True):
        assert row.step == step
        shares = (row.search, row.alphazero, row.alphazero_42, row.alphazero_early)
        assert [x and x.share for x in shares] == [0.5, 0.6, 0.3, 0.6]
        assert (row.weights, row.alphazero_weights, row.alphazero_42_weights) == (0.5, 0.6, 0.3)
    made.clear()
    same = [x._replace(policy=AlphaZero(3).for_evaluation()) for x in run.subjects]
    assert len(list(learning.measure_run(run._replace(subjects=same), labelled, 8, 3))) == 2
    assert made[0] == AlphaZero(3).for_evaluation()
    assert made.count(made[0]) == 1
    # A run with fewer simulations is also measured with the common number.
    made.clear()
    list(learning.measure_run(run._replace(subjects=same), labelled, 8, 4))
    assert made[:2] == [AlphaZero(3).for_evaluation(), AlphaZero(4).for_evaluation()]
    # A network with one head has no early head.
    assert learning.controls(Network(7, head_depths=(4,)), 4)["alphazero_early"] is None


@pytest.mark.slow
def test_learning_benchmark_refuses_bad_folder(
    experiment: pathlib.Path, capsys: pytest.CaptureFixture
) -> None:
    error = functools.partial(refusal, learning, capsys)
    assert "FOLDER is missing" in error()
    assert "has no runs of" in error(str(experiment / "dual"))
    assert "0004.safetensors" in error(str(experiment), "--steps", "4")
    assert "no runs of mpv; it has dual" in error(str(experiment), "--algorithms", "mpv")
    export_untrained(experiment / "mpv" / "seed-0" / "steps" / "0002.safetensors", "nim")
    (experiment / "mpv" / "seed-0" / "metrics.jsonl").touch()
    assert "is a run of nim, not connect_four" in error(str(experiment), "--steps", "2")


def test_readouts_searches_have_equal_cost_except_last() -> None:
    network = make_network(7, (6, 7, 2), width=4, num_blocks=4)
    found = readouts.searches(network)
    blocks = {x.name: move_cost(x.policy, network).blocks for x in found}
    assert blocks == {
        "50+35, mix 0.25": 170,
        "50+35, mix 0.0": 170,
        "75+10, mix 0.0": 170,
        "43+42, mix 0.25": 170,
        "alphazero 42": 168,
        "alphazero 85, first head": 170,
        "alphazero 85": 340,
    }
    assert found[0].policy == Dual().for_evaluation()
    assert found[0].modes[0] == Dual().action_weights


def test_readouts_are_paired_and_pooled_over_networks() -> None:
    def found(*mass: float) -> readouts.Scores:
        return readouts.Scores(np.array([1.0, 0.0]), np.array(mass))

    keys = [readouts.Key("50+35", "regularized", 1), readouts.Key("alphazero 42", "visits", 1)]
    one = {keys[0]: [found(0.5, 0.7)], keys[1]: [found(0.6, 1.0)]}
    rows = readouts.compare("net", "random", one)
    assert [row.mass for row in rows] == [0.6, 0.8]
    # Differences of 0.1 and 0.3; the standard error of their mean is 0.1.
    assert rows[1].mass_less_regularized == "+20.00 ± 10.00"
    assert rows[0].mass_less_alphazero == "-20.00 ± 10.00"
    assert rows[1].moves_less_regularized == "+0.00 ± 0.00"
    both = {keys[0]: [found(0.5, 0.7), found(0.5, 0.7)]}
    both[keys[1]] = [found(0.6, 1.0), found(0.5, 0.9)]
    pooled = readouts.compare("2 networks", "random", both)
    # Per position 0.05 and 0.25, per network 0.2 and 0.1.
    assert pooled[1].mass_less_regularized == "+15.00 ± 10.00, spread 5.00"


@pytest.mark.slow
def test_readouts_benchmark_reads_all_modes_of_a_search(
    run_folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "rows.json"
    readouts.main([str(run_folder), "--quick", "--json", str(file)])
    rows = json.loads(file.read_text())
    # The references: Dual in four modes, and AlphaZero.
    assert len(rows) == 2 * (4 + 1)
    assert all(0 <= row["moves"] <= 1 and 0 < row["mass"] < 1 for row in rows)
    # Compares with a separate search, as in self-play.
    subject, [row] = readouts.load(run_folder), [x for x in rows if is_default(x)]
    solver = connect_four.make_solver()
    positions = connect_four.random_positions(solver, 4, 0)
    tools = strength.make_tools(strength.Subject(*subject[1:], Dual().for_evaluation(), 0, None), 4)
    measured = learning.measure(tools, subject.params, positions)
    assert (row["moves"], row["mass"]) == (
        measured.search,
        pytest.approx(measured.weights, abs=1e-4),
    )


def is_default(row: dict[str, Any]) -> bool:
    wanted = {"positions": "random", "search": "50+35, mix 0.25", "weights": "small_visits"}
    return wanted.items() <= row.items()


def test_readouts_benchmark_refuses_bad_network(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture
) -> None:
    error = functools.partial(refusal, readouts, capsys)
    assert "NETWORK is missing" in error()
    assert "plays nim" in error("nim")
    assert "neither a run's folder" in error(str(tmp_path / "none.safetensors"))


def test_noise_changes_only_first_head() -> None:
    subject = readouts.load(pathlib.Path("connect-four"))
    spoiled = readouts.add_noise(subject, 1.0)
    before, after = (x.params["params"] for x in (subject, spoiled))
    changed = {
        name
        for name in before
        if not jax.tree.all(jax.tree.map(np.array_equal, before[name], after[name]))
    }
    assert changed == {"heads_0"}
