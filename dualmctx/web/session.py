"""A connection of a page: reads its messages, and answers each of them in a task of its own."""

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from typing import Any, NamedTuple, TypeVar

import numpy as np
from starlette.websockets import WebSocket, WebSocketDisconnect

from dualmctx.errors import UserError
from dualmctx.training.divergence import FAILURES, first_line
from dualmctx.web.descriptions import Offered
from dualmctx.web.networks import Counter, Engines
from dualmctx.web.protocol import Id, Message, Refusal, Row, error, read_message, to_json

X = TypeVar("X")
MAX_TASKS = 16
"""The largest number of messages of a connection that are being answered."""
WAITING = "waiting for other work of this page"
"""The stage of a task that waits for its turn."""
PROGRESS_SECONDS = 0.5
"""The time between two messages about the progress of one answer."""
_NONE: Mapping[str, Any] = {}
_LOGGER = logging.getLogger(__name__)


class Context(NamedTuple):
    """The objects that the sessions of a server share.

    Attributes:
      engines: the networks and their searches.
      offered: the networks that a page may open, the default one first.
      max_simulations: the largest number of simulations of a position.
      max_sessions: the largest number of open connections.
      quick: runs tasks of milliseconds, such as opening a position.
      loading: loads networks and compiles their programs for positions.
      slow: runs tasks of seconds, such as reviews.
      rng: the random numbers of moves that are sampled.
    """

    engines: Engines
    offered: tuple[Offered, ...]
    max_simulations: int
    max_sessions: int
    quick: Executor
    loading: Executor
    slow: Executor
    rng: np.random.Generator


class Turn:
    """The right of a page to have a task in an executor: one, so that other pages find a thread.

    Attributes:
      holder: the message whose task has the turn, until its thread is free again; `None` if free.
    """

    def __init__(self) -> None:
        self.holder: Message | None = None
        self._lock = asyncio.Lock()

    async def run(self, message: Message, executor: Executor, call: Callable[[], X]) -> X:
        """Runs a function in the executor after the earlier tasks of the page.

        A task that is cancelled while it runs keeps the turn until its function returns.
        """
        loop = asyncio.get_running_loop()
        await self._lock.acquire()
        self.holder = message

        def release(done: object) -> None:
            # The event loop may have been closed meanwhile.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._release)

        try:
            future = executor.submit(call)
        except RuntimeError:  # the server is ending
            self._release()
            raise
        future.add_done_callback(release)
        return await asyncio.wrap_future(future)

    def _release(self) -> None:
        self.holder = None
        self._lock.release()


