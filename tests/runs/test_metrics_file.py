"""Logs for TensorBoard and Weights & Biases: every number once, at its iteration."""

import itertools
import struct
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tensorboardX.proto.event_pb2 import Event, SessionLog

from dualmctx.runs.metrics_file import require_wandb, tensorboard, weights_and_biases


def row(iteration: int) -> dict[str, Any]:
    return {"iteration": iteration, "policy_loss_0": iteration / 8, "exact/optimal": 1, "x": None}


def events(folder: Path) -> list[Event]:
    """Reads all event files, oldest first. A record is a length, its checksum, data, checksum."""
    found = []
    for file in sorted(folder.iterdir(), key=lambda x: x.stat().st_ctime_ns):
        content = file.read_bytes()
        while content:
            [length] = struct.unpack("<Q", content[:8])
            found.append(Event.FromString(content[12 : 12 + length]))
            content = content[16 + length :]
    return found


def curves(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Returns TensorBoard's curves: a newer file replaces older data from its first step on."""
    found: dict[str, list[tuple[int, float]]] = {}
    for event in events(folder):
        if event.session_log.status == SessionLog.SessionStatus.START:
            kept = {name: [x for x in found[name] if x[0] < event.step] for name in found}
            found = kept
        for value in event.summary.value:
            found.setdefault(value.tag, []).append((event.step, value.simple_value))
    return found


@pytest.mark.parametrize("saved", [3, 0])
def test_tensorboard_has_each_row_once_after_kill(
    saved: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # File names hold the time in seconds.
    clock = itertools.count(1_700_000_000.0)
    monkeypatch.setattr("tensorboardX.event_file_writer.time.time", lambda: next(clock))
    folder = tmp_path / "tensorboard"
    # The file is not closed, as in a killed process.
    killed = tensorboard(folder, 0)
    write = killed.__enter__()
    for i in range(1, 6):
        write(row(i))
        # A kill loses no row.
        assert curves(folder)["policy_loss_0"][-1] == (i, i / 8)
    # The iteration of the last checkpoint; 0 before the first one.
    with tensorboard(folder, saved) as write:
        for i in range(saved + 1, 8):
            write(row(i))
    assert len(list(folder.iterdir())) == 2
    found = curves(folder)
    assert found == {
        "iteration": [(i, i) for i in range(1, 8)],
        "policy_loss_0": [(i, i / 8) for i in range(1, 8)],
        "exact/optimal": [(i, 1) for i in range(1, 8)],
    }


class Wandb:
    """A stand-in for the module wandb and for its run."""

    class Error(Exception):
        pass

    def __init__(self, mode: str = "online", login: Any = True) -> None:
        self.mode, self.answer, self.told = mode, login, []

    def setup(self) -> Any:
        return SimpleNamespace(settings=SimpleNamespace(mode=self.mode))

    def login(self) -> bool:
        if self.answer is None:
            raise self.Error("no key")
        return self.answer

    def init(self, **options: Any) -> "Wandb":
        self.told.append(options)
        return self

    def log(self, numbers: dict, step: int) -> None:
        self.told.append((step, numbers))

    def finish(self) -> None:
        self.told.append("finished")


@pytest.mark.parametrize("login", [False, None])
def test_wandb_requires_login(login: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", Wandb(login=login))
    with pytest.raises(ValueError, match=r"^wandb is not logged in; use wandb login, or .*$"):
        require_wandb()
    for module in (Wandb(), Wandb(mode="offline", login=login)):
        monkeypatch.setitem(sys.modules, "wandb", module)
        assert require_wandb() is module
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ValueError, match=r'^wandb is not installed; use pip install "dualmctx\['):
        require_wandb()


def test_wandb_gets_every_row_and_resumes_run(tmp_path: Path) -> None:
    wandb, folder = Wandb(), tmp_path / "a run"
    folder.mkdir()
    for i in (1, 2):
        with weights_and_biases(wandb, folder, "games", {"seed": 3}) as write:
            write(row(i))
    numbers = [{k: v for k, v in row(i).items() if v is not None} for i in (1, 2)]
    first, *rest = wandb.told
    assert rest == [(1, numbers[0]), "finished", first, (2, numbers[1]), "finished"]
    assert (first["project"], first["name"], first["config"]) == ("games", "a run", {"seed": 3})
    assert first["resume"] == "allow"
    assert len(first["id"]) == 16


def test_a_kill_leaves_no_part_of_the_name_at_wandb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", killed)
    log = weights_and_biases(Wandb(), tmp_path, "games", {})
    with pytest.raises(KeyboardInterrupt), log:
        pytest.fail("it logs")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("when", ["init", "log"])
def test_wandb_failure_is_reported(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wandb = Wandb()

    def fails(*_: Any, **__: Any) -> Any:
        raise Wandb.Error("no network\nafter 90 s")

    monkeypatch.setattr(wandb, when, fails)
    words = r"^wandb failed: no network; use WANDB_MODE=offline, or omit --wandb$"
    with (
        pytest.raises(ConnectionError, match=words),
        weights_and_biases(wandb, tmp_path, "games", {}) as write,
    ):
        write(row(1))
