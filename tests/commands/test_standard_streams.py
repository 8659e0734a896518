"""Standard streams and signals of commands: closed pipes, a full disk, Ctrl-C and SIGTERM."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dualmctx.commands.main import main, run_command
from dualmctx.distributed import signals
from dualmctx.distributed.signals import signals_as_interrupt, stopped_on_request

ROOT = Path(__file__).parents[2]
HANDLED = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture
def closed_pipe() -> Any:
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


# Runs a command given as statements, as the installed program does.
PROGRAM = """
import sys, threading
from dualmctx.console import Console
from dualmctx.commands.main import run_command
def command():
{}
    return 0
sys.exit(run_command("dualmctx x", command))
"""


def run_program(statements: str, *by: str, **streams: Any) -> subprocess.CompletedProcess[bytes]:
    body = "\n".join(f"    {line}" for line in statements.splitlines())
    command = [*by, sys.executable, "-W", "error", "-c", PROGRAM.format(body)]
    return subprocess.run(command, cwd=ROOT, check=False, **streams)


@pytest.mark.slow
@pytest.mark.parametrize(
    "statements",
    [
        'for _ in range(1000): print("x" * 1000)',
        # The main thread waits for a thread that writes.
        "def write():\n  print('x', flush=True)\n  threading.Event().wait()\n"
        "thread = threading.Thread(target=write, daemon=True); thread.start(); thread.join()",
    ],
    ids=["long", "thread"],
)
def test_closed_output_ends_a_command_without_a_message(statements, closed_pipe):
    done = run_program(statements, stdout=closed_pipe, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.slow
def test_closed_errors_do_not_stop_a_command(closed_pipe):
    statements = (
        "Console(stderr=True).print('lost')\n"
        "for _ in range(1000): print('y' * 1000, file=sys.stderr)\n"
        "print('result')"
    )
    done = run_program(statements, stdout=subprocess.PIPE, stderr=closed_pipe)
    assert (done.returncode, done.stdout) == (0, b"result\n")


@pytest.mark.slow
def test_closed_descriptors_are_not_reused_for_files(tmp_path):
    """A message to descriptor 2 must not end up in the file that is opened next."""
    file = tmp_path / "result"
    statements = (
        f"with open({str(file)!r}, 'w') as file:\n"
        "  import os; os.write(2, b'message'); os.write(1, b'message'); file.write('result')\n"
        "print('lost'); print('lost', file=sys.stderr)"
    )
    assert run_program(statements, "sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh").returncode == 0
    assert file.read_text() == "result"


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_reported():
    with open("/dev/full", "wb") as full:
        done = run_program("print('x')", stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 2
    line = "dualmctx x: standard output: No space left on device; free space on its disk, or choose"
    assert done.stderr.decode().startswith(line)


@pytest.mark.parametrize("number", HANDLED)
def test_signals_stop_every_command(number, monkeypatch, capfd):
    def interrupted(_: list[str]) -> int:
        signal.raise_signal(number)
        raise AssertionError("it continued")

    monkeypatch.setattr("dualmctx.commands.export.main", interrupted)
    before = [signal.getsignal(x) for x in HANDLED]
    assert main(["export"]) == 130
    assert capfd.readouterr() == ("", "dualmctx export: stopped\n")
    assert [signal.getsignal(x) for x in HANDLED] == before


def test_signals_within_a_second_are_one_request(monkeypatch):
    clock = [10.0]
    monkeypatch.setattr(signals.time, "monotonic", lambda: clock[0])
    caught = []
    with signals_as_interrupt():
        for clock[0] in (10.0, 10.9, 11.1, 12.0):
            try:
                signal.raise_signal(signal.SIGTERM)
            except KeyboardInterrupt:
                caught.append(clock[0])
    assert caught == [10.0, 11.1]


def test_signal_in_a_garbage_collection_is_repeated():
    """Python drops exceptions of JAX's callback for garbage collections."""
    returned = []

    def _xla_gc_callback() -> None:
        signal.raise_signal(signal.SIGTERM)
        # Here, because the signal is repeated until this function returns.
        returned.append(True)

    def collect_and_wait() -> None:
        _xla_gc_callback()
        for _ in range(6000):
            time.sleep(0.01)

    with signals_as_interrupt(), pytest.raises(KeyboardInterrupt):
        collect_and_wait()
    assert returned


def test_ignored_signals_stay_ignored():
    """A shell script starts a background job with Ctrl-C ignored."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with signals_as_interrupt():
            signal.raise_signal(signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_request_is_recorded_and_a_second_one_stops_at_once(monkeypatch):
    """Launchers send a signal twice, so a second one counts after a second only."""
    clock = [10.0]
    monkeypatch.setattr(signals.time, "monotonic", lambda: clock[0])

    def say(_: str) -> None:
        raise RuntimeError("reentrant call inside a stream")

    with stopped_on_request(say) as stop:
        for clock[0] in (10.0, 10.9):
            signal.raise_signal(signal.SIGTERM)
        assert len(stop) == 1
        clock[0] = 11.1
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_commands_run_in_other_threads():
    codes: list[int] = []
    work: Callable[[], None] = lambda: codes.append(run_command("x", lambda: 3))  # noqa: E731
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert codes == [3]


@pytest.mark.parametrize(
    ("command", "program"),
    [(["-m", "dualmctx", "--help"], "dualmctx"), (["train.py", "nim"], "train.py")],
)
def test_an_interrupt_during_imports_is_one_line(command, program, tmp_path):
    (tmp_path / "jax.py").write_text("raise KeyboardInterrupt")
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", f"{program}: stopped\n")
