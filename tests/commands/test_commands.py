"""The command dualmctx: export, progress, exit codes, completion, and the fields of a page."""

import importlib
import importlib.metadata
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import dualmctx.commands.evaluate
import dualmctx.commands.main
import dualmctx.commands.serve
import dualmctx.experiment.selfplay
from documents import read
from dualmctx.commands import export
from dualmctx.commands.main import main
from dualmctx.errors import UserError
from dualmctx.game_files.questions import RESULT_FIELDS
from dualmctx.runs.saved_network import export_trained, load_trained
from untrained import make_run, make_untrained

DOCUMENT = "docs/evaluate.md"


def test_export_writes_the_parameters_of_a_checkpoint(tmp_path, capfd):
    trained = make_untrained("connect-four")
    run, file = str(make_run(tmp_path / "run", trained)), str(tmp_path / "x.safetensors")
    assert main(["export", run, file]) == 0
    assert capfd.readouterr().out == f"{file}: connect_four after 7 iterations\n"
    old = str(tmp_path / "old.safetensors")
    assert main(["export", run, old, "--iteration", "3"]) == 0
    for path, step in ((file, 7), (old, 3)):
        found = load_trained(path)
        assert (found.iteration, found.record) == (step, trained.record)
        for x, y in zip(*map(jax.tree.leaves, (found.params, trained.params)), strict=True):
            np.testing.assert_array_equal(x, y * step)
    for arguments, error in [
        ([run, file], "x.safetensors exists; choose another file"),
        ([run, str(tmp_path / "y.pkl")], "its name must end in .safetensors"),
        (
            [run, str(tmp_path / "y.safetensors"), "--iteration", "4"],
            "no checkpoint of iteration 4",
        ),
        ([str(tmp_path / "none"), str(tmp_path / "y.safetensors")], "is neither a run's folder"),
    ]:
        assert main(["export", *arguments]) == 2
        assert re.fullmatch(rf"dualmctx export: .*{error}.*\n", capfd.readouterr().err)


def test_a_second_export_to_the_same_file_is_refused(tmp_path, monkeypatch, capfd):
    arguments = ["export", "connect2", str(tmp_path / "x.safetensors")]
    codes: list[int] = []

    def export_twice(*given: Any) -> None:
        monkeypatch.undo()
        codes.append(main(arguments))
        export_trained(*given)

    monkeypatch.setattr(export, "export_trained", export_twice)
    assert main(arguments) == 0
    assert codes == [2]
    assert f"x.safetensors is being written by process {os.getpid()} on" in capfd.readouterr().err
    assert [x.name for x in tmp_path.iterdir()] == ["x.safetensors"]


def test_version_is_that_of_the_package(capfd):
    assert main(["--version"]) == 0
    assert capfd.readouterr().out == f"dualmctx {dualmctx.__version__}\n"
    assert dualmctx.__version__ == importlib.metadata.version("dualmctx")


@pytest.mark.parametrize("error", [MemoryError(), OSError(), UserError("\nsecond line")])
def test_every_failure_prints_one_line(error, monkeypatch, capfd):
    """Also errors without a message."""

    def fail(*_: Any, **_options: Any) -> Any:
        raise error

    monkeypatch.setattr(dualmctx.commands.evaluate, "open_source", fail)
    assert main(["evaluate", "nim", "p.csv", "--out", "r.csv"]) == 2
    words = str(error).strip() or type(error).__name__
    assert capfd.readouterr().err == f"dualmctx evaluate: {words}\n"


@pytest.mark.parametrize(
    ("place", "arguments"),
    [
        ("train.read_request", ["train", "nim"]),
        ("train.build_worker_trainer", ["train", "nim", "--out", "run"]),
        ("train.start_stage", ["train", "nim", "--pipeline", "supervised"]),
        ("evaluate.load_search", ["evaluate", "nim", "FILE", "--network-only"]),
        ("serve.load_search", ["serve", "nim"]),
        ("engine.standard_events", ["gtp", "nim"]),
        ("play.offered", ["play", "nim"]),
        ("load_players.exact_player", ["compare", "random", "perfect", "--game", "nim"]),
        ("dataset.make_dataset", ["dataset", "nim", "FILE", "--out", "set"]),
        ("search.load_trained", ["export", "nim", "x.safetensors"]),
        ("play.build_evaluator", ["play", "nim", "--terminal"]),
        ("tree._draw_search", ["tree", "nim", "--out", "tree.svg"]),
        ("check_game.check_game", ["check-game", "nim"]),
    ],
)
def test_a_fault_of_the_program_keeps_its_traceback(place, arguments, tmp_path, monkeypatch):
    class Fault(ValueError):
        """An error as of NumPy, whose cause is the program."""

    def fail(*_: Any, **_options: Any) -> Any:
        raise Fault("shapes do not match")

    monkeypatch.chdir(tmp_path)
    Path("FILE.jsonl").write_text('{"moves": ""}')
    module = importlib.import_module(f"dualmctx.commands.{place.split('.')[0]}")
    name = place.split(".")[1]
    if name == "build_worker_trainer":
        module, name = dualmctx.experiment.selfplay, "assemble"
    monkeypatch.setattr(module, name, fail)
    with pytest.raises(Fault):
        main([x.replace("FILE", "FILE.jsonl") for x in arguments])


# Completes the last of some words, as bash does after the Tab key.
COMPLETE = """
source /dev/stdin
[[ $(complete -p dualmctx) == *"-o default"* ]] || echo "without files"
COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 )); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
$(complete -p dualmctx | sed 's/.*-F \\([^ ]*\\).*/\\1/') dualmctx
echo "${COMPREPLY[@]}"
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_commands_flags_and_words(capsys):
    assert main(["--print-completion", "bash"]) == 0
    script = capsys.readouterr().out
    for words, expected in (
        ("train connect2 --search.num-s", "--search.num-simulations"),
        ("evaluate nim x.csv --iter", "--iteration"),
        ("compare a b --budget net", "network"),
        ("train hsr --search.variant gu", "gumbel"),
        ("train hsr --pipeline sup", "supervised"),
        ("serve nim --no-c", "--no-cache"),
    ):
        command = ["bash", "-c", COMPLETE, "bash", "dualmctx", *words.split()]
        done = subprocess.run(command, input=script, capture_output=True, text=True, check=True)
        assert (done.stdout.strip(), done.stderr) == (expected, "")
    assert main(["--print-completion", "zsh"]) == 0
    assert capsys.readouterr().out.startswith("#compdef dualmctx")
    assert main(["--print-completion"]) == 2
    assert "--print-completion is ''; it must be one of bash, zsh" in capsys.readouterr().err


def test_the_page_describes_every_field():
    for name in (*RESULT_FIELDS, "weight", "visits", "q", "network_policy"):
        assert re.search(rf"`\.?(legal\[\]\.)?{name}`|\"{name}\"", read(DOCUMENT)), name
