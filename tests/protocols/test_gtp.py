"""Sessions of the Go Text Protocol with made-up searches, and GNU Go as a referee."""

import contextlib
import functools
import random
import re
from pathlib import Path
from typing import Any

import fake_thinker
import pytest

import games
from dualmctx.programs.gtp import GtpProgram, GtpRefusalError
from dualmctx.programs.process import find_program
from dualmctx.protocols.gtp_session import INTERRUPT, GtpOptions, GtpSession
from dualmctx.protocols.gtp_table import GtpTable
from dualmctx.protocols.gtp_text import handicap_points, most_handicap_points
from dualmctx.protocols.running_game import RunningGame
from dualmctx.protocols.thinker import Limits

GNUGO = find_program("gnugo")


@functools.cache
def make(name: str) -> RunningGame:
    return RunningGame(games.make(name))


class Client(fake_thinker.Client):
    """A client of a session of GTP."""

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(make(name))
        write, given = self.written.append, GtpOptions(**options)
        self.session = GtpSession(self.thinker, write, given)

    def ask(self, *lines: str) -> str:
        """Sends commands, which succeed; returns the last answer without its sign."""
        answer = ""
        for line in lines:
            answer = self.send(line)
            assert answer.startswith("="), (line, answer)
        return answer[1:].strip()

    def refuse(self, line: str) -> str:
        answer = self.send(line)
        assert re.fullmatch(r"\? [^\n]+\n\n", answer), (line, answer)
        return answer[2:].strip()


def test_answers_have_the_form_of_the_draft() -> None:
    client = Client("tic_tac_toe")
    for line, answer in {
        "protocol_version": "= 2\n\n",
        "17 protocol_version": "=17 2\n\n",
        "  0\tname # a comment": "=0 dualmctx\n\n",
        "na\x07me\x7f\x00": "= dualmctx\n\n",
        "known_command lz-analyze": "= true\n\n",
        "3 known_command dance": "=3 false\n\n",
        "4 boardsize 3": "=4\n\n",
        " \t ": "",
        "# name": "",
        "9": "?9 unknown command\n\n",
        "Name": "? unknown command\n\n",
        "undo": "? cannot undo\n\n",
    }.items():
        assert client.send(line) == answer, line
    assert client.send("6 list_commands").startswith("=6 protocol_version\nname\nversion\n")
    required = "protocol_version name version known_command list_commands quit boardsize"
    required += " clear_board komi play genmove"
    assert set(required.split()) <= set(client.ask("list_commands").split())
    assert client.ask("showboard").splitlines()[1:] == [". . .", ". . .", ". . ."]
    # GTP ends an answer by an empty line, and has none before.
    for name in client.ask("list_commands").split():
        # The next line ends an analysis.
        client.thinker.script = [4, "name"]
        answer = client.send(name)
        assert answer.endswith("\n\n"), name
        assert "\n\n" not in answer[:-2], name


def test_wrong_arguments_are_named() -> None:
    client = Client("tic_tac_toe")
    for line, words in {
        "boardsize": "syntax error: boardsize needs 1 arguments",
        "boardsize 4": "unacceptable size: the network plays on a board of size 3",
        "komi 1e5": "syntax error: '1e5' is not a number",
        "play red 5": "syntax error: 'red' is not a colour, black or white",
        "play w 5": "illegal move: it is the turn of black",
        "play b 10": "illegal move: move 1, '10', is not a move of tic_tac_toe: .*",
        "time_left b x 1": "syntax error: 'x' is not a whole number",
        "final_score": "cannot score: the game is not over",
        "lz-analyze b 10 wings": "syntax error: there is no argument 'wings'",
        "lz-analyze b 10 maxmoves": "syntax error: maxmoves needs a value",
        "lz-analyze b allow b 99 1": "no legal move is allowed",
    }.items():
        assert re.fullmatch(words, client.refuse(line)), line
    assert client.game.actions == []


def test_a_game_is_played_and_taken_back() -> None:
    client = Client("tic_tac_toe")
    assert client.ask("play b 5", "PLAY".lower() + " WHITE 1", "genmove black") == "2"
    assert client.ask("reg_genmove w") == "3"
    assert client.game.actions == [4, 0, 1]
    client.ask("undo", "undo")
    assert client.game.actions == [4]
    client.ask("play w 1", "play b 2", "play w 3", "play b 8")
    assert client.ask("final_score") == "B+1"
    assert client.ask("gogui-rules_final_result") == "Black has won (B+1)."
    assert client.ask("genmove w") == client.ask("reg_genmove w") == "resign"
    assert client.refuse("play w 9").startswith("illegal move")
    assert client.refuse("lz-analyze") == "the game is over"
    assert client.ask("kata-genmove_analyze w 10") == "play resign"
    assert client.ask("clear_board", "showboard").count(".") == 9


