"""A run that is killed, at any moment, goes on to the same parameters, bit for bit."""

import random
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np

import train
from dualmctx.checkpoint import open_checkpoints
from dualmctx.plot import read_rows

ROOT = Path(train.__file__).parent
NUM_ITERATIONS = 60
# A checkpoint an iteration: there is nearly always one being written.
ARGUMENTS = [
    "connect2",
    *("--network.width", "8", "--network.num-blocks", "2", "--selfplay.num-games", "8"),
    *("--learner.num-updates", "2", "--exams.num-games", "4", "--exams.every", "0"),
    *("--search.variant", "alphazero", "--search.num-simulations", "2"),
    *("--num-iterations", str(NUM_ITERATIONS), "--checkpoint-every", "1", "--keep", "3"),
]


def last_state(out: Path) -> list[np.ndarray]:
    checkpoints = open_checkpoints(out / "checkpoints")
    assert checkpoints.latest() == NUM_ITERATIONS
    return jax.tree.leaves(checkpoints.manager.restore(NUM_ITERATIONS))


def num_rows(out: Path) -> int:
    file = out / "metrics.jsonl"
    return file.read_bytes().count(b"\n") if file.exists() else 0


def kill(arguments: list[str], out: Path, after_rows: int, seconds: float) -> None:
    """Runs the command and kills it some time after it has written so many rows more."""
    goal = num_rows(out) + after_rows
    with (out.parent / "said").open("w") as said:
        process = subprocess.Popen(
            [sys.executable, "train.py", *arguments], cwd=ROOT, stdout=said, stderr=said
        )
    deadline = time.monotonic() + 300
    while num_rows(out) < goal and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.002)
    time.sleep(seconds)
    assert process.poll() is None, (out.parent / "said").read_text()
    process.kill()
    assert process.wait() == -9


def test_a_killed_run_reaches_the_same_parameters(tmp_path: Path) -> None:
    draw = random.Random(0)
    whole, pieces = tmp_path / "whole", tmp_path / "pieces"
    assert train.main([*ARGUMENTS, "--out", str(whole)]) == 0
    command = [*ARGUMENTS, "--out", str(pieces)]
    for after_rows, flags in ((1, []), (5, ["--resume"])):
        kill([*command, *flags], pieces, after_rows, draw.uniform(0, 0.05))
    assert num_rows(pieces) < NUM_ITERATIONS
    assert train.main([*command, "--resume"]) == 0
    jax.tree.map(np.testing.assert_array_equal, last_state(pieces), last_state(whole))
    iterations = [row["iteration"] for row in read_rows(pieces / "metrics.jsonl")]
    assert iterations == list(range(1, NUM_ITERATIONS + 1))
