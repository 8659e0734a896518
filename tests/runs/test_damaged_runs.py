"""A damaged run continues from an intact checkpoint with all its rows, or its files are named."""

import shutil
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from damages import DAMAGES, no_files_above
from dualmctx.commands import train
from dualmctx.commands.main import run_command
from dualmctx.distributed import devices
from dualmctx.experiment import assemble, runner
from dualmctx.experiment.stage import StageRun
from dualmctx.runs.metrics_file import Metrics, read_metrics
from dualmctx.training.train_state import TrainState
from dualmctx.training.trainer import Trainer

COMMAND = ["connect2", "--network.width", "4", "--network.num-blocks", "2", "--keep", "3"]
NUM_ROWS = 5
CHECKPOINTS = (2, 4)


def make_trainer(*_: Any, **__: Any) -> Trainer:
    """Makes a trainer whose states have only an array and the iteration."""

    def init(seed: int) -> TrainState:
        params = {"params": {"x": jnp.full((2, 3), seed, jnp.float32)}}
        return TrainState(params, (), (), (), jnp.zeros(2, jnp.uint32), jnp.int32(0))  # pyright: ignore

    specs = jax.tree.map(lambda _: devices.REPLICATED, jax.eval_shape(lambda: init(0)))
    shardings = devices.shardings(devices.make_mesh(jax.devices()[:1]), specs)

    def trains(_: Any) -> Any:
        pytest.fail("it trains")

    return Trainer(init, trains, shardings, trains)


def state_after(state: TrainState, iteration: int) -> TrainState:
    params = jax.tree.map(lambda x: x + iteration, state.params)
    return state._replace(params=params, iteration=jnp.int32(iteration))


def make_run(run: StageRun, state: TrainState, metrics: Metrics, *_: Any) -> int:
    """Writes the files of a run, in place of its training."""
    assert metrics.rows == []
    for iteration in range(1, NUM_ROWS + 1):
        metrics.append({"iteration": iteration, "games": iteration / 7})
        if iteration in CHECKPOINTS:
            run.checkpoints.save(iteration, state_after(state, iteration))
    run.checkpoints.wait()
    run.folder.write_json("summary.json", {"iterations": NUM_ROWS})
    return 0


@pytest.fixture(autouse=True)
def without_training(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_training(monkeypatch)


def replace_training(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(assemble, "check_memory", lambda *_: None)
    patch.setattr(assemble, "make_evals", lambda *_: ((), (), {}))
    patch.setattr(assemble, "make_trainer", make_trainer)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    with pytest.MonkeyPatch.context() as patch:
        replace_training(patch)
        patch.setattr(runner, "train", make_run)
        assert train.main([*COMMAND, "--out", str(out)]) == 0
    assert {x.name for x in (out / "checkpoints").iterdir()} == {str(x) for x in CHECKPOINTS}
    return out


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_run_continues_with_its_rows_or_is_named(
    name: str,
    whole: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out, found = tmp_path / "run", []
    shutil.copytree(whole, out)
    DAMAGES[name](out)
    file = out / "metrics.jsonl"
    before = file.read_bytes() if file.is_file() else None
    monkeypatch.setattr(runner, "train", lambda _, *given: found.append(given) or 0)
    capsys.readouterr()
    code = run_command("train.py", lambda: train.main(["--resume", str(out)], "train.py"))
    said = capsys.readouterr().err
    assert all(line.startswith("train.py: ") for line in said.splitlines())
    if code:
        *notes, refusal = said.splitlines()
        assert (code, found) == (2, [])
        assert str(out) in refusal
        assert all("were removed" in x for x in notes)
        if not notes:
            assert (file.read_bytes() if file.is_file() else None) == before
        return
    [(state, metrics, *_)] = found
    iteration = int(state.iteration)
    assert iteration in (0, *CHECKPOINTS)
    assert metrics.rows == read_metrics(file) == read_metrics(whole / "metrics.jsonl")[:iteration]
    np.testing.assert_array_equal(state.params["params"]["x"], np.full((2, 3), iteration))
    # The newest checkpoint that is not damaged; each of the others is named.
    assert said.count("is damaged (") == len(list(out.glob("damaged-*")))
    assert f"the rows after iteration {iteration} were removed" in said


def test_a_checkpoint_that_cannot_be_written_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is written in the background, so another thread has the error."""
    out = tmp_path / "run"

    def fill_disk(run: StageRun, state: TrainState, *_: Any) -> int:
        run.checkpoints.save(1, state)
        run.checkpoints.wait()
        with no_files_above(1000):
            run.checkpoints.save(2, state)
            run.checkpoints.wait()
        return 0

    monkeypatch.setattr(runner, "train", fill_disk)
    command = [*COMMAND, "--out", str(out)]
    assert run_command("train.py", lambda: train.main(command, "train.py")) == 2
    [line] = capsys.readouterr().err.splitlines()
    folder = out / "checkpoints"
    assert line.startswith(f"train.py: a checkpoint in {folder} cannot be written: ")
    assert "File too large" in line
    assert line.endswith(
        f"; the last good checkpoint is iteration 1 in {folder}; after the cause is fixed, "
        "--resume continues there"
    )
