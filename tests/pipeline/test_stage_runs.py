"""A stage as a run: rows, evals, checkpoints, how it is stopped and resumed, and its network."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import jax
import numpy as np
import pytest

import fake_stage
from dualmctx.commands import train
from dualmctx.errors import UserError
from dualmctx.runs import folder as run_folder
from dualmctx.runs.checkpoint import open_checkpoints
from dualmctx.runs.metrics_file import read_metrics
from dualmctx.runs.saved_network import load_trained
from fake_stage import NUM_ITERATIONS, SMALL, Finished


@pytest.fixture(autouse=True)
def fake() -> Iterator[None]:
    """Puts the stage of these tests in the place of the supervised one."""
    with fake_stage.installed():
        yield


def read_rows(out: Path) -> list[dict[str, Any]]:
    rows = read_metrics(out / "metrics.jsonl")
    return [{name: x for name, x in row.items() if "seconds" not in name} for row in rows]


def summary_of(out: Path) -> dict[str, Any]:
    return json.loads((out / "summary.json").read_text())


def test_a_stage_writes_its_files_and_plain_lines(finished: Finished) -> None:
    out = finished.out
    rows = read_rows(out)
    assert load_trained(out).iteration == NUM_ITERATIONS
    assert [row["iteration"] for row in rows] == list(range(1, NUM_ITERATIONS + 1))
    # Every two iterations, and after the last one.
    assert [row["iteration"] for row in rows if "fake/largest" in row] == [2, 4, 6, 7]
    summary = summary_of(out)
    assert (summary["stage"], summary["iterations"]) == ("supervised", NUM_ITERATIONS)
    assert summary["last_noise"] == rows[-1]["noise"]
    assert summary["wall_seconds"] >= summary["seconds"] > 0
    assert (out / "curve.png").read_text().endswith(f": {NUM_ITERATIONS}")
    assert list((out / "tensorboard").iterdir())
    record = json.loads((out / "config.json").read_text())
    assert (record["pipeline"], record["preset"]) == ("supervised", "connect2")
    assert (record["game"], record["search"]["variant"]) == ("connect2", "alphago")
    assert record["architecture"]["fields"]["width"] == 8
    assert record["supervised"]["num_iterations"] == NUM_ITERATIONS
    assert "\x1b" not in finished.said
    lines = finished.said.splitlines()
    assert lines[0] == "connect2, supervised: adds noise"
    assert "prepared" in lines
    evals = [line for line in lines if "largest" in line]
    assert [line.split()[0] for line in evals] == ["2/7", "4/7", "6/7", "7/7"]
    assert "last noise" in finished.said


def stop() -> None:
    signal.raise_signal(signal.SIGINT)


@pytest.mark.slow
def test_a_failed_stage_resumes_to_the_same_numbers(
    finished: Finished, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Checkpoints are saved after iterations 3 and 6; tests of resumption kill and stop a stage."""
    out = tmp_path / "run"
    for error, words in (
        (UserError("a shard is damaged"), "; with the same settings, --resume continues there\n"),
        (MemoryError("no memory"), "a smaller --supervised.batch-size\n"),
    ):
        # The same command with --resume continues.
        with fake_stage.acting(4, Mock(side_effect=error)):
            assert train.main([*SMALL, "--out", str(out), *["--resume"] * out.exists()]) == 2
        said = "".join(capsys.readouterr())
        assert words in said
        assert f"{error}; the last good checkpoint is iteration 3" in said
        assert not (out / "summary.json").exists()
    assert train.main([*SMALL, "--out", str(out), "--resume"]) == 0
    # The rows and the last states are equal, bit for bit.
    assert read_rows(out) == read_rows(finished.out)
    folders = (out, finished.out)
    one, two = (open_checkpoints(x / "checkpoints").load().state for x in folders)
    jax.tree.map(np.testing.assert_array_equal, one, two)


def test_a_finished_stage_is_not_run_again(finished: Finished) -> None:
    def content() -> dict[Path, bytes]:
        names = ("config.json", "metrics.jsonl", "summary.json", "curve.png")
        files = [finished.out / name for name in names]
        files += (x for x in (finished.out / "checkpoints").rglob("*") if x.is_file())
        return {x: x.read_bytes() for x in files}

    before = content()
    assert train.main(["--resume", str(finished.out)]) == 0
    assert content() == before


def test_a_stage_may_get_another_number_of_iterations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Evals run after every second iteration and after the last one."""
    monkeypatch.setitem(run_folder.CHANGEABLE, "supervised", ("num_iterations",))
    out = tmp_path / "run"
    with fake_stage.acting(4, stop):
        assert train.main([*SMALL, "--out", str(out)]) == 130
    assert "fake/largest" not in read_rows(out)[-1]
    resume = ["--resume", str(out), "--supervised.num-iterations"]
    assert train.main([*resume, "5"]) == 0
    rows = read_rows(out)
    assert [row["iteration"] for row in rows] == list(range(1, 6))
    assert "fake/largest" in rows[-1]
    assert summary_of(out)["iterations"] == 5
    # A prolonged stage that is stopped has not finished.
    with fake_stage.acting(6, stop):
        assert train.main([*resume, "9"]) == 130
    assert not (out / "summary.json").exists()
    assert train.main([*resume, "9"]) == 0
    assert summary_of(out)["iterations"] == 9


def test_divergence_ends_the_stage_without_a_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert train.main([*SMALL, "--supervised.learning-rate", "3e38", "--out", str(out)]) == 3
    message = capsys.readouterr().err
    assert "training failed in iteration" in message
    assert "--supervised.learning-rate below 3e+38" in message
    assert open_checkpoints(out / "checkpoints").latest() is None
    assert len(read_rows(out)) >= 1
