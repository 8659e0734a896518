"""A search on two devices, by a program of a user."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_two_devices_find_the_results_of_one() -> None:
    """With the arguments of `jax.shard_map` that docs/search.md names."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(ROOT / "tests" / "cases" / "shard_map.py")]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=True
    )
    shared, alone = done.stdout.replace("]", "]\n").splitlines()[:2]
    assert shared.split() == alone.split()
    assert len(shared.strip(" []").split()) == 4
