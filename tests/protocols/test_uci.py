"""Sessions of the Universal Chess Interface with made-up searches, and python-chess as a client."""

import functools
import os
import random
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import chess
import chess.engine
import fake_thinker
import pytest

import games
from dualmctx.evaluation.evaluations import centipawns
from dualmctx.protocols.reports import chances
from dualmctx.protocols.running_game import RunningGame
from dualmctx.protocols.thinker import EngineError, Found, Limits
from dualmctx.protocols.uci_session import UciSession
from dualmctx.protocols.uci_text import UciOptions, parse_go

ROOT = Path(__file__).parents[2]
START = "rnbqk/ppppp/5/PPPPP/RNBQK w - - 0 1"


@functools.cache
def gardner() -> RunningGame:
    return RunningGame(games.make("gardner_chess"))


class Client(fake_thinker.Client):
    """A client of a session of Gardner's chess."""

    def __init__(self) -> None:
        super().__init__(gardner())
        options = UciOptions(simulations=16, max_simulations=100, variant="gardner")
        write = self.written.append
        self.session = UciSession(self.thinker, write, options)

    def ask(self, *lines: str, script: Sequence[int | str] = ()) -> list[str]:
        """Returns the lines of the session; `script` has the events of the search."""
        self.thinker.script = [*script]
        return self.send(*lines).splitlines()


def test_a_session_introduces_itself() -> None:
    lines = Client().ask("uci")
    assert (lines[0].split()[:3], lines[-1]) == (["id", "name", "dualmctx"], "uciok")
    assert "option name MultiPV type spin default 1 min 1 max 500" in lines
    assert "option name UCI_Variant type combo default gardner var gardner" in lines
    assert Client().ask("isready", "ucinewgame", "joho debug on", "", "  ") == ["readyok"]
    assert Client().ask("joho isready") == ["readyok"]


def test_wrong_lines_are_named() -> None:
    client = Client()
    for line, words in {
        "dance": "there is no command 'dance'",
        "position fen": "position needs startpos, or fen .*",
        "position startpos moves b2b4": "'b2b4' is illegal in this position",
        "position startpos moves z9": "move 1, 'z9', is not .*",
        "position fen 8/8 w - - 0 1": "FEN '8/8 w - - 0 1' of gardner_chess: .*",
        "setoption MultiPV 3": "setoption needs name and a name, .*",
        "setoption name Threads value 3": "there is no option 'Threads'; the options are .*",
        "setoption name multipv value 0": "MultiPV is '0'; it must be a whole number from 1 to 500",
        "setoption name Ponder value 1": "Ponder is '1'; it must be true or false",
        "setoption name UCI_Variant value chess": "UCI_Variant is 'chess'; it must be gardner",
    }.items():
        [answer] = client.ask(line)
        assert re.fullmatch(rf"info string {words}", answer), (line, answer)
    # The best move of a position that is not known is no move.
    for line in ("position fen", "position startpos moves b2b5"):
        client.ask("position startpos", line)
        assert client.ask("go")[-1] == "bestmove 0000"
    assert client.ask("position startpos", "go nodes 8")[-1].startswith("bestmove a2a3")


def test_a_search_ends_with_its_move() -> None:
    client = Client()
    lines = client.ask("setoption name MultiPV value 2", "position startpos moves b2b3", "go")
    assert lines[-1].startswith("bestmove ")
    assert lines[-1].split()[1] == lines[-3].split()[-1]
    first = r"info depth 1 nodes 16 nps \d+ time \d+ multipv 1 score cp 89 wdl 750 0 250 pv a4a3"
    assert re.fullmatch(first, lines[-3]), lines[-3]
    assert " multipv 2 score cp 37 wdl 625 0 375 pv " in lines[-2]
    assert client.thinker.started == [(Limits(16), None)]
    # All lines have one depth, which does not fall, also those of moves without visits.
    client.ask("setoption name MultiPV value 99")
    client.thinker.lines = [["a4a3", "b3a4"], ["a4a3"]]
    lines, number = client.ask("go"), len(client.game.legal())
    assert [x.split()[2] for x in lines[:-1]] == ["2"] * 2 * number
    assert lines[number - 1].split()[10] == str(number)