def test_a_side_that_is_not_named_passes_in_go() -> None:
    client = Client("go_9x9")
    client.ask("boardsize 9", "play b D4", "play b e4")
    assert client.game.actions == [48, 81, 49]
    client.ask("undo")
    assert client.game.actions == [48]
    # A second pass would end the game.
    client.ask("play w pass")
    assert "black has no turn" not in client.ask("play b pass")
    assert client.ask("genmove w") == "pass"
    assert client.ask("final_score") == "B+73.5"
    assert client.ask("komi 6.5", "final_score") == "B+74.5"
    assert client.ask("gogui-rules_final_result") == "Black has won (B+74.5)."
    # Passes after the end are taken back like moves.
    assert client.ask("reg_genmove b", "play b PASS", "undo", "undo") == ""
    assert client.game.actions == [48, 81, 81]
    client.ask("undo")
    assert client.game.actions == [48, 81]


BEFORE_A_PASS = """e6 d6 c5 b4 c4 c3 a4 a5 c7 f6 b5 c6 f7 e7 b7 e3 d7 c8 e2 f3 d8 a6 g6 d3 b2 g8
f8 b3 f2 d1 b6 f1 c2 f5 h8 b8 d2 e1 g3 h7 h6 a2 g4 e8 a1 h5 g7 a7 b1 g5 a3 c1 h4 h3 a8"""


def test_forced_passes_of_othello_need_not_be_sent() -> None:
    client = Client("othello")
    game = client.game
    for move in BEFORE_A_PASS.split():
        game.play(game.read(move))
    assert [*map(game.name, game.legal())] == ["pass"]
    side, number = game.side(), len(game.actions)
    assert client.ask(f"reg_genmove {'bw'[1 - side]}") != "pass"
    client.ask(f"genmove {'bw'[1 - side]}")
    assert len(game.actions) == number + 2
    client.ask("undo")
    assert len(game.actions) == number
    discs = client.ask("gogui-rules_board")
    lead = discs.count("X") - discs.count("O")
    assert lead != 0
    assert client.ask("final_score") == f"{'BW'[lead < 0]}+{abs(lead)}"


def test_points_are_those_of_the_drawn_board() -> None:
    client = Client("connect_four")
    client.ask("play b 4", "play w d2")  # D2 is the point above the stone in column 4
    assert client.ask("genmove b") == "1"
    assert client.ask("gogui-rules_board_size") == "7"
    rows = client.ask("gogui-rules_board").splitlines()
    assert rows == ["......."] * 5 + ["...O...", "X..X..."]
    assert client.ask("gogui-rules_legal_moves") == "A2 B1 C1 D3 E1 F1 G1"
    assert client.ask("gogui-rules_side_to_move") == "white"
    assert client.ask("gogui-rules_game_id") == "Connectfour"
    # From now on, moves have the names of points.
    assert client.ask("genmove w") == "A2"
    client.thinker.lines = [["1", "1", "1", "2"]]
    line = client.ask("lz-genmove_analyze b 1").splitlines()[0]
    assert "info move A3 " in line
    assert "pv A3 A4 A5 B1 info move B1 " in line
    othello = Client("othello")
    rows = othello.ask("gogui-rules_board").splitlines()
    # Row 1 of the notation is the lowest one.
    assert rows[3:5] == ["...XO...", "...OX..."]
    point = othello.ask("gogui-rules_legal_moves").split()[0]
    row, column = 8 - int(point[1]), "ABCDEFGH".index(point[0])
    after = othello.ask(f"play b {point}", "gogui-rules_board").splitlines()
    assert (rows[row][column], after[row][column], "".join(after).count("X")) == (".", "X", 4)
    small_hex = GtpTable(RunningGame(games.make("hex", size=3)))
    assert (small_hex.gogui_id, small_hex.gogui_size()) == ("Hex", "3 hex")
    # Games without such a board are played by names.
    for name, move in (("hex", "a1"), ("nim", "1")):
        client = Client(name)
        assert client.ask("genmove b", "undo", "genmove b") == move
        assert "no board of black and white stones" in client.refuse("gogui-rules_board")


