"""Small programs of users that once failed; each prints what its search found."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "cases"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("empty_leaf", "[2 2]\n"),
        ("numpy_integers", "[1 2]\n[0 2]\n"),  # Of AlphaZero, and of mctx's MuZero.
        ("strict_promotion", "[2 0]\n"),
        ("not_compiled", "1\n"),  # The number of compiled programs.
    ],
)
def test_the_program_prints_its_results(
    name: str, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    runpy.run_path(str(CASES / f"{name}.py"))
    assert capsys.readouterr().out == printed


@pytest.mark.slow
def test_two_devices_find_the_results_of_one() -> None:
    """With the arguments of `jax.shard_map` that docs/search.md names."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(CASES / "shard_map.py")]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=True
    )
    shared, alone = done.stdout.replace("]", "]\n").splitlines()[:2]
    assert shared.split() == alone.split()
    assert len(shared.strip(" []").split()) == 4
