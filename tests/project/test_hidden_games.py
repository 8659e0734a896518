"""A user's own `games` package is told from the package's; `dualmctx.games` is the same package."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import dualmctx.games
import games

ROOT = Path(__file__).parents[2]


def run(folder, *arguments):
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_both_names_have_the_same_objects():
    assert dualmctx.games.__all__ == games.__all__
    for name in games.__all__:
        assert getattr(dualmctx.games, name) is getattr(games, name)


@pytest.mark.slow
def test_commands_name_the_module_that_hides_the_games(tmp_path):
    file = tmp_path / "games" / "__init__.py"
    file.parent.mkdir()
    file.write_text("raise SystemExit('the module of the user must not run')\n")
    done = run(tmp_path, "-m", "dualmctx", "evaluate", "connect2", "positions.jsonl")
    assert (done.returncode, done.stdout) == (2, "")
    [error] = done.stderr.splitlines()
    assert error.startswith(f"dualmctx evaluate: {tmp_path}/games")
    assert "hides the package games of dualmctx" in error
    assert "rename it, or run the command in another folder" in error


def test_python_names_the_module_that_hides_the_games(tmp_path):
    # A folder of data hides nothing.
    (tmp_path / "games").mkdir()
    (tmp_path / "games" / "games.jsonl").touch()
    done = run(tmp_path, "-c", "from dualmctx import games; print(games.make)")
    assert done.returncode == 0, done.stderr
    (tmp_path / "games.py").write_text("")
    for statement in ("from dualmctx import load_trained", "from dualmctx import games"):
        done = run(tmp_path, "-c", statement)
        assert done.returncode == 1
        last = done.stderr.splitlines()[-1]
        assert last.startswith(f"ImportError: {tmp_path}/games.py hides the package games")
