"""Each command that can be resumed: kills, two writers, damage, other settings, a full disk.

A copy of the output while a command works is what a kill leaves. Training and the stage of a
pipeline iterate without a game, because resuming is the same for any numbers.
"""

import errno
import functools
import gc
import itertools
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import Mock

import jax
import numpy as np
import pytest

import fake_stage
from damages import DAMAGES, FILE, half_written, no_files_above
from dualmctx.commands import compare, evaluate, tournament_progress
from dualmctx.commands.main import main
from dualmctx.commands.search import SearchFlags, load_search
from dualmctx.datasets import engines, make
from dualmctx.datasets.shards import shard_path
from dualmctx.experiment import assemble, runner, selfplay
from dualmctx.runs import locks
from dualmctx.runs.checkpoint import Checkpoints, open_checkpoints
from dualmctx.runs.metrics_file import read_metrics
from dualmctx.training.trainer import TrainState
from made_data_sets import play_randomly, write_games
from untrained import export_untrained, make_fake_trainer

Act = Callable[[], None]


def content_of(folder: Path, *patterns: str) -> dict[str, bytes]:
    """Reads the files of the results, by name."""
    return {x.name: x.read_bytes() for pattern in patterns for x in folder.glob(pattern)}


def run_content(folder: Path) -> tuple[Any, ...]:
    """Reads the results of a run: the rows without times, and the last state."""
    rows = [
        {name: x for name, x in row.items() if "second" not in name}
        for row in read_metrics(folder / "metrics.jsonl")
    ]
    state = open_checkpoints(folder / "checkpoints").load().state
    return rows, [np.asarray(x).tolist() for x in jax.tree.leaves(state)]


def after_two_pieces(module: Any, name: str, patch: pytest.MonkeyPatch, act: Act) -> None:
    """Has a generator call a function after two pieces of its work."""
    generator = getattr(module, name)

    def watched(*given: Any, **options: Any) -> Iterator[Any]:
        pieces = generator(*given, **options)
        yield from itertools.islice(pieces, 2)
        act()
        yield from pieces

    patch.setattr(module, name, watched)


def after_four_iterations(patch: pytest.MonkeyPatch, act: Act) -> None:
    """Has a run call a function before its fifth iteration, after the checkpoint of the third."""
    iterate_once = runner.iterate_once

    def watched(stage: Any, state: Any, rows: list[Any]) -> Any:
        if len(rows) == 4:
            act()
        return iterate_once(stage, state, rows)

    patch.setattr(runner, "iterate_once", watched)


