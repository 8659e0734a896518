"""Answers to the messages that search: a move, or an analysis that deepens."""

import contextlib
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

from dualmctx.errors import UserError
from dualmctx.evaluation.requests import Analysis
from dualmctx.runs.saved_policy import with_simulations
from dualmctx.types import Environment, Policy
from dualmctx.web.analysis import choose_move, to_analysis
from dualmctx.web.engine import Engine
from dualmctx.web.engines import Network
from dualmctx.web.handlers import LOADING, load_network, loading_executor, open_moves
from dualmctx.web.positions import find_exact
from dualmctx.web.protocol import Message, Row
from dualmctx.web.session import PROGRESS_SECONDS, Session
from dualmctx.web.stream import Stream
from games import GamePosition

READING = "reading the search"
_REPORT_SECONDS = 0.125
_MOVE_PRIORITY = 1


class Running:
    """A search in progress; leaving its block ends it."""

    def __init__(self, session: Session, message: Message, engine: Engine) -> None:
        """Takes the message, of which the position and the search are used."""
        self._session, self._message, self._engine = session, message, engine
        self._stream, self._begin = Stream(), time.monotonic()
        self._name: str | None = None
        self._last: Row | None = None

    def start(self, analysis: Analysis, priority: int = 0) -> None:
        """Submits the search."""
        question, receive = self._message.question(), self._stream.receive
        self._name = self._engine.submit(question, analysis, receive, priority=priority)

    def stop(self) -> None:
        """Asks for the last row, with the result so far."""
        if self._name is None:
            return
        self._engine.cancel(self._name)
        if self._engine.stage is not None:
            # The engine answers only after the compilation, for which nobody should wait.
            self._stream.put({"cancelled": True} if self._last is None else self._last)

    async def next(self) -> Row:
        """Waits for a row, and sends progress while a search is compiled.

        Raises:
          ValueError: if the search failed.
        """
        while (row := await self._stream.next(PROGRESS_SECONDS)) is None:
            stage = self._engine.stage
            if stage is not None:
                await self._session.send_progress(self._message.id, stage.text, self._begin)
        self._last = {**row, "final": True}
        if row.get("final") is not False:
            self._name = None
        if "error" in row:
            raise UserError(row["error"])
        return row

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


async def answer_search(session: Session, message: Message) -> None:
    """Answers `search` with `searched`, or with `stopped` if there is no result yet."""
    network = await load_network(session, message)
    env = network.trained.env
    opened = await open_moves(session, message, network)
    if opened.is_over:
        raise UserError("the game is over, so there is no move to search; take back a move")
    engine = await _engine(session, message)
    with Running(session, message, engine) as running, session.stoppable(running.stop):
        running.start(Analysis(message.variant, message.simulations), _MOVE_PRIORITY)
        row = await running.next()
    if "legal" not in row:
        await session.send({"type": "stopped", "id": message.id})
        return
    policy = _policy(message, network)
    found = await session.call(message, READING, to_analysis, env, opened, row, policy)
    chosen = choose_move(found["moves"], row["action"], message.temperature, session.context.rng)
    head = {"type": "searched", "id": message.id}
    name = {"action": chosen["action"], "name": chosen["name"], "exact": None}
    await session.send(head | name | found)


async def answer_analyse(session: Session, message: Message) -> None:
    """Answers `analyse` with several `analysis`; replaces the analysis of the same page."""
    session.stop(lambda other: other.type == "analyse")
    network = await load_network(session, message)
    env, begin = network.trained.env, time.monotonic()
    opened = await open_moves(session, message, network)
    engine = await _engine(session, message)
    policy = _policy(message, network)
    analysis = Analysis(
        message.variant, message.simulations, report_every=_REPORT_SECONDS, is_maximum=True
    )
    with contextlib.ExitStack() as stack:
        running = stack.enter_context(Running(session, message, engine))
        stack.enter_context(session.stoppable(running.stop))
        running.start(analysis)
        known = stack.enter_context(_finding_exact(session, message, env, opened))
        is_last = False
        while not is_last:
            row = await running.next()
            is_last = row.get("final") is not False
            if "legal" not in row:
                await session.send({"type": "stopped", "id": message.id})
                return
            found = await session.call(message, READING, to_analysis, env, opened, row, policy)
            seconds = round(time.monotonic() - begin, 3)
            state = {"exact": known(), "final": is_last, "seconds": seconds}
            await session.send({"type": "analysis", "id": message.id} | found | state)


@contextlib.contextmanager
def _finding_exact(
    session: Session, message: Message, env: Environment, opened: GamePosition
) -> Iterator[Callable[[], Row | None]]:
    """Starts to find exact values; yields a function that returns them once they are known."""
    finding = session.start(message, session.context.slow, find_exact, env, opened)

    def known() -> Row | None:
        # A failure is reported by the message `exact`.
        return finding.result() if finding.done() and finding.exception() is None else None

    try:
        yield known
    finally:
        finding.cancel()


async def _engine(session: Session, message: Message) -> Engine:
    start = session.context.engines.engine
    executor = loading_executor(session, message)
    return await session.call(message, LOADING, start, message.checkpoint, executor=executor)


def _policy(message: Message, network: Network) -> Policy:
    """Returns the search of a message, with its simulations if there is one for each tree."""
    policy, numbers = network.build(message.variant), message.simulations
    return with_simulations(policy, numbers) if numbers and len(numbers) > 1 else policy
