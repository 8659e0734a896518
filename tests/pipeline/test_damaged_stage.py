"""A damaged stage resumes to the results of an undamaged one, or its files are named."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import fake_stage
import jax
import numpy as np
import pytest
from fake_stage import SMALL

from damages import DAMAGES
from dualmctx.commands import train
from dualmctx.commands.main import run_command
from dualmctx.runs.checkpoint import open_checkpoints
from dualmctx.runs.metrics_file import read_metrics


class Runs(NamedTuple):
    """A finished stage, an interrupted one with the same settings, and the results."""

    finished: Path
    interrupted: Path
    results: Any


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    folder = tmp_path_factory.mktemp("stages")
    finished = fake_stage.run_to_the_end(folder / "finished")
    stop = fake_stage.acting(4, lambda: os.kill(os.getpid(), signal.SIGINT))
    with fake_stage.installed(), stop:
        assert train.main([*SMALL, "--out", str(folder / "interrupted")]) == 130
    return Runs(finished, folder / "interrupted", results_of(finished))


def results_of(out: Path) -> Any:
    """Returns the rows without times, and the last state."""
    rows = [
        {name: x for name, x in row.items() if "seconds" not in name}
        for row in read_metrics(out / "metrics.jsonl")
    ]
    state = open_checkpoints(out / "checkpoints").load().state
    return rows, [np.asarray(x).tolist() for x in jax.tree.leaves(state)]


@pytest.fixture(autouse=True)
def fake() -> Iterator[None]:
    with fake_stage.installed():
        yield


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", DAMAGES)
@pytest.mark.parametrize("state", ["finished", "interrupted"])
def test_a_damaged_stage_ends_with_the_same_results_or_is_named(
    state: str, name: str, runs: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    shutil.copytree(getattr(runs, state), out)
    DAMAGES[name](out)
    capsys.readouterr()
    code = run_command("train.py", lambda: train.main(["--resume", str(out)], "train.py"))
    said = capsys.readouterr().err
    assert all(line.startswith("train.py: ") for line in said.splitlines())
    if code == 0:
        assert results_of(out) == runs.results
    else:
        assert (code, said.count("\n")) == (2, 1)
        assert str(out) in said
