"""A killed run resumes to the same parameters, bit for bit."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from dualmctx.commands import train
from dualmctx.runs.checkpoint import open_checkpoints
from dualmctx.runs.metrics_file import read_metrics

ROOT = Path(__file__).parents[2]
NUM_ITERATIONS, KEEP = 14, 2
# Tree reuse between moves, and a checkpoint per iteration.
ARGUMENTS = [
    "connect2",
    *("--network.width", "8", "--network.num-blocks", "2", "--selfplay.num-games", "8"),
    *("--learner.num-updates", "2", "--evals.num-games", "4", "--evals.every", "0"),
    *(
        "--search.variant",
        "alphazero",
        "--search.num-simulations",
        "4",
        "--search.reuse-capacity",
        "3",
    ),
    *("--num-iterations", str(NUM_ITERATIONS), "--checkpoint-every", "1", "--keep", str(KEEP)),
]


def last_state(out: Path) -> list[np.ndarray]:
    checkpoints = open_checkpoints(out / "checkpoints")
    assert checkpoints.latest() == NUM_ITERATIONS
    return jax.tree.leaves(checkpoints.manager.restore(NUM_ITERATIONS))


def num_rows(out: Path) -> int:
    file = out / "metrics.jsonl"
    return file.read_bytes().count(b"\n") if file.exists() else 0


def unfinished(out: Path) -> list[Path]:
    """Lists the checkpoints that are still being written."""
    return list((out / "checkpoints").glob("*tmp*"))


def kill(arguments: list[str], out: Path, is_due: Callable[[], Any]) -> None:
    """Runs the command and kills it as soon as a condition holds while it is stopped."""
    with (out.parent / "said").open("w") as said:
        process = subprocess.Popen(
            [sys.executable, "train.py", *arguments], cwd=ROOT, stdout=said, stderr=said
        )
    deadline = time.monotonic() + 300
    while True:
        assert process.poll() is None, (out.parent / "said").read_text()
        assert time.monotonic() < deadline
        if is_due():
            process.send_signal(signal.SIGSTOP)
            if is_due():
                break
            process.send_signal(signal.SIGCONT)
        time.sleep(0.001)
    process.kill()
    assert process.wait() == -signal.SIGKILL


@pytest.mark.slow
def test_killed_run_resumes_to_same_parameters(tmp_path: Path) -> None:
    """The run is killed once while it saves, and once after some more rows."""
    whole, pieces = tmp_path / "whole", tmp_path / "pieces"
    assert train.main([*ARGUMENTS, "--out", str(whole)]) == 0
    command = [*ARGUMENTS, "--out", str(pieces)]
    kill(command, pieces, lambda: num_rows(pieces) >= 3 and unfinished(pieces))
    assert unfinished(pieces)
    goal = num_rows(pieces) + 3
    kill([*command, "--resume"], pieces, lambda: num_rows(pieces) >= goal)
    assert goal <= num_rows(pieces) < NUM_ITERATIONS
    assert train.main([*command, "--resume"]) == 0
    jax.tree.map(np.testing.assert_array_equal, last_state(pieces), last_state(whole))
    assert len(read_metrics(pieces / "metrics.jsonl")) == NUM_ITERATIONS
    for out in (whole, pieces):
        names = {x.name for x in (out / "checkpoints").iterdir()}
        assert names == {str(NUM_ITERATIONS - i) for i in range(KEEP)}
