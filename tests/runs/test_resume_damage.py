"""After a damage or a full disk, each command resumes to identical results or names the file.

Training and the stages of a pipeline have tests of their own.
"""

import errno
import functools
import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import Mock

import pytest

from damages import FILE
from dualmctx.commands import compare, evaluate, result_writer, tournament_progress
from dualmctx.commands.main import main
from dualmctx.commands.search_options import SearchFlags, load_search
from dualmctx.datasets import loaded_engine, make
from dualmctx.datasets.shards import shard_path
from made_data_sets import play_randomly, write_games
from untrained import export_untrained


class Command(NamedTuple):
    """A command with a small task.

    Attributes:
      arguments: the arguments without the output; the first is the name of the command.
      out: name of the output in its folder; empty for the folder itself.
      stopped: where the work is done, a module and the name of a generator in it.
      results: the names of the files that must be identical.
    """

    arguments: tuple[str, ...]
    out: str
    stopped: tuple[Any, str]
    results: tuple[str, ...]

    def run(self, folder: Path, *, resume: bool) -> int:
        flags = ("--out", str(folder / self.out), *(("--resume",) if resume else ()))
        return main([*self.arguments, *flags])

    def content(self, folder: Path) -> dict[str, bytes]:
        files = (x for pattern in self.results for x in folder.glob(pattern))
        return {x.name: x.read_bytes() for x in files}


DATA_SET = ("dataset.json", "train-*", "*-games.jsonl")
SHARD = shard_path(Path(), "train", 0).name


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Command]]:
    """The commands; they share compiled programs, and leave out the report of a comparison."""
    folder = tmp_path_factory.mktemp("commands")
    network = str(export_untrained(folder / "c4.safetensors", "connect-four"))
    searcher = load_search(network, SearchFlags(network_only=True), 4)
    moves = ["4", "x", "1213141", "4444444", *(str(i) * j for i in range(1, 5) for j in range(3))]
    rows = [{"id": f"q{i}", "moves": x} for i, x in enumerate(moves)]
    (folder / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    bad = [[0, 0]] * 2
    played = play_randomly("tic_tac_toe", 16)
    write_games(folder / "g.jsonl", [*bad, *played[:8], *bad, *played[8:]])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluate, "load_search", lambda *_: searcher)
        for name in ("load_players", "prepare"):
            patch.setattr(compare, name, only_once(getattr(compare, name)))
        for name in ("measure", "make_replays", "make_report", "write_report", "print_report"):
            patch.setattr(compare, name, Mock())
        dataset = ("dataset", "tic_tac_toe", "--validation", "0", "--test", "0", "--block", "10")
        players = ("compare", "a=random", "b=random", "--game", "tic_tac_toe")
        engine = ("--from", "perfect", "--games", "20", "--batch", "8")
        yield {
            "evaluate": Command(
                ("evaluate", network, str(folder / "p.jsonl")),
                "x.jsonl",
                (result_writer, "answer"),
                ("x.jsonl",),
            ),
            "dataset": Command(
                (*dataset, str(folder / "g.jsonl")), "", (make, "build_shards"), DATA_SET
            ),
            "engine": Command(
                (*dataset, *engine),
                "",
                (loaded_engine, "play_on_device"),
                (*DATA_SET, "games.jsonl"),
            ),
            "engine, games read": Command(
                (*dataset, *engine), "", (make, "build_shards"), (*DATA_SET, "games.jsonl")
            ),
            "compare": Command(
                (*players, "--games", "16", "--batch", "2", "--opening-plies", "1", "2"),
                "",
                (tournament_progress, "play_batches"),
                ("games.jsonl",),
            ),
        }


def only_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that always returns what it has returned first."""
    first: list[Any] = []

    def call(*given: Any) -> Any:
        first[:] = first or [function(*given)]
        return first[0]

    return call


def start(command: Command, folder: Path) -> None:
    """Runs the command in a new folder and stops it after two pieces of its work."""
    module, name = command.stopped
    generator = getattr(module, name)

    def stop(*given: Any) -> Iterator[Any]:
        yield from itertools.islice(generator(*given), 2)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, name, stop)
        assert command.run(folder, resume=False) == 130


@pytest.fixture(scope="module")
def folders(commands: dict[str, Command], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Returns the folder of a command: `(name, stopped) -> folder`."""

    @functools.cache
    def make_folder(name: str, stopped: bool) -> Path:
        folder = tmp_path_factory.mktemp("whole")
        if stopped:
            start(commands[name], folder)
        else:
            assert commands[name].run(folder, resume=False) in (0, 1)
        return folder

    return make_folder


def lines_of(data: bytes) -> list[bytes]:
    return data.splitlines(keepends=True)


