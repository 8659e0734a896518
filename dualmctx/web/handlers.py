"""Answers to the messages of a page."""

import asyncio
import contextlib
import dataclasses
import datetime
import functools
import itertools
import re
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor

import games
from dualmctx.errors import UserError
from dualmctx.game_files.records import EXTENSIONS, check_record, read_records, write_record
from dualmctx.runs.saved_policy import with_simulations
from dualmctx.serving.engine import Engine
from dualmctx.serving.requests import Analysis
from dualmctx.serving.tasks import total_simulations
from dualmctx.types import Environment, Policy
from dualmctx.version import __version__
from dualmctx.web.descriptions import (
    choose_move,
    describe_analysis,
    describe_position,
    describe_trained,
    find_exact,
)
from dualmctx.web.networks import Counter, Network, Stopped
from dualmctx.web.protocol import MAX_MESSAGE_BYTES, MAX_MOVES, MAX_RECORDED, Message, Row
from dualmctx.web.session import PROGRESS_SECONDS, Handlers, Session
from games import GamePosition
from games.pictures import winning_side

LOADING, OPENING = "loading the network", "setting up the position"
SOLVING, READING = "solving the game", "reading the record"
_REPORT_SECONDS = 0.125
_MOVE_PRIORITY = 1
_RESULTS = {0: "1-0", 1: "0-1", None: "1/2-1/2"}


async def answer_hello(session: Session, message: Message) -> None:
    """Answers `hello` with `welcome`; needs no network."""
    context = session.context
    limits = {
        "simulations": context.max_simulations,
        "message_bytes": MAX_MESSAGE_BYTES,
        "moves": MAX_MOVES,
        "recorded_simulations": MAX_RECORDED,
    }
    about = {"version": __version__, "default": context.offered[0].name, "limits": limits}
    checkpoints = [offered.describe() for offered in context.offered]
    await session.answer(message, "welcome", about | {"checkpoints": checkpoints})


async def answer_open(session: Session, message: Message) -> None:
    """Answers `open` with `opened`; starts the compilation of the default search."""
    await start_engine(session, message)
    network = await load_network(session, message)
    session.checkpoint = message.checkpoint
    about = describe_trained(network.trained, network.build)
    await session.answer(message, "opened", {"checkpoint": message.checkpoint} | about)


async def answer_position(session: Session, message: Message) -> None:
    """Answers `position`."""
    network, opened = await open_moves(session, message)
    about = await session.call(message, OPENING, describe_position, network.trained.env, opened)
    await session.answer(message, "position", about)


async def answer_exact(session: Session, message: Message) -> None:
    """Answers `exact`; the value is null if it is unknown."""
    network, opened = await open_moves(session, message)
    env, slow = network.trained.env, session.context.slow
    found = await session.call(message, SOLVING, find_exact, env, opened, executor=slow)
    unknown = {"source": games.exact_source(env), "value": None, "moves": {}}
    await session.answer(message, "exact", found or unknown)


async def answer_read(session: Session, message: Message) -> None:
    """Answers `read` with `record`; the default network is the one that the page opened last."""
    checkpoint = message.checkpoint or session.checkpoint
    network = await load_network(session, dataclasses.replace(message, checkpoint=checkpoint))
    counter = Counter()
    read = functools.partial(read_first, network.trained.env, message.text, counter)
    record = await session.call(
        message, READING, read, executor=session.context.slow, counter=counter
    )
    await session.answer(message, "record", record)


async def answer_write(session: Session, message: Message) -> None:
    """Answers `write` with `written`, the content of a file."""
    network, opened = await open_moves(session, message)
    written = await session.call(message, OPENING, _write, network.trained.env, opened, message)
    await session.answer(message, "written", written)


async def start_engine(session: Session, message: Message) -> Engine:
    """Returns the engine of a message's network; raises the errors of `load_network`."""
    start, executor = session.context.engines.engine, loading_executor(session, message)
    return await session.call(message, LOADING, start, message.checkpoint, executor=executor)


async def load_network(session: Session, message: Message) -> Network:
    """Returns the network of a message; raises a UserError if it cannot be loaded."""
    load, executor = session.context.engines.network, loading_executor(session, message)
    return await session.call(message, LOADING, load, message.checkpoint, executor=executor)


