"""The benchmarks run at a tiny size and compare equal searches."""

import functools
import json
import pathlib
import random
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pyspiel
import pytest
from benchmark_results import result_of

import games
from benchmarks import (
    connect_four,
    dual,
    engine,
    evaluation,
    memory,
    opponents,
    pgx_loop,
    phases,
    startup,
    throughput,
    two_heads,
    variants,
)
from benchmarks.common import make_parser, repeat, run_in_turns, time_in_turns
from benchmarks.dual import make_positions
from dualmctx.errors import UserError
from dualmctx.matches.player_spec import parse_player
from dualmctx.runs.saved_network import load_record
from stand_in import traced


@pytest.fixture
def small_game(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the benchmarks use a game that is compiled quickly."""
    env = games.make("nim")
    monkeypatch.setattr(games, "make", lambda _: env)


def test_timing_alternates_and_skips_first_run(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_function_is_repeated_with_the_same_inputs() -> None:
    called = []

    def note(number: Any) -> None:
        called.append(int(number))

    def run(fixed: Any, number: Any) -> Any:
        jax.debug.callback(note, number)
        return fixed * number

    assert repeat(run, 3, jnp.int32(7), 5)() == 21
    jax.effects_barrier()
    assert called == [7] * 5


def test_a_repeated_function_stays_in_its_loop() -> None:
    """XLA moves a computation that is the same in each iteration out of the loop."""

    x = jnp.ones((8, 8))

    def is_before_loop(function: Any) -> bool:
        run: Any = repeat(function, x, x, 50)
        hlo = run.func.lower(*run.args).compile().as_text()
        assert "/sin" in hlo
        return "/sin" in hlo[hlo.index("\nENTRY ") :]

    assert is_before_loop(lambda fixed, inputs: jnp.sin(fixed) + inputs)
    assert not is_before_loop(lambda fixed, inputs: jnp.sin(inputs) + fixed)


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


@pytest.mark.slow
def test_engine_benchmark_compares_equal_searches(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # mctx's own rules are compared in tests/search/test_mctx.py.
    monkeypatch.setattr(engine, "RULES", ("puct",))
    monkeypatch.setattr(engine, "LEAVES", (16,))
    found = result_of(tmp_path, engine, "--quick", "--repeats", "1")
    [row] = found["rows"]
    assert row["rule"] == "puct"
    assert row["same_visits"]
    assert row["ours_us"] > 0
    assert len(found["one_root"]) == 2
    assert all(row["us"] > 0 and row["simulations"] == 16 for row in found["one_root"])


@pytest.mark.slow
@pytest.mark.usefixtures("small_game")
def test_evaluation_benchmark_compares_equal_searches(tmp_path: pathlib.Path) -> None:
    [row] = result_of(tmp_path, evaluation, "--quick", "--repeats", "1")["rows"]
    assert (row["batch"], row["same"]) == (4, 1)
    assert row["ratio"] == pytest.approx(row["ours_per_second"] / row["mctx_per_second"], rel=0.1)


@pytest.mark.slow
def test_startup_benchmark_starts_a_command_and_a_server(tmp_path: pathlib.Path) -> None:
    rows = result_of(tmp_path, startup, "--quick")["rows"]
    assert [(row["command"], row["cache"]) for row in rows] == [
        ("evaluate", "empty cache"),
        ("play", "empty cache"),
    ]
    assert all(row["cpu_seconds"] > 0 for row in rows)
    assert [row["address"] > 0 for row in rows] == [False, True]


def test_parts_and_rest_add_up_to_a_simulation() -> None:
    rows = phases.make_rows(("nim", 4, 8), {"network": 5e-6, "simulation": 8e-6, "game step": 1e-6})
    assert [row.part for row in rows] == ["network", "game step", "rest", "simulation"]
    assert [row.us for row in rows] == [5, 1, 2, 8]
    assert [row.share for row in rows] == [0.625, 0.125, 0.25, 1]


@pytest.mark.slow
def test_phases_benchmark_times_each_part(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    # Other tests run these searches and loops; compiling them takes most of the time.
    monkeypatch.setattr(jax, "jit", traced)
    *parts, whole = result_of(tmp_path, phases, "--quick")["rows"]
    assert [row["part"] for row in parts] == ["game step", "network", "rest"]
    assert all(row["us"] > 0 for row in (*parts[:2], whole))
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


@pytest.mark.slow
def test_evaluation_benchmark_times_the_host(tmp_path: pathlib.Path) -> None:
    [row] = result_of(tmp_path, evaluation, "--host", "--quick", "--repeats", "1")["rows"]
    assert (row["batch"], row["per_second"] > 0) == (4, True)


@pytest.mark.parametrize(
    ("benchmark", "flags", "message"),
    [
        (evaluation, ["--number", "96"], "--batches has 64; each must divide --number 96"),
        (evaluation, ["--number", "0"], "argument --number: 0 is no number of at least 1"),
        (evaluation, ["--batches", "-32"], "argument --batches: -32 is no number of at least 1"),
        (two_heads, ["--number", "0"], "argument --number: 0 is no number of at least 1"),
        (engine, ["--repeats", "x"], "argument --repeats: x is no number of at least 1"),
        (engine, ["--json", "none/rows.json"], "argument --json: none is not a folder; make it"),
    ],
)
def test_bad_flags_are_refused(
    benchmark: Any, flags: list[str], message: str, capsys: pytest.CaptureFixture
) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        benchmark.main(flags)
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_dual_benchmark_compares_all_searches(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Other tests run these searches; compiling them takes most of the time.
    monkeypatch.setattr(jax, "jit", traced)
    rows = result_of(tmp_path, dual, "--quick", "--repeats", "1")["rows"]
    equal = ["AlphaZero, 4 simulations", "AlphaZero, early head"]
    names = ["mctx AlphaZero", "AlphaZero", "AlphaZero, speculation 4", *equal, "Dual", "MPV"]
    assert [row["search"] for row in rows] == 2 * names
    assert [row["positions"] for row in rows] == ["early"] * 7 + ["all"] * 7
    # Two blocks for each of 5 + 4 evaluations; four and six without resuming.
    assert [row["blocks"] for row in rows] == 2 * [36, 36, 36, 16, 18, 18, 44]
    assert all(row["ms"] > 0 for row in rows)


@pytest.mark.slow
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
def test_node_is_smaller_than_mctx_node() -> None:
    row = memory.measure("connect_four")
    assert row.state < row.compact < row.plain < 0.7 * row.mctx
    assert row.compact < row.dual16 < row.dual


@pytest.mark.slow
def test_variants_benchmark_measures_searches_and_windows(tmp_path: pathlib.Path) -> None:
    rows = result_of(tmp_path, variants, "--quick", "--only", "window 1")["rows"]
    assert [row["search"] for row in rows] == ["random moves", "alphazero", "alphazero, window 1"]
    chance, full, narrow = (row["connect2"] for row in rows)
    assert 50 < chance < full <= 100
    found = re.fullmatch(r"(.+), \+(\d+) −(\d+), (.+)% saved", narrow)
    assert found
    share, better, worse, saved = map(float, found.groups())
    # All positions count equally.
    assert share - full == pytest.approx(100 * (better - worse) / 23, abs=0.01)
    # A window of one edge writes one for each simulation.
    assert 0 < saved < 100


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


@pytest.mark.slow
@pytest.mark.usefixtures("small_game")
def test_throughput_benchmark_measures_every_loop(tmp_path: pathlib.Path) -> None:
    found = result_of(tmp_path, throughput, "--quick", "--repeats", "1")["rows"]
    rows = {row["loop"]: row for row in found}
    assert list(rows) == ["dualmctx", throughput.EXAMPLE["muzero"], "network alone"]
    ours = rows["dualmctx"]["per_second"]
    for row in rows.values():
        assert (row["positions"], row["per_second"] > 0) == (16, True)
        assert row["ratio"] == pytest.approx(ours / row["per_second"], rel=0.01, abs=0.006)


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


def negamax(state: pyspiel.State) -> float:
    """Returns the exact value of an OpenSpiel state for the player to move."""
    mover = state.current_player()
    values = []
    for action in state.legal_actions():
        child = state.child(action)
        is_over = child.is_terminal()
        values.append(child.returns()[mover] if is_over else -negamax(child))
    return max(values)


def test_labels_match_exhaustive_search() -> None:
    rng, game, found = random.Random(0), pyspiel.load_game("connect_four"), 0
    while found < 4:
        moves = connect_four.random_game(rng, 33)
        if moves is None:
            continue
        found += 1
        state = connect_four.state_after(game, moves)
        labels = connect_four.move_values(moves)
        assert list(np.flatnonzero(~np.isnan(labels))) == state.legal_actions()
        for action in state.legal_actions():
            child = state.child(action)
            over = child.is_terminal()
            value = child.returns()[state.current_player()] if over else -negamax(child)
            assert labels[action] == value


def test_positions_round_trip_through_csv(tmp_path: pathlib.Path) -> None:
    decisive, file = connect_four.game_positions(3, 0), tmp_path / "new" / "positions.csv"
    assert np.all(np.nanmin(decisive.move_values, axis=1) < decisive.values)
    connect_four.write_positions(file, decisive)
    # Scores are larger for faster wins.
    text, faster = file.read_text(), file.with_name("faster.csv")
    assert faster.write_text(re.sub(r"(?<=,)-?1", r"\g<0>7", text)) > len(text)
    for path in (file, faster):
        again = connect_four.read_positions(path)
        np.testing.assert_array_equal(again.histories, decisive.histories)
        np.testing.assert_array_equal(again.move_values, decisive.move_values)


@pytest.mark.parametrize(
    "row",
    [
        pytest.param("", id="no row"),
        pytest.param("1", id="no score"),
        pytest.param("1,x", id="not a number"),
        pytest.param("1111111,1", id="illegal"),
        pytest.param("1212121,1", id="over"),
    ],
)
def test_bad_positions_are_refused(row: str, tmp_path: pathlib.Path) -> None:
    names = ["moves_1based", *(f"score_c{column}" for column in range(1, 8))]
    file = tmp_path / "positions.csv"
    file.write_text("\n".join([",".join(names), row]))
    with pytest.raises(UserError, match="is not a list of labelled positions"):
        connect_four.read_positions(file)


@pytest.mark.slow
def test_opponents_are_scored_by_their_games(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    matches = {"a perfect player": "perfect"}
    monkeypatch.setattr(opponents, "TABLE", {"tic-tac-toe": opponents.Opponents(matches)})
    flags = ["tic-tac-toe", "--games", "8", "--simulations", "2", "--out", str(tmp_path / "games")]
    rows = result_of(tmp_path, opponents, *flags)["rows"]
    assert [(row["opponent"], row["search"]) for row in rows] == [
        (name, search) for name in matches for search in ("own", "alphazero")
    ]
    for row in rows:
        folder = tmp_path / "games" / "tic-tac-toe"
        name = f"{row['search']}-2-{row['opponent'].replace(' ', '-')}"
        lines = (folder / name / "games.jsonl").read_text().splitlines()
        played = [json.loads(line) for line in lines]
        signs = [1 if game["players"][0] == "network" else -1 for game in played]
        results = [sign * game["result"] for sign, game in zip(signs, played, strict=True)]
        counts = ", ".join(str(results.count(x)) for x in (1, 0, -1))
        assert (row["games"], row["won, drawn, lost"]) == (8, counts)
        assert row["points"].startswith(f"{(np.mean(results) + 1) / 2:.3f} (")
        first = [x for x, sign in zip(results, signs, strict=True) if sign == 1]
        assert row["first"] == pytest.approx((np.mean(first) + 1) / 2, abs=5e-4)
    # The same command reads the games that it finds.
    assert result_of(tmp_path, opponents, *flags)["rows"] == rows
    with pytest.raises(SystemExit, match=r"^2$"):
        opponents.main(["checkers"])


def test_opponents_are_players_of_games_with_a_network() -> None:
    for network, row in opponents.TABLE.items():
        assert load_record(network)["game"] == network.replace("-", "_")
        for player in row.players.values():
            parse_player(player)
