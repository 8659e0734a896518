"""What the commands share: exporting, progress, the page that describes them."""

import io
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from rich.console import Console

import dualmctx.command
import dualmctx.commands.evaluate
import dualmctx.commands.progress
import dualmctx.commands.serve
from dualmctx.checkpoint import open_checkpoints
from dualmctx.command import main
from dualmctx.commands.progress import progress
from dualmctx.commands.searching import Searcher, Searching, load
from dualmctx.evaluation.results_file import _COLUMNS
from dualmctx.runs import create_run
from dualmctx.trained import Trained, load_trained
from untrained import make_untrained

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "evaluate.md").read_text()


def make_run(folder: Path, trained: Trained) -> Path:
    run = create_run(folder, trained.record)
    checkpoints = open_checkpoints(run.checkpoints)
    for step in (3, 7):
        params = jax.tree.map(lambda x, step=step: x * step, trained.params)
        checkpoints.save(step, {"params": params})
    checkpoints.wait()
    return folder


def test_what_is_exported_is_what_was_learned(tmp_path: Path, capfd: Any) -> None:
    trained = make_untrained("connect-four")
    run, file = str(make_run(tmp_path / "run", trained)), str(tmp_path / "x.npz")
    assert main(["export", run, file]) == 0
    assert capfd.readouterr().out == f"{file}: connect_four after 7 iterations\n"
    old = str(tmp_path / "old.npz")
    assert main(["export", run, old, "--iteration", "3"]) == 0
    for path, step in ((file, 7), (old, 3)):
        found = load_trained(path)
        assert (found.iteration, found.record) == (step, trained.record)
        for x, y in zip(*map(jax.tree.leaves, (found.params, trained.params)), strict=True):
            np.testing.assert_array_equal(x, y * step)
    for arguments, error in [
        ([run, file], "x.npz exists; choose another file"),
        ([run, str(tmp_path / "y.pkl")], "its name must end in .npz"),
        ([run, str(tmp_path / "y.npz"), "--iteration", "4"], "no checkpoint of iteration 4"),
        ([str(tmp_path / "none"), str(tmp_path / "y.npz")], "is neither a run's folder"),
    ]:
        assert main(["export", *arguments]) == 2
        assert re.fullmatch(rf"dualmctx export: .*{error}.*\n", capfd.readouterr().err)


def test_a_terminal_shows_a_bar() -> None:
    said = io.StringIO()
    with progress(1000, Console(file=said, force_terminal=True, width=100)) as show:
        show(10, 250)
        show(20, 500)
    assert "20 positions" in said.getvalue()
    assert "50%" in said.getvalue()


def test_a_log_file_gets_lines_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([5.0, 10.0, 11.0, 30.0])
    monkeypatch.setattr(dualmctx.commands.progress.time, "monotonic", lambda: next(clock))
    said = io.StringIO()
    with progress(1000, Console(file=said, width=100)) as show:
        for positions, end in ((1010, 100), (1020, 200), (1610, 700)):
            show(positions, end)
    # In 20 s since the first batch 600 positions and 600 bytes; 300 are left.
    assert said.getvalue() == "1,610 positions  70%  30 a second  0:00:10 left\n"


def test_a_stream_shows_nothing(capfd: Any) -> None:
    with progress(None) as show:
        show(1, 2)
    assert capfd.readouterr() == ("", "")


# A command that writes more than a pipe holds.
WORDY = """
import sys
from dualmctx import command
module = type(sys)("wordy")
module.main = lambda arguments: [print("x" * 1000) for _ in range(1000)] and 0
sys.modules["wordy"] = module
command.SUBCOMMANDS["wordy"] = command.Subcommand("wordy", "")
sys.exit(command.main(["wordy"]))
"""


def test_a_reader_that_goes_away_is_no_failure() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-W", "error", "-c", WORDY]
    done = subprocess.run(command, cwd=ROOT, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


COMMANDS = [line.split("#")[0].strip() for block in blocks("sh") for line in block.splitlines()]


def test_the_page_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    """Its commands, as a reader would type them, with a network and a search that need no time."""
    asked, _ = blocks("json")
    monkeypatch.chdir(tmp_path)
    Path("positions.jsonl").write_text(asked)
    Path("positions.csv").write_text(blocks("csv")[0])
    Path("runs").mkdir()
    make_run(Path("runs/connect-four"), make_untrained("connect-four"))
    assert main(shlex.split(COMMANDS[0])[1:]) == 0
    searcher = load("connect-four.npz", Searching(network_only=True), 4)

    def take(checkpoint: str, options: Searching, batch_size: int) -> Searcher:
        assert checkpoint == "connect-four.npz"
        return searcher

    monkeypatch.setattr(dualmctx.commands.evaluate, "load", take)
    for command in COMMANDS[1:4]:
        program, *arguments = shlex.split(command)
        assert (program, main(arguments)) == ("dualmctx", 0)
    rows = [json.loads(line) for line in capfd.readouterr().out.splitlines()[1:]]
    assert [row["id"] for row in rows] == ["opening", 17, 3]
    assert Path("results.jsonl").exists()
    assert Path("results.parquet").exists()
    exec(compile(blocks("python")[0], "docs/evaluate.md", "exec"), {})


@pytest.mark.parametrize("command", COMMANDS[4:])
def test_the_page_has_commands_that_are_valid(command: str) -> None:
    program, name, *arguments = shlex.split(command)
    module = getattr(dualmctx.commands, name)
    options = dualmctx.commands.evaluate.parse_flags(module.Options(), arguments, program, "")
    assert options.checkpoint == "connect-four.npz"


def test_the_page_describes_every_field() -> None:
    for name in (*_COLUMNS, "weight", "visits", "q", "network_policy"):
        assert re.search(rf"`\.?(legal\[\]\.)?{name}`|\"{name}\"", PAGE), name
