"""The folder of a run: configuration, metrics, checkpoints and plot; the display."""

import gc
import json
import logging
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dualmctx
from damages import no_files_above
from dualmctx.commands.process_settings import silence_orbax
from dualmctx.errors import UserError
from dualmctx.runs.atomic_io import atomic_path, atomic_write_text
from dualmctx.runs.checkpoint import Checkpoints, check_config, open_checkpoints
from dualmctx.runs.folder import create_run, keep_settings, read_config, reopen_run, with_versions
from dualmctx.runs.journal import write_rows
from dualmctx.runs.metrics_file import open_metrics, read_metrics

SEARCH = {"num_simulations": [4, 2], "backup": {"window": None}}
CONFIG = {"game": "nim", "search": SEARCH, "seed": 0}


def contents(path: Path) -> dict[str, Any]:
    return {str(x.relative_to(path)): x.read_text() for x in path.rglob("*") if x.is_file()}


def test_a_new_folder_holds_the_configuration(tmp_path: Path) -> None:
    for path in (tmp_path / "some" / "where", tmp_path / "empty"):
        if path.name == "empty":
            path.mkdir()
        folder = create_run(path, CONFIG)
        versions = {"format_version": 1, "package_version": dualmctx.__version__}
        assert json.loads(contents(path).pop("config.json")) == versions | CONFIG
        assert list(contents(path)) == ["config.json"]
        assert reopen_run(path, CONFIG) == folder


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_an_existing_output_is_refused(kind: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    if kind == "folder":
        out.mkdir()
    (out / "notes" if kind == "folder" else out).write_text("mine")
    before = contents(tmp_path)
    with pytest.raises(ValueError, match="exists and is not empty; choose another") as error:
        create_run(out, CONFIG)
    assert str(out) in str(error.value)
    assert "\n" not in str(error.value)
    assert contents(tmp_path) == before


def test_a_folder_is_new_if_writing_its_configuration_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    # A killed process cannot remove its draft.
    monkeypatch.setattr(Path, "replace", killed)
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)
    with pytest.raises(KeyboardInterrupt):
        create_run(tmp_path / "run", CONFIG)
    monkeypatch.undo()
    [draft] = contents(tmp_path / "run")
    assert draft != "config.json"
    folder = create_run(tmp_path / "run", CONFIG)
    assert reopen_run(tmp_path / "run", CONFIG) == folder
    assert list(contents(tmp_path / "run")) == ["config.json"]


def test_a_run_is_reopened_only_with_its_configuration(tmp_path: Path) -> None:
    create_run(tmp_path / "run", CONFIG)
    search = {"num_simulations": [4, 3], "backup": {"window": 2}}
    with pytest.raises(ValueError, match="another configuration") as error:
        reopen_run(tmp_path / "run", {**CONFIG, "search": search, "new": 1})
    fields, remedy = str(error.value).split("configuration: ")[1].split("; ")
    assert remedy == "resume it with its own settings, or choose another folder"
    assert fields == (
        "new (None → 1), search.backup.window (None → 2), search.num_simulations ([4, 2] → [4, 3])"
    )
    with pytest.raises(ValueError, match=r"has no config\.json, so there is no run") as error:
        reopen_run(tmp_path / "none", CONFIG)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "none").exists()


def test_reinforcement_is_prolonged_and_other_stages_are_not(tmp_path: Path) -> None:
    """Of the stages of the pipeline, only this one has no schedule of the learning rate."""

    def record(stage: str, number: int) -> dict[str, Any]:
        options = {"num_iterations": number, "eval_every": number, "num_games": 8}
        return {"game": "nim", "pipeline": stage, "reinforce": options}

    create_run(tmp_path / "run", record("reinforce", 5))
    reopen_run(tmp_path / "run", record("reinforce", 10))
    assert read_config(tmp_path / "run") == record("reinforce", 10)
    create_run(tmp_path / "whole", record("alphago", 5))
    with pytest.raises(ValueError, match=r"reinforce.num_iterations \(5 → 10\); resume it"):
        reopen_run(tmp_path / "whole", record("alphago", 10))


