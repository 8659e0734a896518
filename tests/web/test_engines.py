"""Engines end, fail and make room without losing a request; moves are chosen or sampled."""

import asyncio
import queue
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dualmctx.game_files.questions import Question
from dualmctx.policies import AlphaZero
from dualmctx.serving.engine import Engine, EngineOptions
from dualmctx.serving.requests import Analysis
from dualmctx.web.descriptions import choose_move
from dualmctx.web.handlers import Running
from dualmctx.web.networks import Engines
from dualmctx.web.protocol import Message
from fake_network import FakeEngine
from untrained import make_untrained

CHEAP = Analysis("alphazero", (3,))


class FailingEngine(FakeEngine):
    """Its searches cannot be compiled twice, then they can."""

    failures = 2

    def _load(self, program: Any) -> Any:
        self.failures -= 1
        if self.failures >= 0:
            raise RuntimeError("the device is gone\nand more")
        return super()._load(program)


def ask(engine: Engine) -> Any:
    rows: queue.SimpleQueue[Any] = queue.SimpleQueue()
    engine.submit(Question(0, 0), CHEAP, rows.put)
    return rows.get(timeout=60)


def test_engine_goes_on_after_a_failure():
    engine = FailingEngine(make_untrained("hsr"), lambda _: AlphaZero(3), EngineOptions())
    try:
        found = [ask(engine) for _ in range(3)]
        assert "the search failed: the device is gone" in str(found[0].get("error"))
        assert found[-1]["simulations"] == 3
        assert engine.is_idle
    finally:
        engine.close()
    assert engine.join(60)
    assert "was unloaded" in ask(engine)["error"]


def test_stop_does_not_wait_for_a_compilation():
    cancelled: list[str] = []
    engine: Any = SimpleNamespace(
        stage="compiling the search",
        submit=lambda *_, priority: f"request-{priority}",
        cancel=cancelled.append,
    )

    async def stop_and_wait() -> Any:
        session: Any = None
        running = Running(session, Message("search", checkpoint="hsr"), engine)
        running.start(CHEAP)
        running.stop()
        return await asyncio.wait_for(running.next(), 60)

    assert asyncio.run(stop_and_wait()) == {"cancelled": True, "final": True}
    assert cancelled == ["request-0"]


def make_engines(closed: list[str]) -> Engines:
    """Returns networks a to d, whose engines are busy; closed ones are added to the list."""

    def load(name: str) -> Any:
        engine = SimpleNamespace(is_idle=False, last_used=0, close=lambda: closed.append(name))
        engine.join = lambda seconds: True
        return lambda: SimpleNamespace(start_engine=lambda options: engine)

    return Engines({name: load(name) for name in "abcd"}, EngineOptions(), 2)


def test_idle_network_makes_room():
    closed: list[str] = []
    kept = make_engines(closed)
    first, second = (kept.engine(name) for name in "ab")
    assert kept.engine("a") is first
    with pytest.raises(ValueError, match="2 networks are searching"):
        kept.engine("c")
    for engine, time in ((first, 100), (second, 99)):
        vars(engine).update(is_idle=True, last_used=time)
    kept.engine("c")
    assert closed == ["b"]
    with pytest.raises(ValueError, match="it must be one of a, b, c, d"):
        kept.engine("x")


def test_no_engine_starts_after_the_end():
    closed: list[str] = []
    ended = make_engines(closed)
    ended.engine("a")
    assert ended.close(1.0)
    assert closed == ["a"]
    with pytest.raises(ValueError, match="the server is ending"):
        ended.engine("b")


MOVES = [{"action": 3, "weight": 0.2}, {"action": 5, "weight": 0.8}, {"action": 9, "weight": 0.0}]


def test_temperature_is_the_exponent_of_the_weights():
    rng = np.random.default_rng(0)
    assert {choose_move(MOVES, 3, 0, rng)["action"] for _ in range(9)} == {3}
    for temperature, expected in ((0.5, 16 / 17), (1e-3, 1.0), (10.0, 0.535)):
        found = [choose_move(MOVES, 3, temperature, rng)["action"] for _ in range(2000)]
        assert found.count(5) / 2000 == pytest.approx(expected, abs=0.04)
        assert 9 not in found
    # Moves without weights are not sampled.
    moves = [{"action": 1, "weight": None}, {"action": 2, "weight": 0.0}]
    assert choose_move(moves, 2, 1.0, rng)["action"] == 2
