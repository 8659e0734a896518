"""`dualmctx serve` as a program, and its searches."""

import contextlib
import io
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compilations import recorded_compilations
from documents import code_blocks, section
from dualmctx.commands import serve
from dualmctx.commands.serve import warm_up
from dualmctx.evaluation.answers import answer
from dualmctx.evaluation.batches import full_batches
from dualmctx.evaluation.factory import build_evaluator
from dualmctx.game_files.questions import Question
from dualmctx.runs import saved_network
from untrained import export_untrained, make_untrained

ROOT = Path(__file__).parents[2]


@contextlib.contextmanager
def serving(network: Path | str, *flags: str) -> Iterator[Any]:
    """Starts `dualmctx serve` with pipes; ends it if the test has not."""
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "dualmctx", "serve", str(network), *flags],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def send(process: Any, *lines: Any) -> None:
    for line in lines:
        process.stdin.write((line if isinstance(line, str) else json.dumps(line)) + "\n")
    process.stdin.flush()


def receive(process: Any) -> Any:
    return json.loads(process.stdout.readline())


@pytest.mark.slow
def test_program_gets_answers_over_pipes(tmp_path: Path) -> None:
    network = export_untrained(tmp_path / "c4.safetensors", "connect-four")
    with serving(network, "--network-only", "--batch", "4") as process:
        # Each answer arrives before the next request is sent.
        for i, moves in enumerate(["", "4", "44"]):
            send(process, {"id": f"q{i}", "moves": moves})
            row = receive(process)
            assert (row["id"], row["line"]) == (f"q{i}", i + 1)
            assert len(row["legal"]) == 7
        send(process, "nonsense", {"id": "bad", "moves": "9"}, "", {"moves": "1"})
        rows = [receive(process) for _ in range(3)]
        assert sorted((x["line"], x["id"], "error" in x) for x in rows) == [
            *((4, None, True), (5, "bad", True), (7, 7, False))
        ]
        hostile(process)
        send(process, {"id": "last", "moves": "1213141"})
        out, errors = process.communicate(timeout=600)
    [last] = map(json.loads, out.splitlines())
    assert (last["id"], last["value"], last["action"]) == ("last", -1.0, None)
    assert errors == "dualmctx serve: ready, connect_four on cpu\n"
    assert process.returncode == 0


# Lines that are answered with an error, without a search.
HOSTILE = (
    "{",
    "\x00",
    '"moves"',
    '{"moves": "4", "simulations": NaN}',
    '{"moves": "4", "simulations": 99999999999999999999999}',
    '{"moves": "4", "variant": "gumbel", "simulations": [0]}',
    '{"moves": "4", "max_time": {"s": 1}}',
    '{"moves": "4", "priority": "high"}',
    '{"moves": "4", "variant": "../../etc:x=y"}',
    '{"moves": "4", "variant": "dual:num_rounds=999999999999"}',
    '{"moves": "4", "variant": "' + "x" * 100_000 + '"}',
    '{"moves": "4", "id": "' + "i" * 100_000 + '", "priority": 0.5}',
    '{"moves": "4", "variant": ' + "[" * 600 + "]" * 600 + "}",
    '{"command": "shutdown"}',
    '{"command": "cancel", "target": null}',
    "x" * (2**20 + 1),
)


def hostile(process: Any) -> None:
    """Sends each of the lines; all are answered with errors."""
    send(process, *HOSTILE)
    rows = [receive(process) for _ in HOSTILE]
    assert [x for x in rows if "error" not in x or len(str(x["error"])) > 400] == []
    send(process, {"command": "status"}, {"command": "cancel_all"}, {"command": "clear"})
    status, cancelled, _ = (receive(process) for _ in range(3))
    assert (status["waiting"], status["running"], status["programs"]) == (0, 0, 0)
    assert cancelled["cancelled"] == 0


@pytest.mark.slow
def test_nothing_is_compiled_after_the_start() -> None:
    trained = make_untrained("gardner-chess")
    evaluator = build_evaluator(trained, None, batch_size=3)
    warm_up(evaluator)
    questions = [Question(1, 1, ""), Question(1, 1, [0] * 200), Question(1, 1, [1] * 64)]
    fens = ["k4/1Q3/2K2/5/5 b - - 0 9", "rnbqk/ppppp/P4/1PPPP/RNBQK b - - 0 1"]
    questions += [Question(1, 1, fen=fen) for fen in fens]
    questions.append(Question(1, 1, "b4b3", fens[1]))
    with recorded_compilations() as events:
        for number in (1, 3):
            assert list(answer(evaluator, full_batches(questions, number)))
        assert events == []


ENDLESS = {"moves": "1", "variant": "alphazero", "max_time": 1000, "report_every": 0.001}


@pytest.mark.slow
def test_signals_and_a_closed_output_end_the_command(tmp_path: Path) -> None:
    """While requests run."""
    network = export_untrained(tmp_path / "nim.safetensors", "nim")
    ready = "dualmctx serve: ready, nim on cpu\n"
    for number, code in ((signal.SIGTERM, 130), (None, 141)):
        with serving(network, "--network-only") as process:
            assert process.stderr.readline() == ready
            send(process, ENDLESS, ENDLESS)
            assert receive(process)["final"] is False
            if number is None:
                process.stdout.close()
            else:
                process.send_signal(number)
            assert process.wait(600) == code
            # If the signal interrupts the write of the line before, that line is written again.
            said = process.stderr.read().removeprefix(ready)
            assert said == ("" if number is None else "dualmctx serve: stopped\n")


SESSION = section("docs/serve.md", "A session")


@pytest.mark.slow
def test_documented_session() -> None:
    """Each answer has the fields that the page shows; interim results may come in between.

    A signal ends the command while it waits for input, which stays open.
    """
    [session] = code_blocks(SESSION, "text")
    with serving("connect-four") as process:
        for line in session.splitlines():
            mark, shown = line[0], json.loads(line[2:])
            if mark == ">":
                send(process, shown)
                continue
            row = receive(process)
            while row.get("final") is False and shown.get("final") is not False:
                row = receive(process)
            assert shown.items() <= row.items()
        process.send_signal(signal.SIGINT)
        assert process.wait(600) == 130
        first, last = process.stderr.read().splitlines()
    assert first.startswith("dualmctx serve: ready, connect_four on ")
    assert last == "dualmctx serve: stopped"


def test_the_network_is_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Any] = []
    find = saved_network._find

    def count(source: Any) -> Any:
        found.append(source)
        return find(source)

    monkeypatch.setattr(saved_network, "_find", count)
    monkeypatch.setattr(serve, "warm_up", lambda _: None)
    monkeypatch.setattr(serve, "open_standard_input", lambda: io.BytesIO())
    assert serve.main(["nim", "--network-only", "--batch", "1"]) == 0
    assert found == ["nim"]
