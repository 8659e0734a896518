"""Text from files cannot change the terminal."""

import contextlib
import fcntl
import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.live import Live
from rich.table import Table
from rich.text import Text

from dualmctx.commands.main import main
from dualmctx.commands.standard_streams import standard_streams, write_standard
from dualmctx.console import Console, PrintableStream, printable
from dualmctx.runs.saved_network import export_trained
from untrained import make_untrained

HOSTILE = "\x1b[31m\x9b2J\u202ea\u2066\x07\x7f\u200b"
SHOWN = r"\u001b[31m\u009b2J\u202ea\u2066\u0007\u007f\u200b"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("plain é ü 将 ∞ −", "plain é ü 将 ∞ −"),
        (HOSTILE, SHOWN),
        ("\r\n\t", r"\u000d\u000a\u0009"),
        ("\x00\x1f\x80\x9f\xad", r"\u0000\u001f\u0080\u009f\u00ad"),
        ("\u2028\u2029\ufeff\ud800", r"\u2028\u2029\ufeff\ud800"),
        ("\U000e0041", r"\udb40\udc41"),
    ],
)
def test_characters_without_a_picture_are_escaped(text: str, expected: str) -> None:
    assert printable(text) == expected
    assert json.loads(f'"{printable(text)}"') == text


def test_a_stream_keeps_lines_and_tabs() -> None:
    output = io.StringIO()
    stream: Any = PrintableStream(output)
    print(HOSTILE, "b", sep="\t", file=stream)
    stream.writelines(["c\n", "\x1b"])
    assert output.getvalue() == f"{SHOWN}\tb\nc\n\\u001b"
    assert not stream.isatty()


def _table(console: Console) -> None:
    table = Table(title=HOSTILE)
    table.add_column(HOSTILE)
    table.add_row(HOSTILE, style="red")
    console.print(table)


def _live(console: Console) -> None:
    with Live(Text(HOSTILE), console=console, refresh_per_second=1):
        print(f"within {HOSTILE}")


@pytest.mark.parametrize(
    "show",
    [
        lambda console: console.print(f"[red]{HOSTILE}[/red]"),
        lambda console: console.print(HOSTILE, soft_wrap=True, markup=False),
        _table,
        _live,
    ],
)
def test_a_console_sends_only_its_own_sequences(
    show: Callable[[Console], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    output = io.StringIO()
    monkeypatch.setattr(sys, "stdout", PrintableStream(output))
    show(Console(force_terminal=True, width=200, color_system="standard"))
    written = output.getvalue()
    assert "a" in written
    assert r"\u202e" in written
    # rich's own sequences end in m, h, l, K or A.
    assert not set(written) & set("\x9b\u202e\u2066\x07\x7f\u200b")
    assert "\x1b" in written
    assert r"\u001b" in written


class Terminal(io.TextIOWrapper):
    """A stream that is said to be a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("is_terminal", [True, False])
def test_lines_of_json_are_escaped_on_a_terminal_only(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = io.BytesIO()
    kind = Terminal if is_terminal else io.TextIOWrapper
    monkeypatch.setattr(sys, "stdout", kind(output, encoding="utf-8"))
    line = '{"id":"\x9b\u202e","move":"é"}\n'
    with standard_streams():
        print(line, end="", flush=True)
        write_standard(line.encode())
    expected = line.replace("\x9b\u202e", r"\u009b\u202e") if is_terminal else line
    assert output.getvalue().decode() == 2 * expected


def hostile_network(folder: Path) -> list[str]:
    trained = make_untrained("nim")
    file = folder / "x.safetensors"
    export_trained(trained._replace(record=trained.record | {"game": f"m:{HOSTILE}"}), file)
    return ["evaluate", str(file), str(written(folder / "p.jsonl", '{"moves": ""}'))]


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def hostile_config(folder: Path) -> list[str]:
    file = written(folder / "config.json", json.dumps({HOSTILE: 1}))
    return ["train", "nim", "--config", str(file)]


def hostile_run(folder: Path) -> list[str]:
    entries = {x: {} for x in ("search", "network", "selfplay", "learner", "evals")}
    record = {"game": "nim", "num_iterations": 1, "preset": HOSTILE, "format": HOSTILE, **entries}
    written(folder / "config.json", json.dumps(record))
    return ["train", "--resume", str(folder)]


def hostile_tournament(folder: Path) -> list[str]:
    written(folder / "config.json", json.dumps({"format_version": 1, "game": HOSTILE}))
    out = ["--out", str(folder), "--resume", "--games", "2"]
    return ["compare", "a=random", "b=random", "--game", "nim", *out]


def hostile_players(folder: Path) -> list[str]:
    return ["compare", f"{HOSTILE}=random", f"{HOSTILE}=x+y+z", "--out", str(folder / "x")]


def hostile_columns(folder: Path) -> list[str]:
    return ["evaluate", "nim", str(written(folder / "p.csv", f"{HOSTILE},id\n1,2\n"))]


def hostile_games(folder: Path) -> list[str]:
    file = written(folder / "games.jsonl", json.dumps({"moves": [HOSTILE]}))
    return ["dataset", "tic_tac_toe", str(file), "--out", str(folder / "set")]


def hostile_sgf(folder: Path) -> list[str]:
    file = written(folder / "games.sgf", f"(;GM[1]SZ[9]RU[{HOSTILE}];B[{HOSTILE}])")
    return ["dataset", "go_9x9", str(file), "--out", str(folder / "set")]


def hostile_name(folder: Path) -> list[str]:
    return ["evaluate", "nim", str(folder / f"{HOSTILE}.txt")]


def hostile_flag(folder: Path) -> list[str]:
    return ["evaluate", "nim", "x.csv", f"--{HOSTILE}", "--seed", HOSTILE]


def hostile_command(folder: Path) -> list[str]:
    return [HOSTILE]


@pytest.mark.parametrize(
    "arrange",
    [
        hostile_network,
        hostile_config,
        hostile_run,
        hostile_tournament,
        hostile_players,
        hostile_columns,
        hostile_games,
        hostile_sgf,
        hostile_name,
        hostile_flag,
        hostile_command,
    ],
)
def test_names_in_files_are_escaped_in_messages(
    arrange: Callable[[Path], list[str]], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(arrange(tmp_path)) == 2
    errors = capfd.readouterr().err
    assert errors
    assert printable(errors, "\n") == errors


@contextlib.contextmanager
def held(lock: Path) -> Iterator[None]:
    """Holds a lock, with a hostile name of the host that holds it."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        json.dump({"host": HOSTILE, "process": HOSTILE, "since": HOSTILE}, file)
        file.flush()
        yield


def test_the_holder_of_a_lock_is_escaped(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "x.safetensors"
    with held(tmp_path / ".x.safetensors.lock"):
        assert main(["export", "connect2", str(out)]) == 2
    errors = capfd.readouterr().err
    assert f"is being written by process {SHOWN} on {SHOWN}" in errors
    assert printable(errors, "\n") == errors
