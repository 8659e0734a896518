"""The runner of stages: rows, evals, checkpoints, and how a stage is stopped and resumed."""

import contextlib
import io
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import fake_stage
import jax
import numpy as np
import pytest
from fake_stage import NUM_ITERATIONS, SMALL

from dualmctx.commands import compare, evaluate, export, train
from dualmctx.errors import UserError
from dualmctx.pipeline.options import PlayerOptions, ValueOptions
from dualmctx.pipeline.start import smaller_flag
from dualmctx.runs import folder as run_folder
from dualmctx.runs.checkpoint import open_checkpoints
from dualmctx.runs.metrics_file import read_metrics
from dualmctx.runs.saved_network import load_trained


@pytest.fixture(autouse=True)
def fake() -> Iterator[None]:
    """Puts the stage of these tests in the place of the supervised one."""
    with fake_stage.installed():
        yield


class Finished(NamedTuple):
    """A finished run of one process, and its output."""

    out: Path
    said: str


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A finished run that no test changes."""
    out, said = tmp_path_factory.mktemp("pipeline") / "run", io.StringIO()
    with contextlib.redirect_stdout(said):
        fake_stage.run_to_the_end(out)
    return Finished(out, said.getvalue())


def read_rows(out: Path) -> list[dict[str, Any]]:
    rows = read_metrics(out / "metrics.jsonl")
    return [{name: x for name, x in row.items() if "seconds" not in name} for row in rows]


def read_state(out: Path) -> list[np.ndarray]:
    return jax.tree.leaves(open_checkpoints(out / "checkpoints").load().state)


def assert_equal_runs(out: Path, other: Path) -> None:
    """Compares the rows and the last states of two runs, bit for bit."""
    assert read_rows(out) == read_rows(other)
    for one, two in zip(read_state(out), read_state(other), strict=True):
        np.testing.assert_array_equal(one, two)


def content(folder: Path) -> dict[str, bytes]:
    files = (x for x in folder.rglob("*") if x.is_file() and not x.name.startswith("."))
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def test_a_stage_writes_rows_evals_and_a_summary(finished: Finished) -> None:
    rows = read_rows(finished.out)
    assert [row["iteration"] for row in rows] == list(range(1, NUM_ITERATIONS + 1))
    # Every two iterations, and after the last one.
    assert [row["iteration"] for row in rows if "fake/largest" in row] == [2, 4, 6, 7]
    summary = json.loads((finished.out / "summary.json").read_text())
    assert summary["stage"] == "supervised"
    assert summary["iterations"] == NUM_ITERATIONS
    assert summary["last_noise"] == rows[-1]["noise"]
    assert summary["wall_seconds"] >= summary["seconds"] > 0
    assert (finished.out / "curve.png").read_text().endswith(f": {NUM_ITERATIONS}")
    assert list((finished.out / "tensorboard").iterdir())


def test_too_little_memory_names_the_flag_that_saves_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise MemoryError("no memory")

    with fake_stage.acting(4, fail):
        assert train.main([*SMALL, "--out", str(tmp_path / "run")]) == 2
    line = capsys.readouterr().err
    assert "no memory; the last good checkpoint is iteration 3" in line
    assert line.endswith("a smaller --supervised.batch-size\n")
    assert smaller_flag("player", PlayerOptions()) == "--player.num-games"
    assert smaller_flag("value", ValueOptions()) == "--value.batch-size"


def test_the_record_describes_the_run(finished: Finished) -> None:
    record = json.loads((finished.out / "config.json").read_text())
    assert (record["pipeline"], record["preset"]) == ("supervised", "connect2")
    assert record["game"] == "connect2"
    assert record["search"]["variant"] == "alphago"
    assert record["architecture"]["fields"]["width"] == 8
    assert record["supervised"]["num_iterations"] == NUM_ITERATIONS


def test_the_network_of_a_stage_is_loaded_and_exported(finished: Finished, tmp_path: Path) -> None:
    trained, file = load_trained(finished.out), tmp_path / "network.safetensors"
    assert trained.iteration == NUM_ITERATIONS
    assert export.main([str(finished.out), str(file)]) == 0
    same = jax.tree.map(np.array_equal, load_trained(file).params, trained.params)
    assert all(jax.tree.leaves(same))


@pytest.mark.slow
def test_other_commands_search_with_the_network_of_a_stage(
    finished: Finished, tmp_path: Path
) -> None:
    positions, results = tmp_path / "positions.jsonl", tmp_path / "results.jsonl"
    positions.write_text('{"moves": [1]}\n')
    flags = ["--out", str(results), "--simulations", "2"]
    assert evaluate.main([str(finished.out), str(positions), *flags]) == 0
    assert json.loads(results.read_text().splitlines()[0])["value"] is not None
    players = ["alphago", "random", "--checkpoint", str(finished.out), "--simulations", "2"]
    out = tmp_path / "match"
    games = ["--games", "2", "--opening-plies", "1"]
    assert compare.main([*players, *games, "--out", str(out)]) == 0


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_a_signal_saves_a_checkpoint_and_resuming_continues(
    number: signal.Signals,
    finished: Finished,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "run"
    with fake_stage.acting(4, lambda: os.kill(os.getpid(), number)):
        assert train.main([*SMALL, "--out", str(out)]) == 130
    assert "saved iteration 5; continue with" in capsys.readouterr().out
    assert open_checkpoints(out / "checkpoints").latest() == 5
    assert not (out / "summary.json").exists()
    # The same command with --resume continues.
    assert train.main([*SMALL, "--out", str(out), "--resume"]) == 0
    assert_equal_runs(out, finished.out)


def test_a_finished_stage_is_not_run_again(finished: Finished) -> None:
    before = content(finished.out)
    assert train.main(["--resume", str(finished.out)]) == 0
    after = content(finished.out)
    assert {name for name in after if before.get(name) != after[name]} <= {
        name for name in after if name.startswith("tensorboard")
    }


def changeable(config: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """Lets the number of iterations of the fake stage change."""
    return {name: ("num_iterations",) for name in config if name == "supervised"}


@pytest.mark.parametrize(("last", "regular"), [(5, None), (6, 0)])
def test_a_stage_that_gets_fewer_iterations_ends_with_final_evals(
    last: int, regular: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Evals run after every second iteration; those of the last one may be larger."""
    out = tmp_path / "run"
    with fake_stage.acting(last - 1, lambda: os.kill(os.getpid(), signal.SIGINT)):
        assert train.main([*SMALL, "--out", str(out)]) == 130
    assert read_rows(out)[-1].get("is_final_eval") == regular
    monkeypatch.setattr(run_folder, "_changeable_groups", changeable)
    assert train.main(["--resume", str(out), "--supervised.num-iterations", str(last)]) == 0
    rows = read_rows(out)
    assert [row["iteration"] for row in rows] == list(range(1, last + 1))
    assert rows[-1]["is_final_eval"] == 1
    assert "fake/largest" in rows[-1]
    assert json.loads((out / "summary.json").read_text())["iterations"] == last


