"""Several processes train as one does; a lost process ends the others with a message."""

import functools
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any
from unittest.mock import Mock

import jax
import numpy as np
import pytest

from dualmctx.commands import train
from dualmctx.commands.train_settings import read_request
from dualmctx.distributed import processes
from dualmctx.distributed.devices import choose_devices
from dualmctx.distributed.runtime_errors import copy_lines
from dualmctx.errors import UserError
from dualmctx.experiment import assemble, multihost
from dualmctx.experiment.assemble import record_of
from dualmctx.experiment.multihost import Command
from dualmctx.runs.checkpoint import open_checkpoints
from dualmctx.runs.folder import create_run
from dualmctx.runs.metrics_file import read_metrics
from dualmctx.runs.saved_network import load_trained
from dualmctx.training.divergence import FAILURES
from dualmctx.training.trainer import Trainer
from untrained import parse_train, predict_nothing

ROOT = Path(__file__).parents[2]
ARGUMENTS = [
    *("nim", "--network.width", "4", "--network.num-blocks", "2"),
    *("--selfplay.num-games", "8", "--selfplay.num-steps", "4"),
    *("--learner.num-updates", "2", "--learner.batch-size", "16", "--learner.capacity", "64"),
    *("--search.variant", "alphazero", "--search.num-simulations", "2"),
    *("--evals.num-games", "2", "--evals.every", "2"),
    *("--num-iterations", "4", "--checkpoint-every", "2", "--keep", "9"),
]
# Runs train.py, but a process is lost after 15 seconds without a heartbeat, and the third iteration
# lasts until a file exists.
PATIENT = """
import pathlib, sys, time
from dualmctx.commands import train
from dualmctx.distributed import processes
from dualmctx.runs.progress import Display
from test_distributed import make_cheap

make_cheap(setattr)
processes.HEARTBEAT_SECONDS = 15
show, go = Display.show, pathlib.Path(sys.argv.pop(1))

def show_and_wait(self, row):
    show(self, row)
    while row["iteration"] == 3 and not go.exists():
        time.sleep(0.01)

Display.show = show_and_wait
sys.exit(train.main(sys.argv[1:], "train.py"))
"""
# A run of two processes that only exchange arrays, and then wait.
SMALL = """
import json, sys, time
import jax, numpy as np
from dualmctx.experiment import multihost
from dualmctx.distributed import devices
from dualmctx.distributed import processes
from dualmctx.training.trainer import Trainer

def make_trainer():
    spread = devices.shardings(devices.make_mesh(), (devices.SHARDED, devices.REPLICATED))
    init = jax.jit(lambda x: (jax.numpy.arange(12).reshape(4, 3) + x, x > 0), out_shardings=spread)
    shapes = jax.eval_shape(init, 0)
    return Trainer(init, lambda state: lambda state: (init(state[0][0, 0]), {}), shapes, None)

def command():
    trainer = multihost.coordinate(make_trainer())
    state = trainer.init(100)
    assert np.array_equal(multihost.gather(state)[0], np.arange(100, 112).reshape(4, 3))
    state = multihost.spread((np.full((4, 3), 7), np.array(True)), trainer.shapes)
    assert not state[0].is_fully_addressable
    state, _ = trainer.compile(state)(state)
    numbers, flag = multihost.gather(state)
    assert np.array_equal(numbers, np.arange(7, 19).reshape(4, 3))
    assert flag.dtype == bool and flag
    try:
        print("ready", flush=True)
        sys.stdin.read()
    except KeyboardInterrupt:
        return 6
    return 5

number, process = map(int, sys.argv[2:]) if sys.argv[2:] else (None, None)
processes.join(sys.argv[1], number, process, "small")
processes.require_same({"preset": "connect2"})
if processes.is_first():
    sys.exit(multihost.run_coordinator(command, "small"))
sys.exit(multihost.run_worker(make_trainer, 100, "small"))
"""