def test_analyses_have_the_forms_of_leela_zero_and_katago() -> None:
    client = Client("tic_tac_toe")
    move = r"info move \d visits \d+ winrate \d+ prior 1111 order \d pv \d"
    client.thinker.script = [4, "name"]
    text = client.send("8 lz-analyze b 0")
    assert re.fullmatch(rf"=8\n(({move} )*{move}\n){{4}}\n", text), text
    assert text.splitlines()[1].startswith(
        "info move 1 visits 4 winrate 7500 prior 1111 order 0 pv 1 "
        "info move 2 visits 2 winrate 6250 prior 1111 order 1 pv 2 "
    )
    assert client.thinker.started[-1] == (Limits(), None)
    # The line that has ended the analysis is still there, and ends the next one at its first row.
    text = client.send("kata-analyze 1000 rootInfo true maxmoves 2 movesOwnershipStdev true")
    assert text.splitlines()[1:] == [
        "info move 1 visits 4 winrate 0.750000 utility 0.500000 prior 0.111111 order 0 pv 1 "
        "info move 2 visits 2 winrate 0.625000 utility 0.250000 prior 0.111111 order 1 pv 2 "
        "rootInfo visits 8 winrate 0.625000 utility 0.250000",
        "",
    ]
    text = client.send("2 kata-genmove_analyze b interval 1000 avoid b 1,2 1 allow w 9 1")
    assert re.fullmatch(r"=2\ninfo move 3 .*\ninfo move 3 .*\nplay 3\n\n", text), text
    assert client.thinker.started[-1] == (Limits(16), (2, 3, 4, 5, 6, 7, 8))
    client.send("lz-analyze allow w 9,4 1")
    assert client.thinker.started[-1] == (Limits(), (3, 8))
    assert client.thinker.next_line() == "name"
    # Without a colour, the side to move is meant.
    assert client.send("lz-genmove_analyze 10").endswith("\nplay 1\n\n")


def test_a_move_under_a_clock_ends_at_its_deadline() -> None:
    client = Client("tic_tac_toe", overhead=0.01)
    client.ask("genmove b")
    assert client.thinker.started[-1][0] == Limits(16)
    client.ask("time_settings 60 10 5", "genmove w")
    assert client.thinker.started[-1][0] == Limits(None, is_clocked=True)
    # The first step is awaited, the others are not.
    client.thinker.script = [1]
    client.ask("time_left b 0 0", "genmove b")
    assert client.thinker.stops == 3
    # A move that is not played costs no time.
    client.ask("time_left w 9 0", "reg_genmove w")
    assert client.session._clocks.seconds(1, 0.0) == 9 / 30
    budget = Client("tic_tac_toe", has_budget=True)
    budget.ask("time_left b 60 0", "genmove b")
    assert budget.thinker.started[-1][0] == Limits(16, is_clocked=True)
    # An interrupt asks for the move at once. The other lines stay for later.
    budget.thinker.script = ["showboard", INTERRUPT, 1]
    assert budget.ask("genmove w") == "2"
    assert budget.thinker.next_line() == "showboard"


WORDS = [
    *("known_command", "boardsize", "komi", "clear_board", "play", "undo", "showboard", "genmove"),
    *("time_settings", "time_left", "final_score", "gogui-rules_board", "gogui-rules_legal_moves"),
    *("reg_genmove", "lz-genmove_analyze", "black", "w", "b", "3", "9", "5", "-1", "99999999999"),
    *("1e9", "nan", "#", "\t", "\x00", "\x1b[2J", "\u00e9", "\ud800", "resign", "pass"),
    *("swap", "7.5", "interval", "maxmoves", "allow", "avoid", "1,2", "=3", "?"),
]


def test_every_line_has_one_answer() -> None:
    client, rng = Client("tic_tac_toe"), random.Random(400)
    for _ in range(400):
        line = " ".join(rng.choices(WORDS, k=rng.randint(0, 5)))
        words = "".join(x for x in line.replace("\t", " ") if x >= " ").partition("#")[0].split()
        answer = client.send(line)
        if not words:
            assert answer == ""
            continue
        assert re.match(r"[=?]\d* ?", answer), line
        assert answer.endswith("\n\n"), line
        assert "\n\n" not in answer[:-2].replace("=\n", "", 1), line


