"""Text from files cannot change the terminal."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.live import Live
from rich.text import Text

from dualmctx.commands.main import main
from dualmctx.commands.process_settings import standard_streams, write_standard
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
        ("\r\n\t\x00\x1f\x80\x9f\xad", r"\u000d\u000a\u0009\u0000\u001f\u0080\u009f\u00ad"),
        ("\u2028\u2029\ufeff\ud800", r"\u2028\u2029\ufeff\ud800"),
        ("\U000e0041", r"\udb40\udc41"),
    ],
)
def test_characters_without_a_picture_are_escaped(text, expected):
    assert printable(text) == expected
    assert json.loads(f'"{printable(text)}"') == text


def test_a_stream_keeps_lines_and_tabs():
    output = io.StringIO()
    stream: Any = PrintableStream(output)
    print(HOSTILE, "b", sep="\t", file=stream)
    stream.writelines(["c\n", "\x1b"])
    assert output.getvalue() == f"{SHOWN}\tb\nc\n\\u001b"
    assert not stream.isatty()


def _live(console: Console) -> None:
    with Live(Text(HOSTILE), console=console, refresh_per_second=1):
        print(f"within {HOSTILE}")


@pytest.mark.parametrize(
    "show",
    [
        lambda console: console.print(f"[red]{HOSTILE}[/red]"),
        lambda console: console.print(HOSTILE, soft_wrap=True, markup=False),
        _live,
    ],
)
def test_a_console_sends_only_its_own_sequences(show, monkeypatch):
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
def test_lines_of_json_are_escaped_on_a_terminal_only(is_terminal, monkeypatch):
    output = io.BytesIO()
    kind = Terminal if is_terminal else io.TextIOWrapper
    monkeypatch.setattr(sys, "stdout", kind(output, encoding="utf-8"))
    line = '{"id":"\x9b\u202e","move":"é"}\n'
    with standard_streams():
        print(line, end="", flush=True)
        write_standard(line.encode())
    expected = line.replace("\x9b\u202e", r"\u009b\u202e") if is_terminal else line
    assert output.getvalue().decode() == 2 * expected


RUN = {
    **{"game": "nim", "num_iterations": 1, "preset": HOSTILE, "format": HOSTILE},
    **{x: {} for x in ("search", "network", "selfplay", "learner", "evals")},
}
# Files, and a command in their folder.
COMMANDS: dict[str, tuple[dict[str, str], list[str]]] = {
    "network": ({"p.jsonl": '{"moves": ""}'}, ["evaluate", "x.safetensors", "p.jsonl"]),
    "settings": ({"x.json": json.dumps({HOSTILE: 1})}, ["train", "nim", "--config", "x.json"]),
    "run": ({"config.json": json.dumps(RUN)}, ["train", "--resume", "."]),
    "players": ({}, ["compare", f"{HOSTILE}=random", f"{HOSTILE}=x+y+z", "--out", "x"]),
    "columns": ({"p.csv": f"{HOSTILE},id\n1,2\n"}, ["evaluate", "nim", "p.csv"]),
    "name": ({}, ["evaluate", "nim", f"{HOSTILE}.txt"]),
    "flag": ({}, ["evaluate", "nim", "x.csv", f"--{HOSTILE}", "--seed", HOSTILE]),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_names_in_files_are_escaped_in_messages(name, tmp_path, monkeypatch, capfd):
    files, arguments = COMMANDS[name]
    monkeypatch.chdir(tmp_path)
    for file, text in files.items():
        Path(file).write_text(text, encoding="utf-8")
    if name == "network":
        trained = make_untrained("nim")
        record = trained.record | {"game": f"m:{HOSTILE}"}
        export_trained(trained._replace(record=record), "x.safetensors")
    assert main(arguments) == 2
    errors = capfd.readouterr().err
    assert errors
    assert printable(errors, "\n") == errors