def make_cheap(patch: Any) -> None:
    """Lets runs compile little: an eval adds the parameters, and the memory is not predicted."""

    def add_up(params: Any, rng_key: Any) -> dict[str, float]:
        return {"all/params": float(sum(x.sum() for x in jax.tree.leaves(params)))}

    patch(assemble, "make_evals", lambda *_: ((add_up,), (), {}))
    predict_nothing(patch)


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("localhost", 0))
        return server.getsockname()[1]


def start(
    program: str,
    *arguments: str,
    num_devices: int = 1,
    cluster: Mapping[str, str] = MappingProxyType({}),
) -> subprocess.Popen:
    # With the flags of the tests, the processes share their cache of compiled programs.
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count={num_devices}"
    paths = (ROOT, ROOT / "tests", Path(__file__).parent)
    ours = {"XLA_FLAGS": flags, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    # The tests may run in a cluster; only the one that they set up may be found.
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "OMPI", "KUBE"))}
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", program, *arguments],
        env={**clean, **ours, **cluster},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def start_both(program: str, *arguments: str) -> list[subprocess.Popen]:
    flags = ["--coordinator", f"localhost:{free_port()}", "--num-processes", "2", "--process-id"]
    return [start(program, *arguments, *flags, i) for i in ("0", "1")]


def slurm(process: int, port: int) -> dict[str, str]:
    """Returns the variables that SLURM sets for a task, and a free port."""
    return {
        **{"SLURM_JOB_ID": "7", "SLURM_STEP_NODELIST": "localhost", "SLURM_STEP_NUM_NODES": "1"},
        **{"SLURM_NTASKS": "2", "SLURM_PROCID": str(process), "SLURM_LOCALID": str(process)},
        "JAX_COORDINATOR_PORT": str(port),
    }


def said(process: subprocess.Popen, seconds: float = 120) -> tuple[int, str, str]:
    out, errors = process.communicate(timeout=seconds)
    return process.returncode, out, errors


