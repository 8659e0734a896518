"""Real searches: kept trees, allowed moves, and the commands as programs."""

import queue
import sys
from collections.abc import Callable, Iterator
from typing import Any

import jax
import pytest
from fake_thinker import FakeThinker

import games
from compilations import recorded_compilations
from dualmctx.commands import engine as commands
from dualmctx.commands.main import main
from dualmctx.commands.search import build_continued_search
from dualmctx.errors import UserError
from dualmctx.programs.gtp import GtpEngine
from dualmctx.protocols.running_game import RunningGame
from dualmctx.protocols.thinker import Ending, EngineError, Events, Limits, Thinker
from dualmctx.runs.saved_network import Trained
from dualmctx.serving.engine import EngineOptions
from dualmctx.types import Failure
from refusals import refused
from untrained import make_untrained

OPTIONS = EngineOptions(batch_size=1, max_simulations=40, tree_memory=2**22, chunk_size=4)
PROGRAM = f"{sys.executable} -m dualmctx"
Find = Callable[..., Any]


@pytest.fixture(scope="module")
def thinking() -> Iterator[tuple[RunningGame, Find]]:
    """A game of Nim, and a function that searches its last position."""
    trained, events = make_untrained("nim"), Events(())
    policy = build_continued_search(trained.record, "alphazero", 10)
    thinker = Thinker(lambda: trained, policy, OPTIONS, events)
    assert thinker.wait()
    game = thinker.game
    # A move needs no compilation.
    assert game._step._cache_size() == 1

    def find(limits: Limits, allowed: tuple[int, ...] | None = None) -> Any:
        return thinker.search(game, limits, Ending(), hear=lambda line: False, allowed=allowed)

    yield game, find
    assert thinker.close(60)


def test_a_search_whose_engine_has_not_started_says_why() -> None:
    """A client may ask for a move and to quit while the network is loaded."""

    def load() -> Trained:
        raise UserError("no such network")

    game = RunningGame(games.make("nim"))
    policy = build_continued_search(make_untrained("nim").record, "alphazero", 10)

    def search(thinker: Thinker) -> None:
        thinker.search(game, Limits(1), Ending(), hear=lambda line: False)

    for call in (search, Thinker.wait, Thinker.next_line):
        lines = iter(["quit"]) if call is search else iter(queue.SimpleQueue[str]().get, None)
        thinker = Thinker(load, policy, OPTIONS, Events(lines), game)
        with pytest.raises(EngineError, match="no such network"):
            call(thinker)
        thinker.clear()
        assert thinker.close(60)


def test_a_search_goes_on_in_the_kept_tree(thinking: tuple[RunningGame, Find]) -> None:
    game, find = thinking
    game.begin()
    first = find(Limits(10))
    assert (first["simulations"], first["final"]) == (12, True)
    deeper = find(Limits())
    assert (deeper["simulations"], deeper["reused"]) == (40, first["simulations"])
    game.play(deeper["action"])
    after = find(Limits(1, is_clocked=True))
    visits = next(x["visits"] for x in deeper["legal"] if x["action"] == deeper["action"])
    assert 0 < after["reused"] <= visits
    assert after["simulations"] >= after["reused"]


def test_only_allowed_moves_are_searched(thinking: tuple[RunningGame, Find]) -> None:
    game, find = thinking
    game.begin()
    everything = find(Limits(20))
    for allowed in ((1, 2), (0,)):
        found = find(Limits(20), allowed)
        # A tree with other moves is not continued.
        assert found["reused"] == 0
        assert [x["action"] for x in found["legal"]] == list(allowed)
        assert sum(x["visits"] for x in found["legal"]) == found["simulations"] == 20
        assert found["action"] in allowed
    assert find(Limits(20))["legal"] == everything["legal"]
    game.play(0)
    # The tree below an allowed move is restricted no more, but is not found from there.
    assert len(find(Limits(8), (0, 2))["legal"]) == 2


@pytest.mark.slow
def test_the_client_of_programs_plays_against_the_command() -> None:
    env = games.make("nim")
    command = f"{PROGRAM} gtp nim --variant alphazero --simulations 8"
    engine, game = GtpEngine(env, command, 600.0), RunningGame(env)
    try:
        while not game.is_over:
            action = engine.choose(game.actions, 0)
            assert action in game.legal(), action
            assert isinstance(action, int)
            game.play(action)
        # From here on, nobody has a move.
        assert engine.choose(game.actions, 0) == Failure("resigned", "the program resigned")
    finally:
        engine.close()


@pytest.mark.slow
def test_the_options_of_uci_are_those_of_the_command(capfd: Any, monkeypatch: Any) -> None:
    """The searches are made up, because those of chess take long to compile."""
    lines = ["uci", "isready", "position startpos moves b2b3", "go nodes 24"]
    monkeypatch.setattr(commands, "standard_events", lambda: Events(lines))
    game = RunningGame(games.make("gardner-chess"))
    monkeypatch.setattr(commands, "Thinker", lambda *arguments: FakeThinker(arguments[-1], game))
    assert main(["uci", "gardner-chess", "--max-simulations", "99", "--overhead", "0.02"]) == 0
    said = capfd.readouterr().out.splitlines()
    assert "option name Move Overhead type spin default 20 min 0 max 60000" in said
    assert "option name Simulations type spin default 16 min 1 max 99" in said
    assert said[-1] == "bestmove a4a3"
    assert " nodes 24 " in said[-2]


@pytest.mark.slow
def test_what_a_command_cannot_do_is_refused(capfd: Any) -> None:
    for command, words in {
        "gtp gardner-chess": "use dualmctx uci",
        "uci nim": "use dualmctx gtp",
        "gtp nim --simulations 9 --max-simulations 8": "9 simulations; it must have at most",
    }.items():
        assert words in refused(command.split(), capfd)


@pytest.mark.slow
def test_nothing_is_compiled_after_the_start() -> None:
    jax.clear_caches()  # Other tests play the same game.
    game = RunningGame(games.make("gardner_chess"))
    game.compile()
    assert game.actions == []
    with recorded_compilations() as events:
        game.play(game.read("b2b3"))
        game.begin()
        game.begin("rnbqk/ppppp/P4/1PPPP/RNBQK b - - 0 1")
        game.play(game.legal()[0])
        assert events == []
