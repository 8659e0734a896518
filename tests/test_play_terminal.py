"""Games in the terminal: `dualmctx play --terminal`."""

import functools
import io
import re
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import games
from dualmctx.commands.main import main
from dualmctx.commands.play import Options, load_network
from dualmctx.commands.terminal.commands import COMMANDS
from dualmctx.commands.terminal.game import Game, read_move, read_sides, undo
from dualmctx.commands.terminal.play import run
from dualmctx.commands.terminal.search import Progress, search
from dualmctx.commands.terminal.session import Session
from dualmctx.commands.terminal.text import WIDTH, analysis_table, board_text
from dualmctx.evaluation.requests import Analysis
from dualmctx.web.engines import Network
from dualmctx.web.positions import open_position


class FirstMove:
    """Stands in for the searches of a network: plays the first legal move.

    Attributes:
      stage: as of an engine.
      analyses: the settings of the searches so far.
    """

    def __init__(self, env: Any) -> None:
        self.env, self.stage = env, None
        self.analyses: list[Analysis] = []
        self.fails = False

    def submit(self, question: Any, analysis: Analysis, receive: Any) -> str:
        self.analyses.append(analysis)
        if self.fails:
            receive({"error": "the search failed: no memory"})
            return "request"
        state = open_position(self.env, question).state
        legal = np.flatnonzero(state.legal_action_mask).tolist()
        names = [games.format_action(self.env, None, action) for action in legal]
        rows = [
            {"action": a, "move": name, "visits": 9, "q": -0.001, "weight": 1 / len(legal)}
            | {"network_policy": [0.5, 0.25]}
            for a, name in zip(legal, names, strict=True)
        ]
        row = {"action": legal[0], "pv": names[:1], "value": -0.001, "legal": rows}
        row |= {"tree_values": [0, 0], "network_value": [0, 0], "simulations": 85, "reused": 0}
        receive(row | {"final": False, "heads_agree": True, "heads_distance": 0})
        receive(row | {"heads_agree": True, "heads_distance": 0})
        return "request"

    def cancel(self, name: str) -> None:
        """Does nothing: every search is finished at once."""


@functools.cache
def network(name: str) -> Network:
    return load_network(Options(), name)


def session_of(name: str) -> Session:
    engine: Any = FirstMove(network(name).trained.env)
    return Session(name, network(name), engine, 2000, 0)