def wait_for_rows(out: Path, number: int, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 300
    file = out / "metrics.jsonl"
    while not file.exists() or file.read_bytes().count(b"\n") < number:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def wait_until_ready(process: subprocess.Popen) -> None:
    line = ""
    while "ready" not in line:
        line = str(process.stdout and process.stdout.readline())
        assert line, process.communicate()


def untimed_rows(out: Path) -> list[dict[str, Any]]:
    rows = read_metrics(out / "metrics.jsonl")
    return [{k: v for k, v in row.items() if "second" not in k or "/" in k} for row in rows]


def last_line(errors: str) -> str:
    return errors.splitlines()[-1] if errors else ""


def loss_line(program: str) -> str:
    return f"{program}: another process was lost, so this one ended; continue with --resume"


@pytest.mark.slow
def test_two_processes_train_as_one_and_end_when_one_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has one device. Afterwards one process resumes their run."""
    make_cheap(monkeypatch.setattr)
    whole, pieces = tmp_path / "whole", tmp_path / "pieces"
    # The processes then find the programs that they share with this run in the cache.
    assert train.main([*ARGUMENTS, "--out", str(whole)]) == 0
    both = start_both(PATIENT, str(tmp_path / "go"), *ARGUMENTS, "--out", str(pieces))
    try:
        wait_for_rows(pieces, 3, both[0])
        both[1].kill()
        assert said(both[1]) == (-signal.SIGKILL, "", "")
        (tmp_path / "go").touch()
        code, out, errors = said(both[0])
    finally:
        for process in both:
            process.kill()
    assert code != 0
    assert last_line(errors) == loss_line("train.py")
    assert "8 games in parallel, on 2 × cpu in 2 processes" in out
    rows = untimed_rows(pieces)
    assert len(rows) == 3
    assert train.main([*ARGUMENTS, "--out", str(pieces), "--resume"]) == 0
    for ours in (rows, untimed_rows(pieces)):
        for row, other in zip(ours, untimed_rows(whole), strict=len(ours) == 4):
            assert row == pytest.approx(other, rel=1e-4, abs=1e-6)
    states = (open_checkpoints(x / "checkpoints").load().state for x in (pieces, whole))
    close = lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-6)  # noqa: E731
    jax.tree.map(close, *states)
    assert load_trained(pieces).iteration == 4


@pytest.mark.slow
def test_processes_exchange_arrays_and_end_when_the_first_is_lost() -> None:
    port = f"localhost:{free_port()}"
    both = [start(SMALL, port, "2", i, num_devices=2) for i in ("0", "1")]
    try:
        wait_until_ready(both[0])
        both[0].kill()
        code, out, errors = said(both[1], 30)
    finally:
        for process in both:
            process.kill()
            process.communicate()
    assert code != 0
    assert (out, last_line(errors)) == ("", loss_line("small"))


@pytest.mark.slow
def test_under_slurm_the_first_process_decides_on_sigterm() -> None:
    """All get the signal, and end with the exit code of the first, here 6."""
    port = free_port()
    both = [start(SMALL, "auto", cluster=slurm(i, port)) for i in range(2)]
    try:
        wait_until_ready(both[0])
        for process in reversed(both):
            process.send_signal(signal.SIGTERM)
        assert [said(x)[0::2] for x in both] == [(6, ""), (6, "")]
    finally:
        for process in both:
            process.kill()


class Left(BaseException):
    """Stands for the end of the process."""


def test_a_failed_collective_exits_and_a_failed_command_ends_the_workers(
    capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a failed collective, the workers wait and cannot receive a command."""

    def leave(code: int) -> None:
        raise Left(code)

    told, slept = [], []
    monkeypatch.setattr(jax.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(multihost, "_broadcast", lambda *given: told.append(given))
    monkeypatch.setattr(multihost, "time", SimpleNamespace(sleep=slept.append))
    monkeypatch.setattr(multihost.os, "_exit", leave)

    def fails(_: Any) -> Any:
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory\nof process 0")

    def handled(step: Any) -> int:
        """Handles failures of the first process, as the training command does."""
        try:
            return step(0)
        except FAILURES:
            return 2

    nothing: Any = None
    trainer = multihost.coordinate(Trainer(fails, fails, nothing, fails))
    for step, order in ((trainer.init, Command.INIT), (trainer.compile, Command.COMPILE)):
        with pytest.raises(Left, match="2"):
            multihost.run_coordinator(functools.partial(handled, step), "small")
        line = "small: process 0 failed: RESOURCE_EXHAUSTED: Out of memory; --resume continues "
        assert capsys.readouterr().err == f"{line}from the last checkpoint, if there is one\n"
        assert told.pop() == (order,)
    # Bad input, such as a missing module, needs no wait for the loss of another process.
    monkeypatch.setattr(multihost, "_receive", lambda: (Command.INIT, 0))
    with pytest.raises(Left, match="2"):
        multihost.run_worker(Mock(side_effect=UserError("no module my")), 0, "small")
    assert capsys.readouterr().err == "small: process 0 failed: no module my\n"
    assert len(slept) == 2
    assert multihost.run_coordinator(lambda: 2, "small") == 2
    assert told == [(Command.END, 2)]


@pytest.fixture
def as_process(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes this process one of two: `(index, exchange)`, where `exchange` replaces broadcasts."""

    def pretend(index: int, exchange: Any) -> None:
        monkeypatch.setattr(jax.distributed, "is_initialized", lambda: True)
        monkeypatch.setattr(jax, "process_index", lambda: index)
        for name in ("broadcast_one_to_all", "process_allgather"):
            monkeypatch.setattr(processes.multihost_utils, name, exchange)

    return pretend


def test_settings_are_read_by_the_first_process_alone(as_process: Any) -> None:
    """Also if they cannot be read, which the first process reports."""
    sent: list[Any] = []

    def fails() -> Any:
        raise UserError("run has no config.json")

    as_process(0, lambda x: sent.append(x) or x)
    assert processes.from_first(lambda: {"seed": 3}) == {"seed": 3}
    with pytest.raises(UserError, match="no config"):
        processes.from_first(fails)
    as_process(1, lambda _: sent.pop(0))
    assert processes.from_first(pytest.fail) == {"seed": 3}
    with pytest.raises(SystemExit, match="2"):
        processes.from_first(pytest.fail)
    assert sent == []


@pytest.mark.parametrize(
    ("first", "others"),
    [
        (ARGUMENTS, (ARGUMENTS, [*ARGUMENTS, "--resume"])),
        (["--resume"], (["--resume"], ARGUMENTS, [*ARGUMENTS, "--resume", "auto"])),
    ],
    ids=["new", "resumed"],
)
def test_the_first_process_alone_decides_which_run_is_resumed(
    first: list[str],
    others: tuple[list[str], ...],
    as_process: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The others receive all that it sends, with any `--resume` and without the folder."""

    def settle(arguments: list[str]) -> Any:
        return train.settle_here(read_request(arguments, ""), "", processes.from_first)

    run, sent = tmp_path / "run", []
    create_run(run, record_of(*parse_train(ARGUMENTS)))
    monkeypatch.chdir(run)
    as_process(0, lambda x: sent.append(x) or x)
    settled = settle(first)
    assert settled.config.resume == ("--resume" in first)
    monkeypatch.chdir(tmp_path)
    for arguments in others:
        left = [*sent]
        as_process(1, lambda _, left=left: left.pop(0))
        assert settle(arguments) == settled
        assert left == []


def test_different_settings_are_refused(as_process: Any) -> None:
    as_process(0, lambda x: np.stack([x, x]))
    processes.require_same({"seed": 1})
    as_process(0, lambda x: np.stack([x, x + 1]))
    with pytest.raises(UserError, match="process 1 was started with other settings"):
        processes.require_same({"seed": 1})
    as_process(1, lambda x: np.stack([x, x + 1]))
    with pytest.raises(SystemExit, match="2"):
        processes.require_same({"seed": 1})


@pytest.mark.parametrize(
    ("coordinator", "error", "line"),
    [
        ("auto", ValueError("x"), "coordinator is auto, but neither SLURM nor Open MPI gives"),
        ("a:1", RuntimeError("no answer\nx"), "coordinator is a:1; no answer$"),
    ],
)
def test_a_process_that_cannot_join_says_why(
    coordinator: str, error: Exception, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_copy_stderr", lambda _: None)
    monkeypatch.setattr(jax.distributed, "initialize", Mock(side_effect=error))
    with pytest.raises(UserError, match=f"^{line}"):
        processes.join(coordinator, None, None, "train.py")


def test_a_process_joins_only_with_a_backend_and_as_many_devices_as_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(processes, "_copy_stderr", lambda _: None)
    monkeypatch.setattr(jax.distributed, "initialize", lambda *_, **__: None)
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    devices = [SimpleNamespace(process_index=i) for i in (0, 1, 1)]
    monkeypatch.setattr(jax, "devices", lambda: devices)
    with pytest.raises(UserError, match=r"^the number of devices per process is 1 2; it must be"):
        processes.join("a:1", 2, 0, "train.py")
    monkeypatch.setattr(processes, "require_backend", Mock(side_effect=UserError("no GPU")))
    with pytest.raises(UserError, match=r"^no GPU"):
        processes.join("a:1", 2, 0, "train.py")


def test_only_devices_that_exist_are_chosen() -> None:
    number = len(jax.devices()) + 1
    with pytest.raises(UserError, match=f"devices is {number}; it must be from 1 to {number - 1},"):
        choose_devices(number)


def test_standard_error_is_copied_and_an_abort_by_the_runtime_is_explained() -> None:
    usual = ["before\n", "E1121 other.cc:1] something else\n", "no line end"]
    assert list(copy_lines(usual, "train.py")) == usual
    header = "F1121 16:06:33.421308    3855 client.h:80] "
    fatal = f"{header}Terminating process because the JAX distributed service detected fatal errors"
    lines = [*usual[:2], f"{fatal}. This most likely\n", "*** Check failure stack trace: ***\n"]
    assert list(copy_lines(lines, "train.py")) == [*lines, f"{loss_line('train.py')}\n"]
