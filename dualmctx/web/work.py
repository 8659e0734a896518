"""The tools of a session: counted work, and the turn of a page."""

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

from dualmctx.web.protocol import Message, Row

X = TypeVar("X")


class Stopped(Exception):
    """Ends work that was stopped."""


class Counter:
    """The progress of work in another thread."""

    def __init__(self) -> None:
        self._done, self._total, self._is_stopped = 0, 0, False

    def __call__(self, done: int, total: int) -> None:
        """Says that `done` of `total` parts are done; 0 for a total that is not known.

        Raises:
          Stopped: if the work is to end.
        """
        self._done, self._total = done, total
        if self._is_stopped:
            raise Stopped

    def stop(self) -> None:
        """Ends the work at its next call."""
        self._is_stopped = True

    def fields(self) -> Row:
        """Returns the fields of a message `progress`; none without a total."""
        return {"done": self._done, "total": self._total} if self._total else {}


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