def transcript(name: str, text: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Runs a session whose input is a text; returns what it printed."""
    run(session_of(name), io.StringIO(text))
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= WIDTH
    assert "\x1b" not in printed
    return printed


@pytest.mark.slow
def test_a_game_of_tic_tac_toe_is_not_lost(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each reply of the person is the exact best move; the search must hold the draw."""
    env = games.make("tic_tac_toe")
    best = games.solve(env)
    printed: list[str] = []

    class Replies(io.StringIO):
        def readline(self, size: int | None = -1) -> str:
            text = capsys.readouterr().out
            printed.append(text)
            if "The game is drawn" in text or "You have" in text:
                return "quit\n"
            moves.extend(int(line.split()[2]) - 1 for line in text.splitlines() if "plays" in line)
            states = games.replay(env, np.array([moves], np.int32))
            state = jax.tree.map(lambda leaf: leaf[0], states)
            moves.append(int(np.flatnonzero(best.code_optimal[int(best.code_fn(state))])[-1]))
            return f"{moves[-1] + 1}\n"

    moves: list[int] = []
    monkeypatch.setattr(sys, "stdin", Replies())
    assert main(["play", "tic-tac-toe", "--terminal"]) == 0
    assert "The game is drawn." in printed[-1]
    assert "compiling the search" in capsys.readouterr().err or len(moves) == 9


@pytest.mark.slow
def test_a_real_search_plays_connect2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From 2, the person who moves first wins."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("2\nhint\nexact\nquit\n"))
    flags = ["--variant", "alphazero", "--simulations", "8"]
    assert main(["play", "connect2", "--terminal", *flags]) == 0
    printed = capsys.readouterr().out
    assert "Connect2 against connect2, alphazero with 8 simulations per move." in printed
    assert re.search(r"o \(white\) plays [13] \(value -", printed)
    assert "With perfect play: win for x (black)" in printed
    assert printed.endswith("> quit\n")


def test_the_first_lines_say_how_to_play(capsys: pytest.CaptureFixture[str]) -> None:
    printed = transcript("tic-tac-toe", "", capsys)
    assert printed == (
        "Tic-tac-toe against tic-tac-toe, dual with 50,35 simulations per move.\n"
        "You play X and move first.\n"
        "Type a move (the cell, 1 to 9, row by row from the top left), or help.\n"
        "\n"
        "tic_tac_toe: X to move\n. . .\n. . .\n. . .\nX> \n"
    )


def test_the_search_answers_and_the_last_move_is_marked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    printed = transcript("tic-tac-toe", "5\n9\nrecord\n", capsys)
    assert (
        "O plays 1 (value +0.00)\ntic_tac_toe: X to move\n[O]. .\n . X .\n . . .\nX> 9" in printed
    )
    assert printed.endswith("X> record\nMoves: 5 1 9 2\nX> \n")


def test_a_finished_game_says_who_won(capsys: pytest.CaptureFixture[str]) -> None:
    printed = transcript("tic-tac-toe", "3\n5\n7\nmoves\n4\nhint\nundo\n4\nnew\n", capsys)
    assert "tic_tac_toe: over, X won" in printed
    assert "You have won.\ngame over> moves\nThe game is over: type new, undo, " in printed
    lost = transcript("tic-tac-toe", "5\n9\n4\nundo\nundo\nundo\n", capsys)
    assert "tic_tac_toe: over, O won" in lost
    assert "You have lost." in lost
    assert "There is no move of yours to take back." not in lost
    assert "There is no move of yours" in transcript("tic-tac-toe", "undo\n", capsys)


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("foo", "'foo' is not a move of tic_tac_toe: write one of 1, 2 … 9; it is no command"),
        ("hnit", "perhaps you meant hint. Type help."),
        ("10", "'10' is not a move of tic_tac_toe"),
        ("undo 3", "undo has no argument, but there is '3'."),
        ("save", "save needs an argument: save FILE."),
        ("load no/such/file", "no/such/file: No such file or directory"),
        ("load .", ".: Is a directory"),
        ("load ~no-such-user/x", "~no-such-user/x names the folder of an unknown user."),
        ("save ~no-such-user/x", "~no-such-user/x names the folder of an unknown user."),
        ("level x", "'x': give a whole number of at most 2000."),
        ("level 3000", "'3000': give a whole number of at most 2000."),
        ("level 1500,1500", "3000 simulations are more than 2000: choose fewer"),
        ("level 1,2,3", "it must be two numbers"),
        ("level " + "0" * 20 + "2001", "give a whole number of at most 2000."),
        ("side", "You play X."),
        ("level 0", "num_simulations is 0"),
        ("level 60,20", "The search is dual with 60,20 simulations per move."),
        ("variant foo", "variant is foo; it must be one of dual, "),
        ("variant alphazero", "The search is alphazero with 85 simulations per move."),
        ("temperature", "The temperature is 0: best moves."),
        ("temperature nan", "temperature 'nan': give a number from 0 to 10."),
        ("temperature 1", "The temperature is 1: varied moves."),
        ("analyse 0.5", "'0.5': give a whole number of at most 2000."),
        ("side third", "side 'third': choose one of first, second, both, none, x, o."),
        ("position 5 5", "move 2, '5', is illegal"),
        ("position nonsense", "'nonsense', is not a move of tic_tac_toe"),
        ("resign", "X resigns. You have lost."),
        ("HELP", "Type a move (the cell, 1 to 9, row by row from the top left) or a command:"),
        ("exact", "With perfect play: draw for X (from the solution of the game)."),
        ("moves", "9 legal moves: 1 2 3 4 5 6 7 8 9"),
        ("hint", "The search would play 1 (value +0.00)."),
        ("\x00\x1b[31m", "is not a move of tic_tac_toe"),
        ("9" * 2000, "The line is longer than 1000 characters"),
        ("", "X> \nX> "),
    ],
)
def test_every_line_has_an_answer(
    line: str, answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(session_of("tic-tac-toe"), io.StringIO(f"{line}\n"))
    printed = " ".join(capsys.readouterr().out.split())
    assert " ".join(answer.split()) in printed
    assert "Traceback" not in printed


def test_an_illegal_move_names_the_legal_ones(capsys: pytest.CaptureFixture[str]) -> None:
    printed = transcript("tic-tac-toe", "5\n5\n", capsys)
    assert "'5' is illegal here; legal moves: 2 3 4 6 7 8 9\n" in printed


def test_ambiguous_and_impossible_moves_of_chess_are_explained() -> None:
    env = games.make("gardner_chess")
    state = games.from_fen(env, "4k/5/N3N/5/4K w - - 0 9")
    opened: Any = open_position(env, Game(env, "4k/5/N3N/5/4K w - - 0 9").question)
    assert read_move(env, opened, "a3b1") in np.flatnonzero(state.legal_action_mask)
    with pytest.raises(ValueError, match="ambiguous: write Na3c2 or Ne3c2"):
        read_move(env, opened, "Nc2")
    with pytest.raises(ValueError, match="not possible: no queen can move to c2"):
        read_move(env, opened, "Qc2")
    with pytest.raises(ValueError, match=r"illegal here; legal moves: .*a3b1"):
        read_move(env, opened, "e1e3")
    with pytest.raises(ValueError, match="illegal here"):
        read_move(env, opened, "1.")


def test_sides_are_chosen_by_order_or_name(capsys: pytest.CaptureFixture[str]) -> None:
    env = games.make("connect_four")
    assert [read_sides(env, x) for x in ("first", "White", "x", "BOTH", "none")] == [
        *((0,), (1,), (0,), (0, 1), ()),
    ]
    assert read_sides(games.make("hsr"), "opponent") == (1,)
    printed = transcript("tic-tac-toe", "side second\n9\nside both\n8\nundo\n", capsys)
    assert "You play O.\n\nX plays 1 (value +0.00)" in printed
    assert "O> 9\n\nX plays 2" in printed
    assert (
        "You play X and O.\nO> 8\ntic_tac_toe: X to move\nX X .\n. . .\n.[O]O"
        in printed.replace("\n ", "\n")
    )
    alone = transcript("tic-tac-toe", "side none\n", capsys)
    assert "The search plays both sides" in alone
    assert "X has won." in alone


def test_a_game_is_saved_and_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = ["5", "save a.txt", "9", "resign", "save a.txt", "load a.txt", "save x.pgn", "save b"]
    printed = transcript("tic-tac-toe", "\n".join(lines) + "\n", capsys)
    assert printed.count("The game is in a.txt.") == 2
    assert "The game is in b.txt." in printed
    assert "X resigns. You have lost." in printed
    assert "You play both sides now; type side to change it." in printed
    assert "x.pgn ends in .pgn: give a name that ends in .txt." in printed
    assert (
        Path("a.txt")
        .read_text()
        .startswith("# Game: tic_tac_toe\n# Result: 0-1\n# Event: dualmctx play\n# Date: 20")
    )
    assert Path("a.txt").read_text().endswith("\n# Termination: resignation\n\n5 1 9 2\n")
    # Another session does not replace the file.
    again = transcript("tic-tac-toe", "save a.txt\nload a.txt\nrecord\n", capsys)
    assert "a.txt exists: give another name, or remove it." in again
    assert "Moves: 5 1 9 2" in again
    Path("broken").write_bytes(b"\xff\xfe 5" + bytes(range(256)))
    assert "is not a move" in transcript("tic-tac-toe", "load broken\n", capsys)


def test_analysis_has_bars_and_exact_values(capsys: pytest.CaptureFixture[str]) -> None:
    printed = transcript("tic-tac-toe", "position 1 2 5\nside second\nanalyse 120\n", capsys)
    table = printed[printed.index("85 simulations") :].splitlines()
    assert table[1] == "move  visits  value  policy  prior  exact"
    assert table[2].startswith("   3       9  +0.00    17 %   25 %   loss  ######")
    assert len(table[2]) < WIDTH
    session = session_of("tic-tac-toe")
    COMMANDS["analyse"].run(session, "")
    assert session._engine.analyses[0].simulations == (340,)  # type: ignore[attr-defined]


def test_many_moves_are_summarised() -> None:
    moves = [
        {"action": x, "name": f"m{x}", "visits": None, "q": None, "weight": x / 190, "prior": [0.1]}
        for x in range(20)
    ]
    row = {"simulations": 5, "reused": 3, "value": None, "moves": moves, "line": ["m1"] * 60}
    row["policy"] = "The policy is the share of the visits; the ranks follow it."
    text = analysis_table(row, None, "x")
    lines = text.splitlines()
    assert lines[0] == "5 simulations (3 of them kept): value unknown for x"
    assert row["policy"] in lines
    assert lines[2].split()[:5] == ["m19", "-", "-", "10", "%"]
    assert "and 8 more moves" in lines
    assert max(map(len, lines)) <= WIDTH


def test_a_failed_search_leaves_the_game_to_the_person(
    capsys: pytest.CaptureFixture[str],
) -> None:
    session = session_of("tic-tac-toe")
    session._engine.fails = True  # type: ignore[attr-defined]
    run(session, io.StringIO("5\n1\nhint\n"))
    printed = capsys.readouterr().out
    assert printed.count("the search failed: no memory") == 2
    assert "O> 1\n" in printed


def test_ctrl_c_stops_a_search_and_leaves_its_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first signal asks for the result so far, and the second one ends the program."""

    class Slow(FirstMove):
        receive: Any = None

        def submit(self, question: Any, analysis: Analysis, receive: Any) -> str:
            self.receive = receive
            return "request"

        def cancel(self, name: str) -> None:
            super().submit(Game(self.env).question, Analysis(), self.receive)

    class Stuck(Slow):
        def cancel(self, name: str) -> None:
            pass

    # Ctrl-C arrives while the search waits, and not after a time that a busy machine may exceed.
    signals = []

    def show(*_: Any) -> None:
        if signals:
            signal.raise_signal(signals.pop())

    monkeypatch.setattr(Progress, "show", show)
    env = games.make("tic_tac_toe")
    before = signal.getsignal(signal.SIGINT)
    slow: Any = Slow(env)
    signals += [signal.SIGINT]
    found = search(slow, Game(env).question, Analysis())
    assert found.is_stopped
    assert found.row is not None
    assert found.row["action"] == 0
    stuck: Any = Stuck(env)
    signals += 2 * [signal.SIGINT]
    with pytest.raises(KeyboardInterrupt):
        search(stuck, Game(env).question, Analysis())
    assert signals == []
    assert signal.getsignal(signal.SIGINT) is before


def test_progress_is_one_line_in_a_terminal_and_plain_text_elsewhere() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for file, expected in (
        (Terminal(), "\rworking (5 s; Ctrl-C stops it)\r                              \r"),
        (io.StringIO(), "working ...\n"),
    ):
        progress = Progress(file)
        progress.show("early", time.monotonic())
        progress.show("working", time.monotonic() - 5)
        progress.clear()
        assert file.getvalue() == expected


def test_the_board_of_hex_has_coordinates() -> None:
    env = games.make("hex", size=3)
    opened = open_position(env, Game(env, None, (1, 5)).question)
    assert board_text(env, opened.state, opened.before) == (
        "hex: x (black) to move\n    a b c\n  1 . x .\n   2 . .[o]\n    3 . . ."
    )


def test_moves_of_a_person_are_taken_back() -> None:
    env = games.make("nim", pile=9)
    game = Game(env, None, (0, 1, 2))
    assert undo(game, (0,)).actions == (0, 1)
    assert undo(game, (1,)).actions == (0,)
    assert undo(game, ()).actions == (0, 1)
    assert undo(Game(env, None, (0,), resigned=1), (0,)).actions == (0,)
    with pytest.raises(ValueError, match="no move of yours"):
        undo(Game(env, None, (0,)), (1,))


def test_wrong_flags_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["play", "--terminal", "hex", "nim"]) == 2
    assert "2 networks are given; name one for --terminal" in capsys.readouterr().err
    assert main(["play", "--terminal", "no-such-network"]) == 2
    assert "no-such-network" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (("--port", "0"), "leave out --port, or"),
        (("--host", "0.0.0.0", "--no-browser"), "leave out --host, --no-browser, or"),
        (("--max-sessions", "1", "--max-networks", "1"), "--max-sessions, --max-networks, or"),
    ],
)
def test_flags_of_the_server_are_refused(
    flags: tuple[str, ...], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["play", "nim", "--terminal", *flags]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "--terminal starts no server" in line
    assert named in line


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--variant", "bogus"), "variant is bogus"),
        (("--simulations", "0"), "num_simulations is 0"),
        (("--simulations", "5000"), "the search has 5000 simulations"),
    ],
)
def test_a_wrong_search_starts_no_engine(
    flags: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = set(threading.enumerate())
    assert main(["play", "nim", "--terminal", *flags]) == 2
    assert message in capsys.readouterr().err
    # A thread of an earlier test may end meanwhile.
    assert set(threading.enumerate()) <= before


def test_commands_are_described_in_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    printed = transcript("tic-tac-toe", "?\n", capsys)
    assert all(f"\n  {name}" in printed for name in COMMANDS)
