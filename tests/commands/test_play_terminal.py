"""Games in the terminal: `dualmctx play --terminal`."""

import errno
import functools
import io
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

import games
from dualmctx.commands.main import main
from dualmctx.commands.terminal import WIDTH, play
from dualmctx.protocols.running_game import board_text
from refusals import refused


class FirstMove:
    """Stands in for the search of a network: plays the first legal move."""

    def __init__(self, env: Any) -> None:
        self.env, self.is_finite = env, True

    def __call__(self, states: Any) -> Any:
        action = np.argmax(states.legal_action_mask, axis=1)
        return SimpleNamespace(action=action, value=[-0.001], is_finite=[self.is_finite])


@functools.cache
def game(name: str) -> Any:
    return games.make(name)


def transcript(text: str, capsys: pytest.CaptureFixture[str], name: str = "tic_tac_toe") -> str:
    """Runs a session whose input is a text; returns what it printed."""
    evaluator: Any = FirstMove(game(name))
    play(evaluator, "first, alphazero with 8 simulations per move", io.StringIO(text))
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= WIDTH
    assert "\x1b" not in printed
    return printed


@pytest.mark.slow
def test_a_real_search_plays_nim(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("1\nhint\nquit\n"))
    flags = ["--variant", "alphazero", "--simulations", "8"]
    assert main(["play", "nim", "--terminal", *flags]) == 0
    said = capsys.readouterr()
    assert "against nim, alphazero with 8 simulations per move." in " ".join(said.out.split())
    assert re.search(r"\w plays [1-3] \(value [+-]", said.out)
    assert re.search(r"The search would play [1-3] \(value [+-]", said.out)
    assert said.out.endswith("> quit\n")
    assert "compiling the search" in said.err


def test_the_default_search_is_the_one_of_the_page(capsys, monkeypatch):
    monkeypatch.setattr("dualmctx.commands.play.build_evaluator", lambda *_, **__: None)
    monkeypatch.setattr("dualmctx.commands.terminal.play", lambda _, opponent, __: print(opponent))
    assert main(["play", "--terminal"]) == 0
    said = capsys.readouterr().out
    assert said == "connect-four, alphazero with 32 simulations per move\n"


def test_the_first_lines_say_how_to_play(capsys):
    assert transcript("", capsys) == (
        "You play X and move first, against first, alphazero with 8 simulations per move.\n"
        "Type a move (the cell, 1 to 9, row by row from the top left), or help.\n"
        "\n"
        "tic_tac_toe: X to move\n. . .\n. . .\n. . .\nX> \n"
    )


def test_the_search_answers_and_the_last_move_is_marked(capsys):
    printed = transcript("5\n9\nQUIT\n5\n", capsys)
    board = "tic_tac_toe: X to move\n[O]. .\n . X .\n . . .\nX> 9\n"
    assert f"X> 5\n\nO plays 1 (value +0.00)\n{board}" in printed
    assert printed.endswith("X> QUIT\n")


def test_a_finished_game_says_who_won(capsys):
    printed = transcript("3\n5\n7\nmoves\n4\nhint\nundo\n", capsys)
    assert "tic_tac_toe: over, X won" in printed
    assert "You have won.\ngame over> moves\nThe game is over: type undo, " in printed
    assert printed.count("The game is over") == 3
    lost = transcript("5\n9\n4\nundo\nundo\nundo\nundo\n", capsys)
    assert "tic_tac_toe: over, O won" in lost
    assert "You have lost." in lost
    assert lost.count("There is no move of yours to take back.") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("foo", "'foo' is not a move of tic_tac_toe: write one of 1, 2 … 9. Type moves for"),
        ("save no/such/file.txt", "no/such/file.txt: No such file or directory"),
        ("save x.pgn", "The file is x.pgn: give a name that ends in .txt."),
        ("HELP", "left) or a command: help show this list moves list the legal moves hint show"),
        ("moves", "9 legal moves: 1 2 3 4 5 6 7 8 9"),
        ("\x00\x1b[31m", "is not a move of tic_tac_toe"),
        ("", "X> \nX> "),
    ],
)
def test_every_line_has_an_answer(line, answer, capsys):
    printed = " ".join(transcript(f"{line}\n", capsys).split())
    assert " ".join(answer.split()) in printed


def test_an_illegal_move_is_not_played(capsys):
    printed = transcript("5\n5\nmoves\n", capsys)
    assert "'5' is illegal in this position. Type moves for the legal moves, or help.\n" in printed
    assert "7 legal moves: 2 3 4 6 7 8 9\n" in printed


def test_a_game_is_saved(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    printed = transcript("5\nsave a.txt\n9\n4\nsave a.txt\n", capsys)
    assert printed.count("The game is in a.txt.") == 2
    text = Path("a.txt").read_text()
    assert text.startswith("# Game: tic_tac_toe\n# Result: 0-1\n# Event: dualmctx play\n# Date: 20")
    assert "# First: person\n# Second: first, alphazero with 8 simulations per move\n" in text
    assert text.endswith("\n\n5 1 9 2 4 3\n")
    # Another session does not replace the file.
    again = transcript("save a.txt\n", capsys)
    assert "a.txt exists; choose another file\n" in again
    assert Path("a.txt").read_text() == text

    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("dualmctx.runs.atomic_io.sync", fail)
    assert "b.txt: No space left on device\n" in transcript("save b.txt\n", capsys)
    assert [file.name for file in Path().iterdir()] == ["a.txt"]


def test_a_network_without_numbers_ends_the_program(capsys):
    evaluator: Any = FirstMove(game("tic_tac_toe"))
    evaluator.is_finite = False
    with pytest.raises(ValueError, match="the output of the network is NaN or infinite"):
        play(evaluator, "first", io.StringIO("hint\n5\n"))
    assert "X> hint\nthe output of the network is NaN" in capsys.readouterr().out


def test_ctrl_c_at_the_prompt_ends_the_line(capsys):
    class Interrupted(io.StringIO):
        def readline(self, size: int | None = -1) -> str:
            raise KeyboardInterrupt

    evaluator: Any = FirstMove(game("tic_tac_toe"))
    with pytest.raises(KeyboardInterrupt):
        play(evaluator, "first", Interrupted())
    assert capsys.readouterr().out.endswith("X> \n")


def test_the_board_of_hex_has_coordinates():
    env = games.make("hex", size=3)
    before, state = (
        jax.tree.map(lambda x: np.asarray(x)[0], games.replay(env, [moves]))
        for moves in ([1, -1], [1, 5])
    )
    assert board_text(env, state, before) == (
        "hex: x (black) to move\n    a b c\n  1 . x .\n   2 . .[o]\n    3 . . ."
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("hex", "nim"), "2 networks are given; name one for --terminal"),
        (("no-such-network",), "no-such-network"),
        (("nim", "--max-sessions", "1"), "starts no server; leave out --max-sessions, or"),
        (("nim", "--no-browser"), "leave out --no-browser, or"),
    ],
)
def test_wrong_flags_give_one_message(arguments, message, capsys):
    assert message in refused(["play", "--terminal", *arguments], capsys)
