"""Training with two heads: equal costs, a run that is resumed, and the summary's arithmetic."""

import json
import pathlib
from typing import Any

import numpy as np
import pytest
import scipy.stats

from benchmarks import two_heads_training
from benchmarks.two_heads_training import ARMS, QUICK, Setup, blocks_per_move, make_arms
from benchmarks.two_heads_training_report import (
    first_crossing,
    list_ends,
    mean_interval,
    show_summary,
    summarize,
    with_times,
)
from dualmctx.runs.journal import read_rows, reopen_journal

SECONDS = {"final": 1.0, "early": 2.0, "dual": 3.0}
STEPS, SEEDS = (0, 1, 2, 4), (0, 1, 2)
NO_TIME = {"seconds": None, "processor_seconds": None}


@pytest.mark.parametrize("setup", [QUICK, Setup(), Setup(evaluations=64)])
def test_all_arms_run_equally_many_blocks(setup: Setup) -> None:
    arms = make_arms(setup)
    blocks = 4 * (setup.evaluations + 1)
    # The cheapest simulation is one block, so whole simulations meet the number of blocks.
    assert {name: blocks_per_move(arm) for name, arm in arms.items()} == dict.fromkeys(ARMS, blocks)
    assert {arm.head_depths for arm in arms.values()} == {(1, 4)}


def test_the_paper_arm_has_the_proportion_of_the_paper() -> None:
    budgets = {name: x.policy.num_simulations for name, x in make_arms(Setup()).items()}
    assert budgets["dual-paper"] == (22, 14)
    assert budgets["dual"] == (61, 1)
    assert [budgets[x] for x in ("final", "early", "root", "gumbel")] == [16, 67, 63, 16]


def made_up_rows() -> list[dict[str, Any]]:
    """Makes rows of three arms; `dual` has no third seed yet."""
    rng = np.random.default_rng(0)

    def kept() -> dict[str, float]:
        return dict(zip(("network", "search", "common"), rng.uniform(size=3), strict=True))

    return [
        {
            **{
                "arm": arm,
                "seed": seed,
                "step": step,
                "positions": 10 * step,
                "blocks": 680 * step,
            },
            **{"seconds": 9.0 * step, "processor_seconds": step * each * (1 + seed / 10)},
            "kept": {kind: kept() for kind in ("random", "games")},
        }
        for arm, each in SECONDS.items()
        for seed in SEEDS[: 2 if arm == "dual" else 3]
        for step in STEPS
    ]


def shares_of(rows: list[dict[str, Any]], arm: str, seed: int) -> np.ndarray:
    found = [x["kept"]["games"]["search"] for x in rows if (x["arm"], x["seed"]) == (arm, seed)]
    return np.array(found)


def find(rows: list[dict[str, Any]], **values: Any) -> dict[str, Any]:
    [row] = [row for row in rows if all(row[x] == y for x, y in values.items())]
    return row


def test_means_have_the_intervals_of_student() -> None:
    rows = made_up_rows()
    row = find(summarize(rows)["means"], arm="early", step=2)
    shares = np.array([shares_of(rows, "early", seed)[2] for seed in SEEDS])
    low, high = scipy.stats.t.interval(0.95, 2, shares.mean(), scipy.stats.sem(shares))
    found = row["games/search"]
    assert found == {
        "mean": pytest.approx(shares.mean()),
        "half": pytest.approx((high - low) / 2),
    } | {"seeds": 3}
    assert row["processor_seconds"] == pytest.approx(4 * 1.1)
    assert (row["positions"], row["blocks"]) == (20, 1360)
    assert mean_interval([0.5]) == {"mean": 0.5, "half": None, "seeds": 1}


def test_differences_are_paired_by_seed() -> None:
    rows = made_up_rows()
    about = {"kind": "games", "measure": "search", "arm": "dual", "reference": "final"}
    found = find(summarize(rows)["differences"], **about)
    change = [shares_of(rows, "dual", x) - shares_of(rows, "final", x) for x in (0, 1)]
    assert [x["step"] for x in found["at_steps"]] == [*STEPS]
    for i, row in enumerate(found["at_steps"]):
        pair = [x[i] for x in change]
        test = scipy.stats.ttest_1samp(pair, 0).confidence_interval(0.95)
        assert row["mean"] == pytest.approx(np.mean(pair))
        assert row["half"] == pytest.approx((test.high - test.low) / 2)
        assert row["seeds"] == 2
    # After the whole time of `final`, `dual` has done a third of its four steps.
    at = [np.interp(4 / 3, STEPS, shares_of(rows, "dual", x)) for x in (0, 1)]
    ends = [shares_of(rows, "final", x)[-1] for x in (0, 1)]
    last = found["at_times"][-1]
    assert last["mean"] == pytest.approx(np.mean(np.subtract(at, ends)))
    assert last["seconds"] == pytest.approx(np.mean([4.0, 4.4]))


