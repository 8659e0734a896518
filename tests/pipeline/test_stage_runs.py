"""A stage as a run: rows, evals, checkpoints, how it is stopped and resumed, and its network."""

import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import fake_stage
from dualmctx.commands import export, train
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


def assert_equal_runs(out: Path, other: Path) -> None:
    """Compares the rows and the last states of two runs, bit for bit."""
    assert read_rows(out) == read_rows(other)
    one, two = (open_checkpoints(x / "checkpoints").load().state for x in (out, other))
    jax.tree.map(np.testing.assert_array_equal, one, two)


def summary_of(out: Path) -> dict[str, Any]:
    return json.loads((out / "summary.json").read_text())


def test_a_stage_writes_its_files_and_plain_lines(finished: Finished) -> None:
    out = finished.out
    rows = read_rows(out)
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


def test_the_network_of_a_stage_is_loaded_and_exported(finished: Finished, tmp_path: Path) -> None:
    trained, file = load_trained(finished.out), tmp_path / "network.safetensors"
    assert trained.iteration == NUM_ITERATIONS
    assert export.main([str(finished.out), str(file)]) == 0
    jax.tree.map(np.testing.assert_array_equal, load_trained(file).params, trained.params)


def stop() -> None:
    signal.raise_signal(signal.SIGINT)


DAMAGED = "train-00000.safetensors is damaged"
LAST = "last good checkpoint is iteration 3"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "words"),
    [
        (UserError(DAMAGED), (DAMAGED, LAST)),
        (MemoryError("no memory"), (LAST, "a smaller --supervised.batch-size\n")),
    ],
    ids=["bad input", "no memory"],
)
def test_a_failed_stage_resumes_to_the_same_numbers(
    error: Exception,
    words: tuple[str, ...],
    finished: Finished,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Checkpoints are saved after iterations 3 and 6; tests of resumption kill and stop a stage."""

    def fail() -> None:
        raise error

    out = tmp_path / "run"
    with fake_stage.acting(4, fail):
        assert train.main([*SMALL, "--out", str(out)]) == 2
    said = "".join(capsys.readouterr())
    assert all(word in said for word in words), said
    assert not (out / "summary.json").exists()
    # The same command with --resume continues.
    assert train.main([*SMALL, "--out", str(out), "--resume"]) == 0
    assert_equal_runs(out, finished.out)


def test_a_finished_stage_is_not_run_again(finished: Finished) -> None:
    def content() -> dict[Path, bytes]:
        names = ("config.json", "metrics.jsonl", "summary.json", "curve.png")
        files = [finished.out / name for name in names]
        files += (x for x in (finished.out / "checkpoints").rglob("*") if x.is_file())
        return {x: x.read_bytes() for x in files}

    before = content()
    assert train.main(["--resume", str(finished.out)]) == 0
    assert content() == before


@pytest.fixture
def changeable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the number of iterations of the fake stage change."""
    monkeypatch.setitem(run_folder.CHANGEABLE, "supervised", ("num_iterations",))


@pytest.mark.usefixtures("changeable")
def test_a_stage_that_gets_fewer_iterations_ends_with_evals(tmp_path: Path) -> None:
    """Evals run after every second iteration and after the last one."""
    out = tmp_path / "run"
    with fake_stage.acting(4, stop):
        assert train.main([*SMALL, "--out", str(out)]) == 130
    assert "fake/largest" not in read_rows(out)[-1]
    assert train.main(["--resume", str(out), "--supervised.num-iterations", "5"]) == 0
    rows = read_rows(out)
    assert [row["iteration"] for row in rows] == list(range(1, 6))
    assert "fake/largest" in rows[-1]
    assert summary_of(out)["iterations"] == 5


@pytest.mark.usefixtures("changeable")
def test_a_prolonged_stage_that_is_stopped_has_not_finished(
    finished: Finished, tmp_path: Path
) -> None:
    out, done = tmp_path / "run", NUM_ITERATIONS
    shutil.copytree(finished.out, out)
    longer = ["--resume", str(out), "--supervised.num-iterations", str(done + 4)]
    with fake_stage.acting(done + 1, stop):
        assert train.main(longer) == 130
    assert read_rows(out)[-1]["iteration"] < done + 4
    assert not (out / "summary.json").exists()
    assert train.main(longer) == 0
    assert summary_of(out)["iterations"] == done + 4


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