class Session:
    """A connection.

    Attributes:
      context: the objects that all sessions share.
      checkpoint: the network that the page opened last.
    """

    def __init__(self, socket: WebSocket, context: Context, handlers: "Handlers") -> None:
        """Takes an accepted connection, and the functions that answer messages by type."""
        self.context, self.checkpoint = context, context.offered[0].name
        self._socket, self._handlers = socket, handlers
        self._tasks: dict[asyncio.Task[None], Message] = {}
        self._stoppers: dict[asyncio.Task[Any] | None, Callable[[], None]] = {}
        self._sending = asyncio.Lock()
        self._turns = {x: Turn() for x in (context.loading, context.slow)}
        self._is_closed = False

    async def run(self) -> None:
        """Answers messages until the connection is closed; then ends all that still runs."""
        try:
            while True:
                received = await self._socket.receive()
                if received["type"] == "websocket.disconnect":
                    return
                data = received.get("text")
                await self._take(read_message(received["bytes"] if data is None else data))
        finally:
            self._is_closed = True
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _take(self, message: Message | Refusal) -> None:
        if isinstance(message, Refusal):
            await self.send(error(message.id, message.reason))
        elif message.type == "stop":
            self.stop(lambda other: str(other.id) == str(message.target))
            await self.answer(message, "stopped", {"target": message.target})
        elif len(self._tasks) >= MAX_TASKS:
            reason = f"{MAX_TASKS} messages are being answered; wait for an answer or send a stop"
            await self.send(error(message.id, reason))
        else:
            task = asyncio.create_task(self._answer(message))
            self._tasks[task] = message
            task.add_done_callback(self._tasks.pop)
            # It begins before the next message is read, which it would replace otherwise.
            await asyncio.sleep(0)

    async def _answer(self, message: Message) -> None:
        """Answers a message; a failure is an answer too."""
        try:
            await self._handlers[message.type](self, message)
        except asyncio.CancelledError:
            if self._is_closed:
                raise
            await self.answer(message, "stopped")
        except (UserError, *FAILURES) as failure:
            await self.send(error(message.id, first_line(failure)))
        except Exception as failure:
            _LOGGER.exception("a message of type %s failed", message.type)
            reason = f"the server failed: {failure!r}; the terminal shows where"
            await self.send(error(message.id, reason))

    async def answer(self, message: Message, type: str, fields: Mapping[str, Any] = _NONE) -> None:
        """Sends an answer to a message."""
        await self.send({"type": type, "id": message.id, **fields})

    async def send(self, row: Row) -> None:
        """Sends an answer; does nothing if the connection is closed."""
        await self._send_text(to_json(row))

    async def _send_text(self, text: str) -> None:
        async with self._sending:
            with contextlib.suppress(RuntimeError, WebSocketDisconnect):
                await self._socket.send_text(text)

    async def send_large(self, message: Message, row: Row) -> None:
        """Sends an answer that takes long to write as text."""
        text = await self.call(message, "sending the answer", to_json, row)
        await self._send_text(text)

    async def send_progress(self, identity: Id, stage: str, begin: float, **fields: Any) -> None:
        """Sends the stage of a task and the seconds since `begin`, a time of `time.monotonic`."""
        seconds = round(time.monotonic() - begin, 1)
        row: Row = {"type": "progress", "id": identity, "stage": stage, "seconds": seconds}
        await self.send(row | fields)

    async def call(
        self,
        message: Message,
        stage: str,
        function: Callable[..., X],
        *arguments: Any,
        executor: Executor | None = None,
        counter: Counter | None = None,
    ) -> X:
        """Calls a function in another thread; sends progress while it takes long.

        A page has one task at a time in `loading` and one in `slow`; further ones wait for it.

        Args:
          message: the message that is answered.
          stage: a description of the work, for progress.
          function: the function.
          *arguments: its arguments.
          executor: runs the function; by default `quick`.
          counter: counts the work, if it can be counted, and stops it with the answer.
        """
        executor = executor or self.context.quick
        begin, turn = time.monotonic(), self._turns.get(executor)
        call = functools.partial(function, *arguments)
        if turn is None:
            running = asyncio.get_running_loop().run_in_executor(executor, call)
        else:
            running = asyncio.ensure_future(turn.run(message, executor, call))
        # If the page is gone, nobody asks for the exception.
        running.add_done_callback(lambda future: future.cancelled() or future.exception())
        try:
            while not (await asyncio.wait([running], timeout=PROGRESS_SECONDS))[0]:
                fields = {} if counter is None else counter.fields()
                is_waiting = turn is not None and turn.holder is not message
                await self.send_progress(
                    message.id, WAITING if is_waiting else stage, begin, **fields
                )
        finally:
            running.cancel()
            if counter is not None:
                counter.stop()
        return running.result()

    @contextlib.contextmanager
    def stoppable(self, stop: Callable[[], None]) -> Iterator[None]:
        """Until the end of the block, a `stop` calls a function and does not end the answer."""
        task = asyncio.current_task()
        self._stoppers[task] = stop
        try:
            yield
        finally:
            del self._stoppers[task]

    def stop(self, matches: Callable[[Message], bool]) -> None:
        """Stops the answers to some of the messages, except the one that calls this."""
        for task, message in list(self._tasks.items()):
            if task is not asyncio.current_task() and matches(message):
                self._stoppers.get(task, task.cancel)()


Handlers = dict[str, Callable[[Session, Message], Any]]
"""For each type of messages, the coroutine function that answers a message."""