def only_once(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that always returns its first result."""
    first: list[Any] = []

    def call(*given: Any) -> Any:
        first[:] = first or [function(*given)]
        return first[0]

    return call


class Command(NamedTuple):
    """A command with a small task.

    Attributes:
      arguments: the arguments without the output; the first is the name of the command.
      interrupt: calls a function in the midst of the work.
      content: reads the results, which must be identical.
      out: name of the output in its folder; empty for the folder itself.
      change: a flag with another value, and the words that refuse it.
      code: the exit code at the end.
    """

    arguments: tuple[str, ...]
    interrupt: Callable[[pytest.MonkeyPatch, Act], None]
    content: Callable[[Path], Any]
    out: str = ""
    change: tuple[str, str] = ("--seed 1", "seed (0 → 1)")
    code: int = 0

    def run(self, folder: Path, *flags: str, resume: bool = True) -> int:
        resumed = ("--resume",) if resume else ()
        return main([*self.arguments, "--out", str(folder / self.out), *resumed, *flags])


DATA_SET = ("dataset.json", "train-*", "*-games.jsonl")
SHARD = shard_path(Path(), "train", 0).name
RUN = ("train", "connect2", "--checkpoint-every", "3", "--network.width", "8")
OWN = "double_move:DoubleMoveNim"


def save_and_wait(
    checkpoints: Checkpoints, step: int, state: Any, save: Any = Checkpoints.save
) -> None:
    """Saves a checkpoint, so that a copy of the folder has it."""
    save(checkpoints, step, state)
    checkpoints.wait()


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Command]]:
    """The commands; they share compiled programs, and leave out reports, evals and pictures."""
    folder = tmp_path_factory.mktemp("commands")
    network = str(export_untrained(folder / "c4.safetensors", "connect-four"))
    searcher = load_search(SearchFlags(checkpoint=network, network_only=True), 4)

    def loaded(options: SearchFlags, *__: Any) -> Any:
        return searcher._replace(record=searcher.record | {"seed": options.seed})

    moves = ["4", "x", "1213141", "4444444", *(str(i) * j for i in range(1, 5) for j in range(3))]
    rows = [{"id": f"q{i}", "moves": x} for i, x in enumerate(moves)]
    (folder / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    bad = [[0, 0]] * 2
    played = play_randomly("tic_tac_toe", 16)
    write_games(folder / "g.jsonl", [*bad, *played[:8], *bad, *played[8:]])
    pieces = functools.partial(functools.partial, after_two_pieces)
    dataset = ("dataset", "tic_tac_toe", "--validation", "0", "--test", "0", "--block", "10")
    engine = ("--from", "perfect", "--games", "20", "--batch", "8")
    players = ("compare", "a=random", "b=random", "--game", "tic_tac_toe", "--games", "16")
    with pytest.MonkeyPatch.context() as patch, fake_stage.installed():
        patch.setattr(locks, "_SECONDS_BETWEEN", 0.0)
        patch.setattr(evaluate, "load_search", loaded)
        for name in ("load_players", "prepare"):
            patch.setattr(compare, name, only_once(getattr(compare, name)))
        for name in ("measure_played", "write_report", "print_report"):
            patch.setattr(compare, name, Mock())
        for name in ("check_memory", "make_search_fn"):
            patch.setattr(assemble, name, Mock())
        patch.setattr(assemble, "make_evals", lambda *_: ((), (), {}))
        patch.setattr(assemble, "make_trainer", make_fake_trainer)
        for name in ("plot_training", "describe_memory"):
            patch.setattr(selfplay, name, Mock(return_value=""))
        patch.setattr(Checkpoints, "save", save_and_wait)
        yield {
            "evaluate": Command(
                ("evaluate", network, str(folder / "p.jsonl")),
                pieces(evaluate, "answer"),
                lambda x: content_of(x, "x.jsonl"),
                out="x.jsonl",
                code=1,
            ),
            "dataset": Command(
                (*dataset, str(folder / "g.jsonl")),
                pieces(make, "build_shards"),
                lambda x: content_of(x, *DATA_SET),
                change=("--merge", "merge (False → True)"),
                code=1,
            ),
            "engine": Command(
                (*dataset, *engine),
                pieces(engines, "play_batches"),
                lambda x: content_of(x, *DATA_SET, "games.jsonl"),
            ),
            "compare": Command(
                (*players, "--batch", "2", "--opening-plies", "1", "2"),
                pieces(tournament_progress, "play_batches"),
                lambda x: content_of(x, "games.jsonl"),
                change=("--opening-plies 1", "opening_plies ([1, 2] → [1])"),
            ),
            "train": Command(
                (*RUN, "--network.num-blocks", "2", "--num-iterations", "7", "--evals.every", "0"),
                after_four_iterations,
                run_content,
                change=("--seed 4 --evals.num-games 6", "evals.num_games (100 → 6), seed (0 → 4)"),
            ),
            "stage": Command(("train", *fake_stage.SMALL), after_four_iterations, run_content),
        }


# Games of an engine, which takes long to compile, are resumed below.
NAMES = ("evaluate", "dataset", "compare", "train", "stage")


class Outputs(NamedTuple):
    """The output of a command, what a kill in its midst leaves, and messages of other writers."""

    whole: Path
    killed: Path
    refusals: tuple[str, ...]


@pytest.fixture(scope="module")
def outputs(commands: dict[str, Command], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Returns the outputs of a command; it runs once, and others try to write there too."""

    @functools.cache
    def make_outputs(name: str) -> Outputs:
        command, folder = commands[name], tmp_path_factory.mktemp("outputs")
        whole, killed = folder / "whole", folder / "killed"
        refusals: list[str] = []

        def act() -> None:
            patch.undo()
            shutil.copytree(whole, killed)
            for resume in (False, True):
                with pytest.MonkeyPatch.context() as other:
                    said = Mock()
                    other.setattr("sys.stderr", said)
                    said.isatty.return_value = False
                    assert command.run(whole, resume=resume) == 2
                    refusals.append("".join(call.args[0] for call in said.write.mock_calls))

        whole.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            command.interrupt(patch, act)
            assert command.run(whole, resume=False) == command.code
        return Outputs(whole, killed, tuple(refusals))

    return make_outputs


def resume(command: Command, folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Resumes a command; returns its exit code and its messages."""
    capsys.readouterr()
    code = command.run(folder)
    return code, capsys.readouterr().err


def refusal_in(said: str) -> str:
    """Returns the last message of a command itself, after those on its files."""
    return [x for x in said.splitlines() if x.startswith("dualmctx ")][-1]


@pytest.mark.parametrize("name", NAMES)
def test_a_killed_command_gives_the_same_results(
    name: str, commands: dict[str, Command], outputs: Any, tmp_path: Path
) -> None:
    command, (whole, killed, _) = commands[name], outputs(name)
    shutil.copytree(killed, tmp_path / "out")
    assert command.run(tmp_path / "out") == command.code
    assert command.content(tmp_path / "out") == command.content(whole)
    # The lock of the killed process, and incomplete files, are gone.
    files = ({x.name for x in folder.iterdir()} for folder in (tmp_path / "out", whole))
    assert len({*map(frozenset, files)}) == 1


@pytest.mark.usefixtures("commands")
def test_a_run_records_its_own_game_and_goes_on(tmp_path: Path) -> None:
    game = ("--game", OWN, "--game-parameters", "pile", "5")
    command = ["train", *game, *RUN[2:], "--num-iterations", "2", "--out", str(tmp_path / "run")]
    assert main(command) == 0
    record = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (record["game"], record["game_parameters"]) == (OWN, {"pile": 5})
    assert main([*command, "--resume"]) == 0


@pytest.mark.parametrize("name", NAMES)
def test_a_second_writer_is_refused(name: str, outputs: Any) -> None:
    for line in outputs(name).refusals:
        assert f" is being written by process {os.getpid()} on " in line
        assert (line.startswith("dualmctx "), line.count("\n")) == (True, 1)
    assert len(outputs(name).refusals) == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_ctrl_c_says_how_to_continue_and_loses_nothing(
    name: str,
    commands: dict[str, Command],
    outputs: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = commands[name]
    with pytest.MonkeyPatch.context() as patch:
        command.interrupt(patch, lambda: signal.raise_signal(signal.SIGINT))
        assert command.run(tmp_path, resume=False) == 130
    said = capsys.readouterr()
    assert "--resume" in said.err + said.out
    assert command.run(tmp_path) == command.code
    assert command.content(tmp_path) == command.content(outputs(name).whole)


@pytest.mark.parametrize("name", NAMES)
def test_other_settings_are_refused(
    name: str,
    commands: dict[str, Command],
    outputs: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command, folder = commands[name], outputs(name).whole
    before = content_of(folder, "*.*")
    flags, words = command.change
    capsys.readouterr()
    assert command.run(folder, *flags.split()) == 2
    assert words in capsys.readouterr().err
    assert content_of(folder, "*.*") == before
    assert command.run(folder, resume=False) == 2
    assert "exists" in refusal_in(capsys.readouterr().err)
    assert content_of(folder, "*.*") == before


def lines_of(data: bytes) -> list[bytes]:
    return data.splitlines(keepends=True)


def change_digit(data: bytes) -> bytes:
    """Changes a digit in the middle, or a byte of a file that has no digits there."""
    middle = range(len(data) // 3, len(data) // 2)
    place = next((i for i in middle if data[i : i + 1].isdigit()), len(data) // 2)
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


DAMAGED_ROWS: dict[str, Callable[[bytes], bytes | None]] = {
    # Rows that are lost are made again, if nothing needs them.
    "torn end": lambda data: data[:-5],
    "last row removed": lambda data: b"".join(lines_of(data)[:-1]),
    "missing": lambda data: None,
    # No writer leaves these after a kill; test_journal.py has more of them.
    "changed digit": change_digit,
    "removed line": lambda data: b"".join(lines_of(data)[1:]),
}
JOURNALS = (
    *(("evaluate", "x.jsonl.part"), ("dataset", "parts/blocks.jsonl")),
    *(("engine", "games.jsonl"), ("compare", "games.jsonl")),
)
# The command, its file, the state of the command, the damage, and whether the command goes on.
CASES = [
    *((*x, "killed", kind, True) for x in JOURNALS for kind in ("torn end", "missing")),
    ("compare", "games.jsonl", "killed", "last row removed", True),
    *((*x, "killed", "changed digit", False) for x in JOURNALS),
    # A run needs the rows up to its checkpoint.
    *(("train", "metrics.jsonl", "killed", x, x in [*DAMAGED_ROWS][:2]) for x in DAMAGED_ROWS),
    ("train", "metrics.jsonl", "whole", "torn end", False),
    # Every byte is needed.
    ("dataset", f"parts/{SHARD}", "killed", "changed digit", False),
    ("dataset", shard_path(Path(), "train", 1).name, "whole", "changed digit", False),
    ("dataset", "bad-games.jsonl", "whole", "removed line", False),
    ("evaluate", "x.jsonl", "whole", "removed line", False),
    # Without the results, all positions are evaluated again.
    ("evaluate", "x.jsonl", "whole", "missing", True),
]


@pytest.mark.parametrize(("name", "file", "state", "kind", "continues"), CASES)
def test_no_damage_goes_unseen(
    name: str,
    file: str,
    state: str,
    kind: str,
    continues: bool,
    commands: dict[str, Command],
    outputs: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command, folder = commands[name], tmp_path / "out"
    shutil.copytree(getattr(outputs(name), state), folder)
    expected = command.content(outputs(name).whole)
    whole, path = (folder / file).read_bytes(), folder / file
    damaged = DAMAGED_ROWS[kind](whole)
    assert damaged != whole
    path.unlink() if damaged is None else path.write_bytes(damaged)
    code, said = resume(command, folder, capsys)
    if continues:
        assert code == command.code
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
        assert command.run(folder) == command.code
        assert command.content(folder) == expected


# The other files of a killed command, and of a complete one.
FILES = [
    *(("evaluate", file, "killed") for file in ("x.jsonl.settings.json", "x.jsonl.part")),
    *(("dataset", file, "killed") for file in ("config.json", "parts", "parts/blocks.jsonl")),
    *(("dataset", file, "whole") for file in ("config.json", "dataset.json")),
    *(("compare", file, "killed") for file in ("config.json", "games.jsonl")),
    ("evaluate", "x.jsonl", "whole"),
]
# Every file is removed. Each other damage hits a sixth of the files.
CHOSEN = [
    (*x, kind)
    for i, x in enumerate(FILES)
    for j, kind in enumerate(FILE)
    if kind == "removed" or (i + j) % 6 == 0
]
RUNS = itertools.cycle(itertools.product(("train", "stage"), ("killed", "whole")))
DAMAGED_FILES: list[tuple[str, str, str, Callable[[Path], None]]] = [
    *(
        (name, state, f"{file} {kind}", lambda x, file=file, kind=kind: FILE[kind](x / file))
        for name, file, state, kind in CHOSEN
        # A folder has no bytes.
        if file != "parts" or kind not in ("zeroed", "halved", "flipped")
    ),
    # Training and stages share the code, so each damage of a run is of one of them.
    *((*next(RUNS), kind, damage) for kind, damage in DAMAGES.items()),
    # It has an earlier checkpoint, from which it has to go on.
    ("train", "whole", "newest checkpoint half written", half_written),
]


@pytest.mark.slow
# Orbax reads arrays in parallel; after the first that fails, the others find a closed loop.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("name", "state", "kind", "damage"),
    DAMAGED_FILES,
    ids=[", ".join(map(str, x[:3])) for x in DAMAGED_FILES],
)
def test_each_file_is_named_or_the_results_are_identical(
    name: str,
    state: str,
    kind: str,
    damage: Callable[[Path], None],
    commands: dict[str, Command],
    outputs: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command, folder = commands[name], tmp_path / "out"
    shutil.copytree(getattr(outputs(name), state), folder)
    damage(folder)
    file = folder / "metrics.jsonl"
    before = file.read_bytes() if file.is_file() else None
    code, said = resume(command, folder, capsys)
    if code == command.code or damage is half_written:
        assert code == command.code
        assert command.content(folder) == command.content(outputs(name).whole)
        assert not list(folder.glob("checkpoints/*-tmp-*"))
        # Each checkpoint that is skipped is named.
        assert said.count("is damaged (") == len(list(folder.glob("damaged-*")))
    else:
        assert code == 2
        line = refusal_in(said)
        assert kind.split()[0] in line or str(folder) in line
        if "were removed" not in said:
            assert (file.read_bytes() if file.is_file() else None) == before


@pytest.mark.slow
# TensorBoard's writer stays open if it cannot write.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", ["evaluate", "dataset", "compare", "train"])
def test_a_full_disk_is_named_and_the_command_can_be_resumed(
    name: str,
    commands: dict[str, Command],
    outputs: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The disk is full from every fifth write on, where a row is written in part and stays."""
    command, expected = commands[name], commands[name].content(outputs(name).whole)
    sync, truncate = os.fsync, os.truncate

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for number in itertools.count(0, 5):
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
        resumes = name == "evaluate" or (folder / "config.json").exists()
        assert command.run(folder, resume=resumes) == command.code
        assert command.content(folder) == expected
    assert number > 5
    assert code == command.code
    gc.collect()


@pytest.mark.slow
def test_a_checkpoint_that_cannot_be_written_is_one_line(
    commands: dict[str, Command],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is written in the background, so another thread has the error."""

    def fill_disk(run: Any, state: TrainState, *_: Any) -> int:
        run.checkpoints.save(1, state)
        run.checkpoints.wait()
        with no_files_above(1000):
            run.checkpoints.save(2, state)
            run.checkpoints.wait()
        return 0

    monkeypatch.setattr(runner, "train", fill_disk)
    assert commands["train"].run(tmp_path, resume=False) == 2
    [line] = capsys.readouterr().err.splitlines()
    folder = tmp_path / "checkpoints"
    assert line.startswith(f"dualmctx train: a checkpoint in {folder} cannot be written: ")
    assert "File too large" in line
    assert line.endswith(
        f"; the last good checkpoint is iteration 1 in {folder}; after the cause is fixed, "
        "--resume continues there"
    )
