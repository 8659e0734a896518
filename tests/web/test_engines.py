"""Engines end, fail and make room without losing a request."""

import asyncio
import queue
from typing import Any, ClassVar

import numpy as np
import pytest

import games
from dualmctx.commands.search_spec import build_search
from dualmctx.evaluation import compiled_searches
from dualmctx.evaluation.questions import Question
from dualmctx.evaluation.requests import Analysis
from dualmctx.web import engines
from dualmctx.web.analysis import choose_move
from dualmctx.web.counter import Counter, Stopped
from dualmctx.web.engine import Engine, EngineOptions, Stage
from dualmctx.web.positions import open_position
from dualmctx.web.protocol import Message
from dualmctx.web.searches import Running
from untrained import make_untrained

CHEAP = Analysis("alphazero", (3,))


def make_engine() -> Engine:
    trained = make_untrained("hsr")

    def build(variant: str | None) -> Any:
        return build_search(trained.record, variant or "alphazero", None).for_evaluation()

    return Engine(trained, build, EngineOptions(batch_size=1))


def ask(engine: Engine, analysis: Analysis = CHEAP) -> Any:
    rows: queue.SimpleQueue[Any] = queue.SimpleQueue()
    engine.submit(Question(0, 0), analysis, rows.put)
    return rows.get(timeout=60)


class FakeSearch:
    """A compiled search, which is done after one step."""

    num_kept = 0

    def step(self, tasks: list[Any]) -> None:
        for task in tasks:
            identity = task.request.question.id
            task.simulations, task.result = task.target, lambda identity=identity: {"id": identity}

    def finish(self, task: Any) -> None:
        pass


def test_engine_goes_on_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    failures = [RuntimeError("the device is gone\nand more")] * 2

    def load(loader: Any, program: Any) -> Any:
        del loader, program
        if failures:
            raise failures.pop()
        return FakeSearch()

    monkeypatch.setattr(compiled_searches.SearchLoader, "load", load)
    engine = make_engine()
    try:
        found = [ask(engine) for _ in range(3)]
        assert "the search failed: the device is gone" in str(found[0].get("error"))
        assert found[-1]["simulations"] == 3
        assert engine.is_idle
    finally:
        engine.close()
    assert engine.join(60)
    assert "was unloaded" in ask(engine)["error"]


class CompilingEngine:
    """An engine that compiles a search and answers only afterwards."""

    stage = Stage("compiling the search", 0.0)

    def __init__(self) -> None:
        self.cancelled: list[str] = []

    def submit(self, question: Any, analysis: Any, receive: Any, *, priority: int = 0) -> str:
        del question, analysis, receive, priority
        return "request-1"

    def cancel(self, name: str) -> None:
        self.cancelled.append(name)


def test_stop_does_not_wait_for_a_compilation() -> None:
    engine: Any = CompilingEngine()

    async def stop_and_wait() -> Any:
        session: Any = None
        with Running(session, Message("search", checkpoint="hsr"), engine) as running:
            running.start(CHEAP)
            running.stop()
            async with asyncio.timeout(10):
                return await running.next()

    assert asyncio.run(stop_and_wait()) == {"cancelled": True}
    assert engine.cancelled == ["request-1"]


class FakeEngine:
    """An engine that is idle if its name is in a set."""

    idle: ClassVar[set[str]] = set()
    closed: ClassVar[list[str]] = []
    number = 0

    def __init__(self, trained: Any, build: Any, options: Any) -> None:
        del build, options
        self.name, self.last_used = trained, FakeEngine.number
        FakeEngine.number += 1

    @property
    def is_idle(self) -> bool:
        return self.name in FakeEngine.idle

    def close(self) -> None:
        FakeEngine.closed.append(self.name)


class FakeNetwork:
    def __init__(self, name: str) -> None:
        self.trained, self.build = name, None


def test_idle_network_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "Engine", FakeEngine)
    load: Any = {name: lambda name=name: FakeNetwork(name) for name in "abcd"}
    kept = engines.Engines(load, EngineOptions(), 2)
    first = kept.engine("a")
    assert kept.engine("a") is first
    kept.engine("b")
    with pytest.raises(ValueError, match="2 networks are searching"):
        kept.engine("c")
    FakeEngine.idle = {"a", "b"}
    first.last_used = 100
    kept.engine("c")
    assert FakeEngine.closed == ["b"]
    with pytest.raises(ValueError, match="it must be one of a, b, c, d"):
        kept.engine("x")


MOVES = [{"action": 3, "weight": 0.2}, {"action": 5, "weight": 0.8}, {"action": 9, "weight": 0.0}]


def test_move_without_temperature_is_that_of_the_search() -> None:
    rng = np.random.default_rng(0)
    assert {choose_move(MOVES, 3, 0, rng)["action"] for _ in range(9)} == {3}


def test_temperature_is_the_exponent_of_the_weights() -> None:
    rng = np.random.default_rng(0)
    for temperature, expected in ((1.0, 0.8), (0.5, 16 / 17), (1e-3, 1.0), (10.0, 0.535)):
        found = [choose_move(MOVES, 3, temperature, rng)["action"] for _ in range(4000)]
        assert found.count(5) / 4000 == pytest.approx(expected, abs=0.03)
        assert 9 not in found


def test_moves_without_weights_are_not_sampled() -> None:
    moves = [{"action": 1, "weight": None}, {"action": 2, "weight": 0.0}]
    assert choose_move(moves, 2, 1.0, np.random.default_rng(0))["action"] == 2


def test_counter_stops_work() -> None:
    counter = Counter()
    assert counter.fields() == {}
    counter(1, 4)
    assert counter.fields() == {"done": 1, "total": 4}
    counter.stop()
    with pytest.raises(Stopped):
        counter(2, 4)


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 1, 64, 65, 150])
def test_long_games_are_replayed(number: int) -> None:
    moves = [x for i in range(75) for x in (i, 81)][:number]
    opened = open_position(games.make("go_9x9"), Question(0, 0, moves))
    assert int(opened.state._step_count) == number
    assert int(opened.before._step_count) == max(0, number - 1)


def test_side_is_that_of_the_player_in_a_game_of_the_user() -> None:
    """A player who leaves a multiple of three stones moves again."""
    env = games.make("double_move:DoubleMoveNim", pile=7)
    sides = [open_position(env, Question(0, 0, [0, 0, 0][:n])).side for n in range(4)]
    assert sides == [0, 0, 1, 0]


def test_no_engine_starts_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "Engine", FakeEngine)
    load: Any = {"a": lambda: FakeNetwork("a")}
    closed = engines.Engines(load, EngineOptions(), 2)
    assert closed.close(1.0)
    with pytest.raises(ValueError, match="the server is ending"):
        closed.engine("a")