def test_rows_of_a_gpu_have_the_mean_time_of_the_others() -> None:
    rows = made_up_rows()
    of_gpu = [row | NO_TIME if row["seed"] == 2 else row for row in rows]
    found = [row for row in with_times(of_gpu) if row["seed"] == 2]
    assert [(row["arm"], row["step"]) for row in found] == [
        (arm, step) for arm in ("final", "early") for step in STEPS
    ]
    for row in found:
        others = [1 + seed / 10 for seed in (0, 1)]
        expected = row["step"] * SECONDS[row["arm"]] * float(np.mean(others))
        assert row["processor_seconds"] == pytest.approx(expected)
    # Nothing says how long an arm takes that ran on a GPU only.
    assert with_times([row | NO_TIME for row in rows]) == []
    assert summarize([row | NO_TIME for row in rows])["means"] == []


def test_a_report_without_tables_says_why(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["--out", str(tmp_path), "--report"]
    with pytest.raises(SystemExit, match=r"^2$"):
        two_heads_training.main(command)
    assert "strength.jsonl has no such rows; choose" in capsys.readouterr().err
    reopen_journal(tmp_path / "strength.jsonl").append([x | NO_TIME for x in made_up_rows()])
    two_heads_training.main(command)
    assert "no row has a processor time" in capsys.readouterr().out


def test_the_last_rows_have_the_numbers_of_the_summary() -> None:
    summary = summarize(made_up_rows())
    row = find(list_ends(summary, "games"), arm="dual")
    about = {"kind": "games", "measure": "search", "arm": "dual", "reference": "early"}
    last = find(summary["differences"], **about)["at_steps"][-1]
    sign = "−" if last["mean"] < 0 else "+"
    expected = f"{sign}{abs(100 * last['mean']):.1f} ± {100 * last['half']:.1f}"
    assert row["search above early"] == expected
    shares = find(summary["means"], arm="dual", step=4)["games/search"]
    assert row["search"] == f"{100 * shares['mean']:.1f} ± {100 * shares['half']:.1f}"
    assert "search above dual" not in row


def test_a_level_is_reached_where_the_line_first_crosses_it() -> None:
    places, shares = np.array([0.0, 10.0, 20.0, 30.0]), np.array([0.2, 0.4, 0.8, 0.6])
    found = [first_crossing(places, shares, level) for level in (0.1, 0.4, 0.6, 0.9)]
    assert found == [0.0, 10.0, pytest.approx(15.0), None]


def test_tables_fit_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    show_summary(summarize(made_up_rows()))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert sum("dual − final" in line for line in lines) >= 2


@pytest.mark.slow
@pytest.mark.usefixtures("shared_programs")
def test_a_stopped_run_continues(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--quick", "--seeds", "3", "--arms", "early"]
    command = ["--out", str(tmp_path), "--json", str(tmp_path / "rows.json"), *flags]
    measure, called = two_heads_training.Examiner.measure, []

    def stop(*arguments: Any) -> Any:
        called.append(arguments)
        if len(called) == 2:
            raise KeyboardInterrupt
        return measure(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(two_heads_training.Examiner, "measure", stop)
        with pytest.raises(SystemExit, match=r"^130$"):
            two_heads_training.main(command)
    assert "the same command continues" in capsys.readouterr().err
    [first] = read_rows(tmp_path / "strength.jsonl")
    two_heads_training.main(command)
    rows = read_rows(tmp_path / "strength.jsonl")
    assert (rows[0], [row["step"] for row in rows]) == (first, [0, 1, 2])
    assert rows[2]["blocks"] == 2 * QUICK.training.positions * 4 * (QUICK.evaluations + 1)
    assert 0 < rows[1]["processor_seconds"] < rows[2]["processor_seconds"]
    # A network that is measured again is the same.
    again = two_heads_training.Examiner(QUICK, tmp_path)
    file = tmp_path / "networks" / "early" / "seed-3" / "step-1.safetensors"
    assert again.measure("early", file) == rows[1]["kept"]
    assert (tmp_path / "curves.png").stat().st_size > 0
    written = json.loads((tmp_path / "rows.json").read_text())
    assert written["rows"] == rows
    assert [row["arm"] for row in written["games"]] == ["early"]
    assert [row["step"] for row in written["summary"]["means"]] == [0, 1, 2]
    with pytest.raises(SystemExit, match=r"^2$"):
        two_heads_training.main([x for x in command if x != "--quick"])
    assert "another configuration" in capsys.readouterr().err
