"""One page does not keep the threads from another one; events stand for slow work."""

import asyncio
import contextlib
import functools
import itertools
import json
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest

pytest.importorskip("starlette")

import games
from dualmctx.web.handlers import loading_executor, read_first
from dualmctx.web.networks import Counter, Stopped
from dualmctx.web.protocol import Message
from dualmctx.web.session import WAITING, Session

LAST = 60
IDS = itertools.count()


class Work:
    """Slow work: it begins, and goes on until it is allowed to end."""

    def __init__(self) -> None:
        self.begun, self.may_end = threading.Event(), threading.Event()

    def __call__(self) -> str:
        self.begun.set()
        assert self.may_end.wait(LAST)
        return "done"


@contextlib.asynccontextmanager
async def make_sessions(number: int) -> AsyncIterator[list[Session]]:
    """Yields sessions with the executors of a server."""
    names = ("quick", "loading", "slow")
    executors = {name: ThreadPoolExecutor(2, name) for name in names}
    context: Any = SimpleNamespace(offered=(SimpleNamespace(name="hsr"),), **executors)
    try:
        yield [Session(AsyncMock(), context, {}) for _ in range(number)]
    finally:
        for executor in executors.values():
            executor.shutdown(wait=True, cancel_futures=True)


def call(session: Session, pool: str, work: Callable[[], Any], **options: Any) -> Any:
    executor = getattr(session.context, pool)
    message = Message("read", id=next(IDS), text="")
    return asyncio.create_task(session.call(message, "working", work, executor=executor, **options))


def in_loop(test: Callable[..., Any]) -> Callable[..., None]:
    """Runs a test in an event loop of its own."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


async def wait(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, LAST)


@pytest.mark.parametrize("pool", ["slow", "loading"])
@in_loop
async def test_a_page_with_much_work_leaves_threads_to_others_and_to_quick_work(pool):
    async with make_sessions(2) as (busy, other):
        works = [Work() for _ in range(8)]
        tasks = [call(busy, pool, work) for work in works]
        await wait(works[0].begun)
        # The second thread is free, whatever the busy page still has to do.
        assert await call(other, pool, lambda: "other") == "other"
        assert await call(busy, "quick", lambda: 1) == 1
        assert [work.begun.is_set() for work in works] == [True] + [False] * 7
        for work in works:
            work.may_end.set()
        assert await asyncio.gather(*tasks) == ["done"] * 8


@in_loop
async def test_stopped_work_keeps_its_turn_and_waiting_work_never_begins():
    """The turn ends when the thread is free; a failure gives it back too."""
    async with make_sessions(1) as (session,):
        first, second, third = Work(), Work(), Work()
        tasks = [call(session, "slow", work) for work in (first, second, third)]
        await wait(first.begun)
        for task in tasks[:2]:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert not third.begun.is_set()
        for work in (first, third):
            work.may_end.set()
        assert await tasks[2] == "done"
        assert not second.begun.is_set()
        with pytest.raises(ZeroDivisionError):
            await call(session, "slow", lambda: 1 // 0)
        assert await call(session, "slow", lambda: 1) == 1


@in_loop
async def test_progress_says_that_work_waits(monkeypatch):
    monkeypatch.setattr("dualmctx.web.session.PROGRESS_SECONDS", 0.001)
    async with make_sessions(1) as (session,):
        first, second = Work(), Work()
        tasks = [call(session, "slow", first)]
        await wait(first.begun)
        tasks.append(call(session, "slow", second))
        socket: Any = session._socket
        while not any(WAITING in str(call) for call in socket.send_text.mock_calls):
            await asyncio.sleep(0)
        first.may_end.set()
        second.may_end.set()
        await asyncio.gather(*tasks)
        # The first work had a thread, so only the second one waited.
        rows = [json.loads(call.args[0]) for call in socket.send_text.mock_calls]
        waiting = {row["id"] for row in rows if row["stage"] == WAITING}
        assert len({row["id"] for row in rows}) == 2
        assert waiting == {max(row["id"] for row in rows)}


@in_loop
async def test_stop_ends_work_between_its_pieces():
    """The answer ends at once, and the thread at the next piece."""
    counter, begun, ended = Counter(), threading.Event(), threading.Event()
    assert counter.fields() == {}

    def count() -> None:
        try:
            for done in itertools.count():
                counter(done, 4)
                begun.set()
        finally:
            ended.set()

    async with make_sessions(1) as (session,):
        task = call(session, "slow", count, counter=counter)
        await wait(begun)
        assert counter.fields()["total"] == 4
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await wait(ended)


def test_reading_a_record_stops_between_games():
    counter = Counter()
    counter.stop()
    with pytest.raises(Stopped):
        read_first(games.make("go_9x9"), "(;GM[1]SZ[9];B[ee])" * 10, counter)
    assert counter._done == 1


def test_long_games_are_refused_before_their_moves_are_checked(monkeypatch):
    def fail(*_: Any) -> None:
        raise AssertionError("the moves are checked")

    monkeypatch.setattr("dualmctx.web.handlers.check_record", fail)
    text = "(;GM[1]SZ[9]" + ";B[aa];W[bb]" * 501 + ")"
    with pytest.raises(ValueError, match=r"the game has 1,002 moves; it may have 1,000"):
        read_first(games.make("go_9x9"), text, Counter())


def test_only_networks_that_are_ready_take_quick_threads():
    message = Message("open", checkpoint="hsr")
    for is_ready, expected in ((True, "quick"), (False, "loading")):
        engines = SimpleNamespace(is_ready=lambda name, is_ready=is_ready: is_ready)
        context = SimpleNamespace(engines=engines, quick="quick", loading="loading")
        session: Any = SimpleNamespace(context=context)
        assert loading_executor(session, message) == expected  # type: ignore[comparison-overlap]
