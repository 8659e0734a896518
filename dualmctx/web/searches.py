"""Answers to the messages that search: a move, or an analysis that deepens."""

import time
from types import TracebackType
from typing import Self

from dualmctx.evaluation.requests import Analysis
from dualmctx.web.analysis import choose_move, to_analysis
from dualmctx.web.checkpoints import variant_name
from dualmctx.web.engine import Engine
from dualmctx.web.engines import Network
from dualmctx.web.handlers import LOADING, load_network, open_moves
from dualmctx.web.protocol import Message, Row
from dualmctx.web.session import PROGRESS_SECONDS, Session
from dualmctx.web.stream import Stream

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

    def start(self, analysis: Analysis, priority: int = 0) -> None:
        """Submits the search."""
        question, receive = self._message.question(), self._stream.receive
        self._name = self._engine.submit(question, analysis, receive, priority=priority)

    def stop(self) -> None:
        """Asks for the last row, with the result so far."""
        if self._name is not None:
            self._engine.cancel(self._name)

    async def next(self) -> Row:
        """Waits for a row, and sends progress while a search is compiled.

        Raises:
          ValueError: if the search failed.
        """
        while (row := await self._stream.next(PROGRESS_SECONDS)) is None:
            stage = self._engine.stage
            if stage is not None:
                await self._session.send_progress(self._message.id, stage.text, self._begin)
        if row.get("final") is not False:
            self._name = None
        if "error" in row:
            raise ValueError(row["error"])
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
        raise ValueError("the game is over, so there is no move to search; take back a move")
    engine = await _engine(session, message)
    with Running(session, message, engine) as running, session.stoppable(message, running.stop):
        running.start(Analysis(message.variant, message.simulations), _MOVE_PRIORITY)
        row = await running.next()
    if "legal" not in row:
        await session.send({"type": "stopped", "id": message.id})
        return
    variant = _variant(message, network)
    found = await session.call(message, READING, to_analysis, env, opened, row, variant)
    chosen = choose_move(found["moves"], row["action"], message.temperature, session.context.rng)
    head = {"type": "searched", "id": message.id}
    await session.send(head | {"action": chosen["action"], "name": chosen["name"]} | found)


async def answer_analyse(session: Session, message: Message) -> None:
    """Answers `analyse` with several `analysis`; replaces the analysis of the same page."""
    session.stop(lambda other: other.type == "analyse")
    network = await load_network(session, message)
    env, begin = network.trained.env, time.monotonic()
    opened = await open_moves(session, message, network)
    engine = await _engine(session, message)
    variant = _variant(message, network)
    analysis = Analysis(message.variant, message.simulations, report_every=_REPORT_SECONDS)
    with Running(session, message, engine) as running, session.stoppable(message, running.stop):
        running.start(analysis)
        is_last = False
        while not is_last:
            row = await running.next()
            is_last = row.get("final") is not False
            if "legal" not in row:
                await session.send({"type": "stopped", "id": message.id})
                return
            found = await session.call(message, READING, to_analysis, env, opened, row, variant)
            state = {"final": is_last, "seconds": round(time.monotonic() - begin, 3)}
            await session.send({"type": "analysis", "id": message.id} | found | state)


async def _engine(session: Session, message: Message) -> Engine:
    return await session.call(message, LOADING, session.context.engines.engine, message.checkpoint)


def _variant(message: Message, network: Network) -> str:
    return message.variant or variant_name(network.build(None))