@pytest.mark.parametrize("number", [math.inf, (1.5, -math.inf)])
def test_a_run_with_an_infinite_option_is_resumed(number: Any, tmp_path: Path) -> None:
    config = {**CONFIG, "norm": number}
    folder = create_run(tmp_path / "run", config)
    assert reopen_run(tmp_path / "run", config) == folder
    with pytest.raises(ValueError, match="norm"):
        reopen_run(tmp_path / "run", {**CONFIG, "norm": 2.0})
    for _ in range(2):
        keep_settings(tmp_path / "games", {"norm": number, "players": {}}, {"players": dict})


METRICS = [{"iteration": i, "x": i / 2} for i in range(1, 7)]


@pytest.mark.parametrize(
    ("kept", "torn"), [(0, ""), (3, ""), (3, '{"iteration":7,"x'), (6, '{"iteration":7,"x')]
)
def test_resuming_drops_later_and_incomplete_rows(kept: int, torn: str, tmp_path: Path) -> None:
    file, said = tmp_path / "metrics.jsonl", []
    assert open_metrics(file, 0, pytest.fail).rows == []
    write_rows(file, METRICS)
    with file.open("a") as opened:
        opened.write(torn)
    metrics = open_metrics(file, kept, said.append)
    assert metrics.rows == read_metrics(file) == METRICS[:kept]
    cut = f"{file}: the rows after iteration {kept} were removed, because there is no later "
    assert [x for x in said if x.startswith(cut)] == said[bool(torn) :]
    assert len(said) == bool(torn) + (kept < 6)
    for row in METRICS[kept:]:
        metrics.append(row)
    assert read_metrics(file) == METRICS


@pytest.mark.parametrize("iterations", [(1, 2, 3, 2, 3), (2, 3), (1, None)])
def test_rows_have_the_iterations_in_order(
    iterations: tuple[int | None, ...], tmp_path: Path
) -> None:
    file = tmp_path / "metrics.jsonl"
    write_rows(file, [{"iteration": x} for x in iterations])
    before = file.read_bytes()
    with pytest.raises(UserError, match=r"line \d has iteration (\d|None) in place of \d; put"):
        open_metrics(file, 1, pytest.fail)
    assert file.read_bytes() == before


def test_a_new_run_is_on_the_disk_before_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, real = [], os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).relative_to(tmp_path))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    folder = create_run(tmp_path / "runs" / "new", CONFIG)
    new = Path("runs", "new")
    assert synced == [Path(), Path("runs"), new / ".config.json.new", new]
    metrics = open_metrics(folder.metrics, 0, pytest.fail)
    for iteration in (1, 2):
        metrics.append({"iteration": iteration})
    # The first row also creates the file, so the folder is synced too.
    assert synced[4:] == [new / "metrics.jsonl", new, new / "metrics.jsonl"]


def state_of(number: int) -> dict[str, Any]:
    return {"a": jnp.full((2, 3), number, jnp.float32), "b": (jnp.int32(number), jnp.bool_(True))}


def test_checkpoints_keep_the_newest(tmp_path: Path) -> None:
    checkpoints = open_checkpoints(tmp_path / "made" / "here", config={}, keep=2)
    assert checkpoints.latest() is None
    for step in (1, 2, 3, 5):
        checkpoints.save(step, state_of(step))
    # The last save of a run may be of the same iteration as a regular one.
    checkpoints.save(5, state_of(7))
    checkpoints.wait()
    again = open_checkpoints(tmp_path / "made" / "here")
    assert sorted(again.manager.all_steps()) == [3, 5]
    restored, step, damaged, _ = again.restore(state_of(0))
    assert (again.latest(), step, damaged) == (5, 5, {})
    assert (restored["a"] == 5).all()
    assert [x.tolist() for x in restored["b"]] == [5, True]
    assert restored["a"].dtype == jnp.float32
    assert type(restored["b"]) is tuple


def save(checkpoints: Checkpoints, step: int, state: Any) -> None:
    """Saves and waits, because background errors are raised later."""
    checkpoints.save(step, state)
    checkpoints.wait()


def test_only_errors_of_orbax_are_hidden(caplog: pytest.LogCaptureFixture) -> None:
    orbax, asyncio = logging.getLogger("absl"), logging.getLogger("asyncio")
    other = ValueError("DATA_LOSS: cut [tensorstore_spec='{}']")
    with silence_orbax():
        orbax.error("a file of metadata")
        asyncio.error("Task exception was never retrieved", exc_info=other)
        asyncio.error("of a server", exc_info=ValueError("cut"))
        asyncio.error("without an exception")
    orbax.error("later")
    assert [x.getMessage() for x in caplog.records] == [
        *("of a server", "without an exception"),
        "later",
    ]


