"""The search over budgets: equal costs, and the chance level of the best of several pairs."""

import json
import pathlib
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import games
from benchmarks import budgets
from dualmctx import Dual
from dualmctx.runs.saved_network import load_trained


def blocks_of(pair: budgets.Budgets) -> int:
    """Returns the cost of a pair with heads after 2 and 6 blocks."""
    return 2 * pair[0] + 4 * pair[1]


def test_sampled_budgets_have_equal_cost_and_valid_ratio() -> None:
    found = budgets.sample_budgets(np.random.default_rng(0), 12, blocks_of, 300)
    assert len(set(found)) == 12
    assert all(abs(blocks_of(pair) - 300) <= 6 for pair in found)
    ratios = [small / large for small, large in found]
    # b_sub is rounded.
    assert 0.98 <= min(ratios) < 1.1 < 1.4 < max(ratios) <= 1.52
    assert budgets.sample_budgets(np.random.default_rng(1), 12, blocks_of, 300) != found


def test_too_many_budgets_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^only 1 of 5 pairs of budgets cost 6 blocks; ask for "):
        budgets.sample_budgets(np.random.default_rng(0), 5, blocks_of, 6)


def test_best_of_equal_pairs_exceeds_their_mean() -> None:
    rng = np.random.default_rng(0)
    equal = rng.random((16, 400)) < 0.8
    chance = budgets.best_by_chance(equal, 0, shuffles=200)
    # The largest of 16 normal numbers is 1.77 standard deviations above their mean.
    expected = equal.mean() + 1.77 * np.sqrt(0.8 * 0.2 / 400)
    assert chance.mean == pytest.approx(expected, abs=0.005)
    assert chance.mean < chance.high
    assert chance.at_least > 0.05
    # Chance does not explain a pair that is truly better.
    equal[3] = rng.random(400) < 0.95
    assert budgets.best_by_chance(equal, 0, shuffles=200).at_least == 0


def test_equal_results_leave_no_chance() -> None:
    same = np.tile(np.arange(10) < 7, (4, 1))
    assert budgets.best_by_chance(same, 0, shuffles=5) == budgets.Chance(0.7, 0.7, 1.0)


def test_fresh_positions_are_disjoint() -> None:
    env = games.make("connect2")
    halves = budgets.solved_positions(env, 0)
    boards = [np.asarray(half.states.observation).reshape(len(half.keeping), -1) for half in halves]
    assert abs(len(boards[0]) - len(boards[1])) <= 1
    for half in halves:
        legal = np.asarray(half.states.legal_action_mask)
        assert np.all(np.any(legal & ~half.keeping, axis=1))
        assert np.all(np.any(half.keeping, axis=1))
    again = budgets.solved_positions(env, 0)[0]
    np.testing.assert_array_equal(again.keeping, halves[0].keeping)


def test_differences_are_paired_by_position(monkeypatch: pytest.MonkeyPatch) -> None:
    right = {"a": [1, 1, 0, 0], "b": [1, 1, 1, 0]}

    def measure(trained: Any, policy: Any, fresh: Any, size: int) -> budgets.Scores:
        return budgets.Scores(np.array(right[policy.name], bool), np.full(4, 0.5))

    monkeypatch.setattr(budgets, "measure", measure)
    monkeypatch.setattr(budgets, "move_cost", lambda *_: SimpleNamespace(blocks=7))
    searches: Any = {x: SimpleNamespace(name=x, num_simulations=(3, 2)) for x in "ab"}
    rows = budgets.compare(SimpleNamespace(network=None), searches, None, 4)  # type: ignore[arg-type]
    assert rows[0] == budgets.FreshRow("a", "(3, 2)", 7, 0.5, 0.0, 0.0, 0.5)
    assert (rows[1].moves, rows[1].difference) == (0.75, 0.25)
    assert rows[1].standard_error == pytest.approx(0.5 * np.sqrt(0.75) / 2, abs=1e-4)


def test_fresh_searches_have_equal_cost() -> None:
    trained = load_trained("connect2")
    found = budgets.fresh_searches(trained, Dual((7, 6)), (6, 4), 20)
    assert [policy.num_simulations for policy in found.values()] == [(6, 4), (7, 6), 5, (10, 0)]


@pytest.mark.slow
def test_budgets_benchmark_runs(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "tables.json"
    budgets.main(["--quick", "--json", str(file)])
    found = json.loads(file.read_text())
    assert {(row["small"], row["large"]) for row in found["draws"]} == {(6, 4), (5, 5)}
    assert {row["blocks"] for row in found["draws"]} == {20}
    best = max(row["moves"] for row in found["draws"])
    assert 0 < best <= 1
    assert [row["blocks"] for row in found["fresh"]] == [20] * 4
    assert found["fresh"][0]["difference"] == 0
    assert found["positions"] + found["fresh_positions"] == 13


@pytest.mark.slow
def test_bad_arguments_are_refused(capsys: pytest.CaptureFixture) -> None:
    for arguments, line in [
        ([], "NETWORK is missing, such as connect-four"),
        (["connect2", "--budgets", "2", "1", "--draws", "9"], "pairs of budgets cost 6 blocks"),
    ]:
        with pytest.raises(SystemExit) as stop:
            budgets.main(arguments)
        assert stop.value.code == 2
        assert line in capsys.readouterr().err