def loading_executor(session: Session, message: Message) -> Executor:
    """Returns the executor for work with a network: `loading` until the network is ready."""
    context = session.context
    return context.quick if context.engines.is_ready(message.checkpoint) else context.loading


async def open_moves(session: Session, message: Message) -> tuple[Network, GamePosition]:
    """Returns the network and the position of a message; raises a UserError for a wrong one."""
    network = await load_network(session, message)
    env, moves = network.trained.env, message.moves
    opened = await session.call(message, OPENING, games.open_position, env, moves, message.fen)
    return network, opened


def read_first(env: Environment, text: str, counter: Counter) -> Row:
    """Returns the first game of a text, and the number of its games.

    The counter is asked after each game whether to go on.

    Raises:
      UserError: if the first game is invalid or too long.
      Stopped: if the work was stopped.
    """
    count, records = 0, read_records(env, text)
    first = next(records)
    for count, _ in enumerate(itertools.chain([first], records), start=1):
        counter(count, 0)
    if len(first.moves) > MAX_MOVES:
        raise UserError(f"the game has {len(first.moves):,} moves; it may have {MAX_MOVES:,}")
    record = check_record(env, first, 1, count)
    about = {"count": count, "fen": record.fen, "headers": record.about or {}}
    return {"moves": list(record.texts)} | about


def _write(env: Environment, opened: GamePosition, message: Message) -> Row:
    headers = {"date": datetime.date.today().isoformat()} | message.headers
    if opened.is_over and "result" not in headers:
        headers["result"] = _RESULTS[winning_side(opened.state, opened.first_player)]
    text = write_record(
        env, opened.actions, format=message.format, fen=message.fen, headers=headers
    )
    name = re.sub(r"[^A-Za-z0-9]+", "-", env.id).strip("-")
    return {"filename": f"{name}.{EXTENSIONS[message.format]}", "text": text}


class Running:
    """A search in progress. A page that reads slowly misses interim rows."""

    def __init__(self, session: Session, message: Message, engine: Engine) -> None:
        """Takes the message, of which the position and the id are used."""
        self._session, self._message, self._engine = session, message, engine
        self._loop, self._arrived = asyncio.get_running_loop(), asyncio.Event()
        self._begin = time.monotonic()
        self._name: str | None = None
        self._row: Row = {"cancelled": True}

    def start(self, analysis: Analysis, priority: int = 0) -> None:
        """Submits the search."""

        def receive(row: Row) -> None:  # in the thread of the engine
            self._loop.call_soon_threadsafe(self._put, row)

        question = self._message.question()
        self._name = self._engine.submit(question, analysis, receive, priority=priority)

    def _put(self, row: Row) -> None:
        self._row = row
        self._arrived.set()

    def stop(self) -> None:
        """Asks for the last row, with the result so far."""
        if self._name is None:
            return
        self._engine.cancel(self._name)
        if self._engine.stage is not None:
            # The engine answers only after the compilation, for which nobody should wait.
            self._put({**self._row, "final": True})

    async def next(self) -> Row:
        """Waits for a row, and sends progress while a search is compiled.

        Raises:
          UserError: if the search failed.
        """
        while not self._arrived.is_set():
            try:
                # `asyncio.wait_for` may lose a cancellation in Python 3.11.
                async with asyncio.timeout(PROGRESS_SECONDS):
                    await self._arrived.wait()
            except TimeoutError:
                stage = self._engine.stage
                if stage is not None:
                    await self._session.send_progress(self._message.id, stage, self._begin)
        self._arrived.clear()
        if self._row.get("final") is not False:
            self._name = None
        if "error" in self._row:
            raise UserError(self._row["error"])
        return self._row


@contextlib.asynccontextmanager
async def _run(
    session: Session, message: Message, analysis: Analysis, priority: int = 0
) -> AsyncIterator[Running]:
    """Runs a search until the end of the block; a `stop` then asks for its last row."""
    running = Running(session, message, await start_engine(session, message))
    with session.stoppable(running.stop):
        running.start(analysis, priority)
        try:
            yield running
        finally:
            running.stop()