def test_a_failed_write_names_the_file_and_leaves_it_unchanged(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    atomic_write_text(file, "before")
    with no_files_above(1000), pytest.raises(OSError, match=r"File too large: '.*rows\.json'"):
        atomic_write_text(file, "x" * 2000)
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match=r"Is a directory: '[^']*/folder'$"):
        atomic_write_text(tmp_path / "folder", "x")
    (tmp_path / "folder").rmdir()
    # Some errors have a message only.
    with pytest.raises(OSError, match=r"^short$"), atomic_path(file):
        raise OSError("short")
    assert contents(tmp_path) == {"rows.json": "before"}


def test_only_the_run_removes_incomplete_checkpoints(tmp_path: Path) -> None:
    draft = tmp_path / "13.orbax-checkpoint-tmp"
    save(open_checkpoints(tmp_path, config={}), 5, state_of(5))
    draft.mkdir()
    (draft / "part").write_text("of an array")
    reader = open_checkpoints(tmp_path)
    assert (reader.latest(), reader.restore(state_of(0)).step, reader.load().step) == (5, 5, 5)
    assert (draft / "part").exists()
    # The resumed run saves other iterations.
    save(open_checkpoints(tmp_path, config={}), 7, state_of(7))
    assert {x.name for x in tmp_path.iterdir()} == {"5", "7"}


def test_a_checkpoint_of_another_structure_is_refused(tmp_path: Path) -> None:
    checkpoints = open_checkpoints(tmp_path)
    with pytest.raises(ValueError, match=f"^there is no checkpoint in {tmp_path}$"):
        checkpoints.restore(state_of(0))
    save(checkpoints, 4, state_of(4))
    less, more = {"a": jnp.zeros((2, 3))}, {**state_of(0), "c": jnp.zeros(2)}
    for like in (less, more, {**state_of(0), "a": jnp.zeros((3, 2))}):
        with pytest.raises(
            ValueError, match=r"checkpoint of iteration 4 .* cannot be read: [^\n]+$"
        ):
            checkpoints.restore(like)


def changed_bytes(content: bytes, number: int) -> Iterator[bytes]:
    """Yields contents with one changed byte, at `number` places and in each path of an array."""
    places = {len(content) * i // number for i in range(number)}
    places |= {x.start() + 9 for x in re.finditer(rb'"key": "state"', content)}
    for i, place in enumerate(sorted(places)):
        yield content[:place] + bytes([content[place] ^ 1 << i % 8]) + content[place + 1 :]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@silence_orbax()
def test_a_changed_byte_is_refused_or_changes_nothing(tmp_path: Path) -> None:
    state = state_of(3)
    save(open_checkpoints(tmp_path / "all", config=CONFIG), 3, state)
    words, refused = r"the checkpoint of iteration 3 in .* cannot be read: [^\n]+", []
    for file in sorted(x for x in (tmp_path / "all").rglob("*") if x.is_file()):
        content = file.read_bytes()
        for changed in changed_bytes(content, 1):
            file.write_bytes(changed)
            for read in (lambda x: x.restore(state), lambda x: x.load()):
                try:
                    found = read(open_checkpoints(tmp_path / "all"))
                except ValueError as error:
                    refused.append((file.name, str(error)))
                else:
                    jax.tree.map(
                        np.testing.assert_array_equal, *map(jax.tree.leaves, (found.state, state))
                    )
                    assert found.config == CONFIG
        file.write_bytes(content)
    assert {"_METADATA", "manifest.ocdbt"} < {name for name, _ in refused}
    assert [line for _, line in refused if not re.fullmatch(words, line)] == []
    gc.collect()


def test_a_checkpoint_needs_its_configuration(tmp_path: Path) -> None:
    search = {"num_simulations": [4, 3], "backup": {"window": None}}
    (tmp_path / "config.json").write_text(json.dumps(with_versions(CONFIG | {"search": search})))
    with pytest.raises(
        ValueError, match=r"config\.json is not the configuration .* iteration 7"
    ) as error:
        check_config(tmp_path, 7, CONFIG)
    fields = "search.num_simulations ([4, 2] → [4, 3]); put the old values back"
    assert f"was saved with: {fields}" in str(error.value)
    check_config(tmp_path, 8, CONFIG | {"search": search, "keep": 3})
