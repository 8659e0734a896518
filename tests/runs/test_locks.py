"""One writer per output: the message for a second process, and the clean-up."""

import contextlib
import errno
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dualmctx.runs import locks
from dualmctx.runs.folder import create_run, lock_folder
from dualmctx.runs.locks import LOCK, lock_beside, locked

ROOT = Path(__file__).parents[2]
HOLDER = """
import pathlib, sys
from dualmctx.runs.locks import locked
with locked(pathlib.Path(sys.argv[1]), pathlib.Path("results")):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "_SECONDS_BETWEEN", 0.0)


def names(folder: Path) -> set[str]:
    return {x.name for x in folder.iterdir()}


@pytest.mark.slow
def test_lock_names_process_and_ends_with_it(tmp_path: Path) -> None:
    file = tmp_path / "made" / "here" / LOCK
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(file)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with pytest.raises(ValueError, match=r"^[^\n]+$") as error, locked(file, Path("results")):
            pass
        line = re.fullmatch(
            r"results is being written by process (\d+) on (.+) since [\d-]+ [\d:]+ UTC; "
            r"wait for it, stop it, or choose another output",
            str(error.value),
        )
        assert line is not None, error.value
        assert (int(line[1]), line[2]) == (process.pid, socket.gethostname())
    finally:
        process.kill()
        process.communicate()
    # A kill leaves the file, but no lock.
    assert file.exists()
    with locked(file, Path("results")):
        assert file.exists()
    assert not file.exists()


def test_removed_file_is_not_a_lock(
    impatient: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the holder ends at this moment, a third process creates another file."""
    file, opened = tmp_path / LOCK, []
    open_file = locks._open

    def open_and_lose(path: Path) -> int:
        descriptor = open_file(path)
        opened.append(descriptor)
        if len(opened) == 1:
            file.unlink()
        return descriptor

    monkeypatch.setattr(locks, "_open", open_and_lose)
    with locked(file, tmp_path):
        assert len(opened) == 2
        with pytest.raises(ValueError, match="is being written"), locked(file, tmp_path):
            pass
    assert names(tmp_path) == set()


def test_lock_file_of_other_process_is_kept(tmp_path: Path) -> None:
    file, first = tmp_path / LOCK, contextlib.ExitStack()
    first.enter_context(locked(file, tmp_path))
    # A user removes the file by hand.
    file.unlink()
    with locked(file, tmp_path):
        first.close()
        with pytest.raises(ValueError, match="is being written"), locked(file, tmp_path):
            pass
    assert names(tmp_path) == set()


def test_file_lock_is_beside_file_for_any_name(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    file = tmp_path / "link" / ".." / "link" / "x.csv"
    assert lock_beside(file) == tmp_path / "real" / ".x.csv.lock"


@pytest.mark.parametrize("number", [errno.ENOLCK, None])
def test_missing_lock_support_is_reported(
    number: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(number, os.strerror(number or 0))

    # Windows has no such module.
    fake = None if number is None else SimpleNamespace(flock=refuse, LOCK_EX=2, LOCK_NB=4)
    monkeypatch.setattr(locks, "fcntl", fake)
    with locked(tmp_path / LOCK, Path("out")):
        pass
    reason = os.strerror(number or errno.ENOSYS)
    assert capfd.readouterr().err == (
        f"out cannot be locked ({reason}); make sure that no other process writes there\n"
    )
    assert names(tmp_path) == set()


def test_files_of_refused_run_are_removed(impatient: None, tmp_path: Path) -> None:
    out = tmp_path / "some" / "where"
    with lock_folder(out, resume=False):
        assert names(out) == {LOCK}
    assert names(tmp_path) == set()
    # The lock of a killed process does not make a folder an old one.
    out.mkdir(parents=True)
    (out / LOCK).touch()
    with lock_folder(out, resume=False):
        create_run(out, {"seed": 0})
        for resume in (False, True):
            with pytest.raises(ValueError, match="written by"), lock_folder(out, resume=resume):
                pass
    assert names(out) == {"config.json"}


def test_foreign_folder_is_not_changed(tmp_path: Path) -> None:
    """Nothing is created in it, because it may be read-only."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "notes").touch()
    os.utime(mine, (0, 0))
    for folder, resume, words in (
        (mine, False, "exists and is not empty"),
        (mine, True, "has no config.json"),
        (tmp_path / "none", True, "has no config.json"),
    ):
        with pytest.raises(ValueError, match=words), lock_folder(folder, resume=resume):
            pass
    assert mine.stat().st_mtime_ns == 0
    assert names(tmp_path) == {"mine"}