def test_statistics_have_the_form_of_leela() -> None:
    options = ("VerboseMoveStats value true", "UCI_ShowWDL value false")
    lines = Client().ask(*(f"setoption name {x}" for x in options), "go nodes 8")
    moves = [x for x in lines if x.startswith("info string ")]
    form = r"info string (\S+) +\( *\d+\) N: +(\d+) \(\+ 0\) \(P: +([\d.]+)%\) .*\(Q: +(\S+)\) .*"
    found = [re.fullmatch(form, x) for x in moves]
    assert all(found)
    assert [x and x[1] for x in found][-2:] == ["a2a3", "node"]
    assert sum(float(x[3]) for x in found[:-1] if x) == pytest.approx(100, abs=0.1)
    assert not any("wdl" in x for x in lines)


def test_limits_follow_the_arguments_of_go() -> None:
    client = Client()
    for line, limits in {
        "go": Limits(16),
        "go nodes 24": Limits(24),
        "go movetime 1000": Limits(None, is_clocked=True),
        "go wtime 9000 btime 100 winc 10": Limits(None, is_clocked=True),
        "go btime 100": Limits(16),
        "go depth 1": Limits(None),
        "go infinite": Limits(),
        "go ponder wtime 100 btime 100": Limits(None, is_clocked=True),
        "go mate 3": Limits(16),
        "go movetime 100.5": Limits(16),
        "go depth nodes 24 wtime 1e5 movetime x": Limits(24),
    }.items():
        script = [4, "stop"] if "infinite" in line or "ponder" in line else ()
        client.ask("position startpos", line, script=script)
        assert client.thinker.started.pop()[0] == limits, line
    wrong, *_, best = client.ask("go depth nodes 2.5")
    reason = "(not a whole number)"
    assert wrong == f"info string go has no effect of depth '' {reason}, nodes '2.5' {reason}"
    assert (best, client.thinker.started.pop()[0]) == ("bestmove a2a3", Limits(16))
    client.ask("setoption name Simulations value 8", "go movetime 1000")
    assert client.thinker.started.pop()[0] == Limits(8, is_clocked=True)
    client.ask("go searchmoves a2a3 zz b2b3 nodes 8")
    [(limits, allowed)] = client.thinker.started
    assert limits == Limits(8)
    assert sorted(map(client.game.name, allowed or ())) == ["a2a3", "b2b3"]
    for number in (-1, 0, 1):
        assert parse_go(["movestogo", str(number)]).moves_to_go == (1 if number > 0 else None)


def test_lines_are_heard_during_a_search() -> None:
    client = Client()
    infinite = ("position startpos", "go infinite")
    # Without a result, the move waits for the first step.
    lines = client.ask(*infinite, script=["isready", "stop", "uci", 1])
    assert (lines[0], lines[-1]) == ("readyok", "bestmove a2a3")
    assert (client.thinker.stops, client.thinker.next_line()) == (1, "uci")
    # The trees are full, and the client has not stopped the search.
    lines = client.ask(*infinite, script=[4, "isready", "please stop"])
    assert [x for x in lines if not x.startswith("info")] == ["readyok", "bestmove a2a3"]
    for line in ("position startpos", "quit", "go nodes 8"):
        assert client.ask(*infinite, script=[2, line])[-1] == "bestmove a2a3"
        assert client.thinker.next_line() == line
    assert client.ask("stop", "ponderhit") == []


def test_a_session_ends_with_its_input() -> None:
    """A search that waits for the client ends, too; another one goes on."""
    for line, number in (("go infinite", 8), ("go nodes 24", 24)):
        client = Client()
        for event in ("position startpos", line, None):
            client.events.put(event)
        client.session.run()
        *_, info, best = "".join(client.written).splitlines()
        assert best == "bestmove a2a3"
        assert f" nodes {number} " in info


def test_a_search_under_a_clock_ends_at_its_deadline() -> None:
    client = Client()
    for line in ("go movetime 60", "go wtime 100 btime 100"):
        assert client.ask("position startpos", line, script=[1])[-1] == "bestmove a2a3"


def test_pondering_waits_for_the_move_of_the_other_side() -> None:
    client, ponder = Client(), "go ponder wtime 60000 btime 60000"
    lines = client.ask("position startpos moves a2a3", ponder, script=[4, "isready", "ponderhit"])
    assert lines.index("readyok") == len(lines) - 3
    assert lines[-1].startswith("bestmove")
    # The own time begins when the expected move is played.
    lines = client.ask("go ponder movetime 60", script=["ponderhit", 1])
    assert lines[-1].startswith("bestmove")