async def answer_search(session: Session, message: Message) -> None:
    """Answers `search` with `searched`, or with `stopped` if there is no result yet."""
    network, opened = await open_moves(session, message)
    if opened.is_over:
        raise UserError("the game is over, so there is no move to search; take back a move")
    analysis = Analysis(message.variant, message.simulations)
    async with _run(session, message, analysis, _MOVE_PRIORITY) as running:
        row = await running.next()
    found = await _describe(session, message, network, opened, row)
    if found is None:
        return
    chosen = choose_move(found["moves"], row["action"], message.temperature, session.context.rng)
    move = {name: chosen[name] for name in ("action", "name")}
    await session.answer(message, "searched", move | found)


async def answer_analyse(session: Session, message: Message) -> None:
    """Answers `analyse` with several `analysis`; replaces the analysis of the same page."""
    session.stop(lambda other: other.type == "analyse")
    begin = time.monotonic()
    network, opened = await open_moves(session, message)
    analysis = Analysis(
        message.variant, message.simulations, report_every=_REPORT_SECONDS, is_maximum=True
    )
    async with _run(session, message, analysis) as running:
        is_last = False
        while not is_last:
            row = await running.next()
            is_last = row.get("final") is not False
            found = await _describe(session, message, network, opened, row)
            if found is None:
                return
            state = {"final": is_last, "seconds": round(time.monotonic() - begin, 3)}
            await session.answer(message, "analysis", found | state)


async def _describe(
    session: Session, message: Message, network: Network, opened: GamePosition, row: Row
) -> Row | None:
    """Returns the fields of an analysis; sends `stopped` and returns `None` without a result."""
    if "legal" not in row:
        await session.answer(message, "stopped")
        return None
    policy, numbers = network.build(message.variant), message.simulations
    if numbers and len(numbers) > 1:
        policy = with_simulations(policy, numbers)
    arguments = network.trained.env, opened, row, policy
    return await session.call(message, "reading the search", describe_analysis, *arguments)


async def answer_review(session: Session, message: Message) -> None:
    """Answers `review` with `reviewed`; replaces the review of the same page."""
    session.stop(lambda other: other.type == "review")
    network = await load_network(session, message)
    policy = _limited_policy(session, message, network)

    def review(counter: Counter) -> Row:
        rows = network.review(message, policy, counter)
        return {"type": "reviewed", "id": message.id, "positions": rows}

    await _answer_long(session, message, "evaluating the positions", review)


async def answer_record_search(session: Session, message: Message) -> None:
    """Answers `record_search` with `recording`; replaces the recording of the same page."""
    session.stop(lambda other: other.type == "record_search")
    network, opened = await open_moves(session, message)
    policy = _limited_policy(session, message, network)
    network.check_recorded(policy, compare=message.compare)

    def record(counter: Counter) -> Row:
        recording = network.record(opened, message, policy, counter)
        return {"type": "recording", "id": message.id, "recording": recording}

    await _answer_long(session, message, "recording the search", record)


def _limited_policy(session: Session, message: Message, network: Network) -> Policy:
    """Returns the search of a message; raises a UserError if it has too many simulations."""
    policy, numbers = network.build(message.variant), message.simulations
    if numbers is not None:
        policy = with_simulations(policy, numbers)
    number, limit = total_simulations(policy), session.context.max_simulations
    if number > limit:
        raise UserError(
            f"simulations is {number}; it must be at most {limit}, unless the server is started"
            " with a larger --max-simulations"
        )
    return policy


async def _answer_long(
    session: Session, message: Message, stage: str, work: Callable[[Counter], Row]
) -> None:
    """Does long work in a thread, and sends its answer, or `stopped`."""
    counter, slow = Counter(), session.context.slow
    with session.stoppable(counter.stop):
        try:
            row = await session.call(message, stage, work, counter, executor=slow, counter=counter)
        except Stopped:
            await session.answer(message, "stopped")
            return
    await session.send_large(message, row)


HANDLERS: Handlers = {
    "hello": answer_hello,
    "open": answer_open,
    "position": answer_position,
    "search": answer_search,
    "analyse": answer_analyse,
    "exact": answer_exact,
    "review": answer_review,
    "record_search": answer_record_search,
    "read": answer_read,
    "write": answer_write,
}
"""The functions that answer messages; `stop` is answered by the session."""