def change_digit(data: bytes) -> bytes:
    """Changes a digit in the middle, or a byte of a file that has no digits there."""
    middle = range(len(data) // 3, len(data) // 2)
    place = next((i for i in middle if data[i : i + 1].isdigit()), len(data) // 2)
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def write_zeros(data: bytes) -> bytes:
    place = len(lines_of(data)[0]) // 2
    return data[:place] + bytes(64) + data[place + 64 :]


LOST = {
    "torn end": lambda data: data[:-5],
    "last row removed": lambda data: b"".join(lines_of(data)[:-1]),
    "emptied": lambda data: b"",
    "missing": lambda data: None,
}
"""Damages after which the rows of a journal are made again, if nothing needs them."""
CHANGED = {
    "changed digit": change_digit,
    "removed line": lambda data: b"".join(lines_of(data)[1:]),
    "blank line": lambda data: data.replace(b"\n", b"\n\n", 1),
    "zeroed block": write_zeros,
    "exchanged lines": lambda data: b"".join([*lines_of(data)[1::-1], *lines_of(data)[2:]]),
    "two writers": lambda data: data + b"".join(lines_of(data)[1:]),
}
"""Damages that no writer leaves after a kill."""

JOURNALS = {
    ("evaluate", "x.jsonl.part"),
    ("dataset", "parts/blocks.jsonl"),
    ("engine", "games.jsonl"),
    ("compare", "games.jsonl"),
}
# Files whose every byte is needed, of a stopped and of a complete command.
NEEDED = {
    ("dataset", f"parts/{SHARD}", True),
    ("engine, games read", "games.jsonl", True),
    ("evaluate", "x.jsonl", False),
    ("dataset", shard_path(Path(), "train", 1).name, False),
    ("dataset", "bad-games.jsonl", False),
}
KINDS = LOST | CHANGED
CASES = [
    *((*x, True, kind, kind in LOST) for x in sorted(JOURNALS) for kind in KINDS),
    # Without the results, all positions are evaluated again.
    *((*x, kind, (x[1], kind) == ("x.jsonl", "missing")) for x in sorted(NEEDED) for kind in KINDS),
]


def resume(command: Command, folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Resumes a command; returns its exit code and its messages."""
    capsys.readouterr()
    code = command.run(folder, resume=True)
    return code, capsys.readouterr().err


def refusal_in(said: str) -> str:
    """Returns the last message of a command itself, after those on its files."""
    return [x for x in said.splitlines() if x.startswith("dualmctx ")][-1]


@pytest.mark.parametrize(("name", "file", "stopped", "kind", "continues"), CASES)
def test_no_damage_goes_unseen(
    name: str,
    file: str,
    stopped: bool,
    kind: str,
    continues: bool,
    commands: dict[str, Command],
    folders: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command, folder = commands[name], tmp_path / "out"
    shutil.copytree(folders(name, stopped), folder)
    expected = command.content(folders(name, False))
    whole, path = (folder / file).read_bytes(), folder / file
    damaged = KINDS[kind](whole)
    assert damaged != whole
    path.unlink() if damaged is None else path.write_bytes(damaged)
    code, said = resume(command, folder, capsys)
    if continues:
        assert code in (0, 1)
        assert command.content(folder) == expected
        # Half a pair of games is incomplete too.
        cut = kind == "torn end" or (name, kind) == ("compare", "last row removed")
        assert (f"{path}: the last" in said) == cut
    else:
        assert code == 2
        assert str(path) in refusal_in(said)
        assert (path.read_bytes() if path.exists() else None) == damaged
        # The remedy.
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(whole)
        assert command.run(folder, resume=True) in (0, 1)
        assert command.content(folder) == expected


# The other files of a stopped command, and of a complete one.
FILES = [
    *(("evaluate", file, True) for file in ("x.jsonl.settings.json", "x.jsonl.part")),
    *(("dataset", file, True) for file in ("config.json", "parts", "parts/blocks.jsonl")),
    *(("dataset", file, False) for file in ("config.json", "dataset.json")),
    *(("compare", file, True) for file in ("config.json", "games.jsonl")),
    ("evaluate", "x.jsonl", False),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "file", "stopped", "kind"),
    [
        (*x, kind)
        for x in FILES
        for kind in FILE
        # A folder has no bytes.
        if (x[1], kind) not in itertools.product(["parts"], ["zeroed", "halved", "flipped"])
    ],
)
def test_each_file_is_named_or_the_results_are_identical(
    name: str,
    file: str,
    stopped: bool,
    kind: str,
    commands: dict[str, Command],
    folders: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command, folder = commands[name], tmp_path / "out"
    shutil.copytree(folders(name, stopped), folder)
    FILE[kind](folder / file)
    code, said = resume(command, folder, capsys)
    if code in (0, 1):
        assert command.content(folder) == command.content(folders(name, False))
    else:
        assert code == 2
        line = refusal_in(said)
        assert file in line or str(folder) in line


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["evaluate", "dataset", "engine", "compare"])
def test_a_full_disk_is_named_and_the_command_can_be_resumed(
    name: str,
    commands: dict[str, Command],
    folders: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The disk is full from each write on. A row is then written in part and cannot be removed."""
    command, expected = commands[name], commands[name].content(folders(name, False))
    sync, truncate = os.fsync, os.truncate

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for number in itertools.count():
        folder, left = tmp_path / str(number), [number]
        folder.mkdir()

        def count(descriptor: int, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] >= 0:
                sync(descriptor)
                return
            if os.readlink(f"/proc/self/fd/{descriptor}").endswith((".jsonl", ".part")):
                monkeypatch.setattr(os, "truncate", full)
                os.ftruncate(descriptor, os.fstat(descriptor).st_size - 7)
            full()

        monkeypatch.setattr(os, "fsync", count)
        code = command.run(folder, resume=False)
        monkeypatch.setattr(os, "fsync", sync)
        monkeypatch.setattr(os, "truncate", truncate)
        said = ["", *capsys.readouterr().err.splitlines()][-1]
        if left[0] >= 0:
            break
        assert code == 2
        assert said.startswith(f"dualmctx {command.arguments[0]}: ")
        assert "No space left on device" in said
        assert str(folder) in said
        resume = name == "evaluate" or (folder / "config.json").exists()
        assert command.run(folder, resume=resume) in (0, 1)
        assert command.content(folder) == expected
    assert number > 5
    assert code in (0, 1)