def test_what_needs_the_engine_waits_for_the_compilation() -> None:
    client = Client()
    client.thinker._compiling = 2
    for event in (Found(0, {"error": "move 1, 0, is illegal"}), "uci", Found(0, {}), "debug off"):
        client.events.put(event)
    assert client.ask("isready") == ["readyok"]
    assert [client.thinker.next_line() for _ in range(2)] == ["uci", "debug off"]
    # The first answer does not wait for the network, and nobody waits after the end.
    client.thinker._compiling = 1
    del client.thinker.game
    assert client.ask("uci", "setoption name MultiPV value 2")[-1] == "uciok"
    client.events.put("quit")
    assert client.ask("isready", "position startpos", "go") == []
    assert client.thinker.started == []
    client.thinker.next_line()
    client.events.put(Found(0, {"error": "no memory"}))
    with pytest.raises(EngineError, match="no memory"):
        client.ask("go")


def test_the_moves_of_a_position_are_its_history() -> None:
    """Knights that go back and forth repeat the start of the game, which is then drawn."""
    client = Client()
    back_and_forth = ["b1a3", "b5c3", "a3b1", "c3b5"] * 2
    for number in (4, 8):
        text = " ".join(back_and_forth[:number])
        assert client.ask(f"position startpos moves {text}") == []
        assert client.game.is_over == (number == 8)
    assert len(client.game.actions) == 8
    # Nobody has to claim the draw. The game then goes on, and its history begins anew.
    assert client.ask(f"position startpos moves {text} b1a3") == []
    assert client.game.actions == [client.game.actions[-1]]
    assert not client.game.is_over
    client.ask(f"position startpos moves {text}")
    assert client.ask("go nodes 8")[-1].startswith("bestmove ")
    # After mate there is no move.
    lines = client.ask("position fen k4/1Q3/1K3/5/5 b - - 0 1", "go infinite")
    assert lines == ["info string the game is over", "bestmove 0000"]


def test_scores_follow_the_value() -> None:
    # 90 tan(1.5637541897 / 2) = 89.4
    assert [centipawns(x) for x in (0, 0.5, -0.5)] == [0, 89, -89]
    assert centipawns(1) == -centipawns(-7) > 12_000
    assert [chances(x) for x in (-1, 0.5, 2)] == [(0, 0, 1000), (750, 0, 250), (1000, 0, 0)]


def test_hostile_lines_are_answered() -> None:
    client, rng = Client(), random.Random(1)
    words = "uci isready position startpos fen moves a2a3 b2b3 setoption name value MultiPV 3 -1 go"
    words += " stop ponderhit searchmoves nodes 99999999999999 \t \x00 é ucinewgame"
    for _ in range(500):
        line = " ".join(rng.choices(words.split(" "), k=rng.randint(0, 6)))
        for answer in client.ask(line, script=["stop", 4]):
            assert re.match("(info|bestmove|readyok|id|option|uciok)", answer), line
    assert client.ask("isready") == ["readyok"]


@pytest.mark.slow
def test_python_chess_plays_and_analyses() -> None:
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "protocols")])
    program = [sys.executable, str(Path(__file__).parent / "fake_uci.py")]
    environment = {**os.environ, "PYTHONPATH": paths}
    with chess.engine.SimpleEngine.popen_uci(program, env=environment, timeout=600) as engine:
        engine.configure({"VerboseMoveStats": True})
        board = chess.Board()
        while len(board.move_stack) < 8:
            played: Any = engine.play(board, chess.engine.Limit(white_clock=60, black_clock=60))
            assert played.move in board.legal_moves
            board.push(played.move)
        infos: Any = engine.analyse(board, chess.engine.Limit(nodes=16), multipv=3)
        assert [info.get("multipv") for info in infos] == [1, 2, 3]
        assert infos[0].get("nodes") == 16
        relative = infos[0]["score"].relative
        assert relative.score() == centipawns(0.5)
        assert infos[0]["wdl"].relative == chess.engine.Wdl(750, 0, 250)
        assert all(info["pv"][0] in board.legal_moves for info in infos)
        chosen = list(board.legal_moves)[3]
        info: Any = engine.analyse(board, chess.engine.Limit(nodes=8), root_moves=[chosen])
        assert info["pv"] == [chosen]
        with engine.analysis(board) as endless:
            for found in endless:
                if found.get("pv"):
                    break
        mate = chess.Board("7k/6Q1/6K1/8/8/8/8/8 b - - 0 1")
        assert engine.play(mate, chess.engine.Limit(nodes=8)).move in (None, chess.Move.null())