def test_a_prolonged_stage_that_is_stopped_has_not_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    assert train.main([*SMALL, "--out", str(out)]) == 0
    done = read_rows(out)[-1]["iteration"]
    monkeypatch.setattr(run_folder, "_changeable_groups", changeable)
    longer = ["--resume", str(out), "--supervised.num-iterations", str(done + 4)]
    with fake_stage.acting(done + 1, lambda: os.kill(os.getpid(), signal.SIGINT)):
        assert train.main(longer) == 130
    assert read_rows(out)[-1]["iteration"] < done + 4
    assert not (out / "summary.json").exists()
    assert train.main(longer) == 0
    assert json.loads((out / "summary.json").read_text())["iterations"] == done + 4


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


def test_an_error_in_an_iteration_names_the_checkpoint_from_which_resuming_continues(
    finished: Finished, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise UserError("train-00000.safetensors is damaged")

    out = tmp_path / "run"
    with fake_stage.acting(4, fail):
        assert train.main([*SMALL, "--out", str(out)]) == 2
    message = capsys.readouterr().err
    assert "train-00000.safetensors is damaged" in message
    assert "last good checkpoint is iteration 3" in message
    assert train.main(["--resume", str(out)]) == 0
    assert_equal_runs(out, finished.out)


def test_a_log_file_gets_plain_lines(finished: Finished) -> None:
    assert "\x1b" not in finished.said
    lines = finished.said.splitlines()
    assert lines[0] == "connect2, supervised: adds noise"
    assert "prepared" in lines
    evals = [line for line in lines if "largest" in line]
    assert [line.split()[0] for line in evals] == ["2/7", "4/7", "6/7", "7/7"]
    assert "last noise" in finished.said