@pytest.mark.skipif(GNUGO is None, reason="needs gnugo")
def test_the_board_is_that_of_gnu_go_after_each_move(tmp_path: Path) -> None:
    """Random moves without passes, with many captures; GNU Go checks each of them."""
    client, rng = Client("go_9x9"), random.Random(2)
    with contextlib.closing(GtpProgram(f"{GNUGO} --mode gtp", 60)) as referee:
        for command in ("boardsize 9", "clear_board", "komi 7.5"):
            referee.send(command)
        captured = 0
        for ply in range(100):
            color = ("black", "white")[ply % 2]
            names = [client.game.name(x) for x in client.game.legal()[:-1]]
            legal = set(referee.send(f"all_legal {color}").split())
            # GNU Go knows no superko, which ends a game of pgx.
            assert set(names) == legal
            if not names:
                break
            before = client.ask("gogui-rules_board")
            move = rng.choice(names)
            client.ask(f"play {color} {move}")
            if client.game.is_over:
                break
            referee.send(f"play {color} {move}")
            rows = client.ask("gogui-rules_board").splitlines()
            for name, stone in (("black", "X"), ("white", "O")):
                expected = {
                    f"{'ABCDEFGHJ'[x]}{9 - y}"
                    for y, row in enumerate(rows)
                    for x, cell in enumerate(row)
                    if cell == stone
                }
                assert set(referee.send(f"list_stones {name}").split()) == expected
            captured += before.count(".") - "".join(rows).count(".") != 1
    assert captured > 5


def test_handicap_stones_are_placed_before_a_game() -> None:
    client = Client("go_9x9")
    assert client.ask("fixed_handicap 3") == "G7 C3 C7"
    rows = client.ask("gogui-rules_board").splitlines()
    assert (rows[2], rows[6], "".join(rows).count("X")) == ("..X...X..", "..X......", 3)
    assert client.ask("gogui-rules_side_to_move") == "white"
    assert client.refuse("undo") == "cannot undo"
    client.ask("play w E5", "undo")
    assert client.refuse("set_free_handicap A1 B1") == "board not empty"
    client.ask("clear_board", "set_free_handicap a1 J9")
    assert client.ask("gogui-rules_board").splitlines()[8] == "X........"
    client.ask("clear_board")
    for line, reason in {
        "fixed_handicap 1": "invalid number of stones: 1 on a board of size 9",
        "fixed_handicap 10": "invalid number of stones: 10 on a board of size 9",
        "set_free_handicap A1": "bad vertex list: a handicap has at least two stones",
        "set_free_handicap A1 pass": "bad vertex list: 'pass': a pass is no stone",
        "set_free_handicap A1 A1": "bad vertex list: 'A1': illegal move: .*",
        "place_free_handicap 81": "invalid number of stones: 81 on a board of size 9",
    }.items():
        assert re.fullmatch(reason, client.refuse(line)), line
        assert client.game.actions == []
    assert len(client.ask("place_free_handicap 20").split()) == 9
    assert "fixed_handicap" not in Client("tic_tac_toe").ask("list_commands")


def test_all_stones_of_go_are_alive() -> None:
    client = Client("go_9x9")
    assert client.ask("play b J1", "play w A9", "final_status_list alive") == "A9 J1"
    assert client.ask("final_status_list dead") == client.ask("final_status_list seki") == ""
    assert "not alive, seki or dead" in client.refuse("final_status_list well")


@pytest.mark.skipif(GNUGO is None, reason="needs gnugo")
def test_fixed_handicap_stones_are_those_of_gnu_go() -> None:
    with contextlib.closing(GtpProgram(f"{GNUGO} --mode gtp", 60)) as referee:
        for size in (5, 7, 8, 9, 13, 19):
            referee.send(f"boardsize {size}")
            largest = most_handicap_points(size)
            assert largest == {5: 0, 7: 4, 8: 4}.get(size, 9)
            for number in range(2, largest + 1):
                referee.send("clear_board")
                expected = referee.send(f"fixed_handicap {number}").split()
                assert sorted(handicap_points(size, number)) == sorted(expected)
            referee.send("clear_board")
            with pytest.raises(GtpRefusalError, match="invalid handicap"):
                referee.send(f"fixed_handicap {largest + 1}")
