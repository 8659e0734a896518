"""The Makefile: its targets, and the Python that it uses."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def make_python(file: Path, version: str) -> None:
    """Writes a script that prints the version it stands for and its arguments."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f'#!/bin/sh\n[ "$1" = -V ] && echo Python {version} || echo "{version}: $*"\n')
    file.chmod(0o755)


@pytest.mark.parametrize("target", ["train", "test", "test-all", "wheel-check", "docs"])
def test_make_refuses_a_python_other_than_that_of_venv(target: str, tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    make_python(tmp_path / ".venv/bin/python", "3.11.1")
    for stamp in (".runtime", ".dev", ".docs"):
        (tmp_path / ".venv" / stamp).touch()
    for name, version in (("same", "3.11.1"), ("other", "3.12.9")):
        make_python(tmp_path / name, version)

    # make may have started the tests.
    env = {k: v for k, v in os.environ.items() if not k.startswith("MAKE") and k != "PYTHON"}

    def make(*arguments: str) -> tuple[int, str]:
        command = ["make", target, *arguments]
        done = subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout

    for arguments in ([], ["PYTHON=./same"]):
        code, said = make(*arguments)
        assert code == 0
        assert said.startswith("3.11.1: ")
    for name in ("./other", "./none"):
        line = f"{name} is not the Python 3.11.1 of .venv: run make clean first, or leave PYTHON "
        assert make(f"PYTHON={name}") == (2, f"{line}out.\n")
    shutil.rmtree(tmp_path / ".venv")
    # Without .venv, make creates one; the script cannot.
    assert "Setting up .venv" in make("PYTHON=./other")[1]


def test_pre_commit_runs_the_checks_of_make_lint() -> None:
    recipe = (ROOT / "Makefile").read_text().split("\nlint:")[1].split("\n\n")[0]
    checks = re.findall(r"\$\(BIN\)/([\w .-]*[\w.])", recipe)
    hooks = re.findall(r"entry: \.venv/bin/(.*)", (ROOT / ".pre-commit-config.yaml").read_text())
    assert len(checks) == 3
    assert hooks == checks


def test_ci_runs_targets_of_the_makefile() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    run = re.findall(r"^make ([\w-]+)", script, flags=re.MULTILINE)
    assert run == ["wheel-check", "lint", "docs", "test-all"]
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    assert set(run) <= set(targets)
