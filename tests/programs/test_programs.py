"""Programs that speak GTP or UCI: the lines that they get, their faults, and many side by side."""

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import games
from dualmctx.errors import UserError
from dualmctx.matches.other_players import uci_player
from dualmctx.programs.engine import Engine, EnginePool
from dualmctx.programs.gtp import GtpEngine
from dualmctx.programs.uci import UciEngine
from dualmctx.types import Failure

HERE = Path(__file__).parent
GARDNER, TIC_TAC_TOE = games.make("gardner_chess"), games.make("tic_tac_toe")
START = "rnbqk/ppppp/5/PPPPP/RNBQK w - - 0 1"
BEGIN = ["uci", "setoption name UCI_Variant value gardner"]


def fake(name: str, log: Path, fault: str) -> str:
    return shlex.join([sys.executable, str(HERE / name), str(log), fault])


class Uci:
    """A fake program, and the lines that it has got."""

    def __init__(self, log: Path, fault: str = "none") -> None:
        self.log, command = log, fake("fake_uci.py", log, fault)
        self.engine = UciEngine(GARDNER, command, 60.0, {"nodes": 7}, {"skill level": "3"})

    def choose(self, moves: str, fen: str | None = None) -> str | Failure:
        start = fen and games.read_fen(GARDNER, fen)
        history = [*filter(None, [fen]), *games.parse_moves(GARDNER, moves, start)]
        found = self.engine.choose(history, 0)
        if isinstance(found, Failure):
            return found
        return games.format_moves(GARDNER, start, [*history[fen is not None :], found])[-1]

    def lines(self) -> list[str]:
        return self.log.read_text().splitlines()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def test_a_uci_program_gets_whole_games(log: Path) -> None:
    uci = Uci(log)
    assert uci.choose("") == "b2b3"
    assert uci.choose("b2b3 a4b3") == "a2a3"
    uci.engine.new_game()
    assert uci.choose("", f"{START}\n") == "b2b3"
    uci.engine.close()
    new = ["ucinewgame", "isready"]
    assert uci.lines() == [
        *BEGIN,
        "setoption name Skill Level value 3",
        *new,
        *("position startpos", "go nodes 7"),
        *("position startpos moves b2b3 a4b3", "go nodes 7"),
        *new,
        *(f"position fen {START}", "go nodes 7"),
    ]


NO_MOVE = "which is not a move of gardner_chess"


@pytest.mark.parametrize(
    ("fault", "failure"),
    [
        ("crash", Failure("crashed", "the program ended with exit code 3 at 'go nodes 7'")),
        ("hang", Failure("timed out", "the program gave no answer to 'go nodes 7' in 0.5 s")),
        ("null", Failure("illegal move", f"the program's move is '(none)', {NO_MOVE}")),
    ],
)
def test_a_fault_ends_a_game_and_the_next_one_begins_anew(
    fault: str, failure: Failure, log: Path
) -> None:
    uci = Uci(log, fault)
    for _ in range(2):
        assert uci.choose("") == "b2b3"
        assert uci.engine._program is not None
        uci.engine._program._timeout = 0.5 if fault == "hang" else 60.0
        assert uci.choose("b2b3 a4b3") == failure
        assert uci.engine._program is None
    assert uci.lines().count("uci") == 2


def test_a_uci_program_that_does_not_fit_is_refused(log: Path) -> None:
    command = fake("fake_uci.py", log, "none")
    with pytest.raises(UserError, match="no option 'Hash'; it has Skill Level, UCI_Variant"):
        uci_player(GARDNER, command, limits={"nodes": 1}, options={"Hash": "1"})
    script = "read x; echo option name Hash type spin; echo uciok; read x"
    engine = UciEngine(GARDNER, shlex.join(["sh", "-c", script]), 60.0, {"nodes": 1}, {})
    with pytest.raises(UserError, match="does not play gardner_chess: it has no option UCI_Var"):
        engine.identify()
    engine.close()


def test_a_program_of_othello_may_not_know_a_pass(log: Path) -> None:
    """GRhino passes by itself, and refuses `play` with a pass; only Go needs every pass."""
    refused = Failure("refused", "the program refused 'play W pass': not now")
    for game, history, answer in (("othello", [19, 64], 0), ("go_9x9", [0, 81], refused)):
        engine = GtpEngine(games.make(game), fake("fake_gtp.py", log, "no-pass"), 60.0)
        assert engine.choose(history, 0) == answer
        engine.close()


def test_a_program_that_refuses_a_setting_of_the_game_is_found_at_the_start(log: Path) -> None:
    engine = GtpEngine(games.make("go_9x9"), fake("fake_gtp.py", log, "no-komi"), 60.0)
    with pytest.raises(UserError, match=r"the program refused 'komi 7\.5': not now"):
        engine.identify()
    engine.close()


def test_only_square_boards_have_a_size(log: Path) -> None:
    engine = GtpEngine(games.make("connect_four"), fake("fake_gtp.py", log, "none"), 60.0)
    assert engine.choose([], 0) == 0
    engine.close()
    assert log.read_text().splitlines() == ["clear_board", "genmove B"]


@pytest.fixture
def pool(log: Path) -> Iterator[tuple[EnginePool, list[Engine]]]:
    made: list[Engine] = []

    def make() -> Engine:
        command = fake("fake_gtp.py", log.with_name(f"log-{len(made)}"), "none")
        made.append(GtpEngine(TIC_TAC_TOE, command, 60.0))
        return made[-1]

    pool = EnginePool(make, 2)
    yield pool, made
    pool.close()
    assert all(engine._program is None for engine in made)


def test_each_game_keeps_its_own_program(pool: tuple[EnginePool, list[Engine]], log: Path) -> None:
    """Three games whose order changes; two threads; a new batch uses the same programs."""
    host, made = pool
    assert host.choose([[], [8], [7]], [0, 0, 0]) == [0, 0, 0]
    assert host.choose([[7, 0, 8], [0, 5], [8, 0, 4]], [0, 0, 0]) == [1, 1, 1]
    host.begin()
    assert host.choose([[4], [3]], [0, 0]) == [0, 0]
    assert len(made) == 3
    begin = ["boardsize 3", "clear_board"]
    games_of = [log.with_name(f"log-{i}").read_text().splitlines() for i in range(3)]
    assert games_of[0][:6] == [*begin, "genmove B", "play W 6", "genmove B", "boardsize 3"]
    assert games_of[1][:6] == [*begin, "play B 9", "genmove W", "play B 5", "genmove W"]
    assert games_of[2] == [*begin, "play B 8", "genmove W", "play B 9", "genmove W"]


def test_a_new_position_of_a_game_is_set_up_from_the_start(
    pool: tuple[EnginePool, list[Engine]],
) -> None:
    host, made = pool
    assert host.choose([[8]], [0]) == [0]
    assert host.choose([[8, 1]], [0]) == [0]
    assert len(made) == 2


def test_all_programs_are_killed_after_ctrl_c(pool: tuple[EnginePool, list[Engine]]) -> None:
    host, made = pool
    host.choose([[8], [7]], [0, 0])

    def interrupt(history: object, seed: object) -> int:
        raise KeyboardInterrupt

    programs = [engine._program for engine in made]
    made[0].choose = interrupt
    with pytest.raises(KeyboardInterrupt):
        host.choose([[8, 0, 1], [7, 0, 1]], [0, 0])
    assert [x and x._process.wait(60) for x in programs] == [-9, -9]
