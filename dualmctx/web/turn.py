"""The turn of a page: one task at a time in an executor, so that other pages find a free thread."""

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

from dualmctx.web.protocol import Message

X = TypeVar("X")


class Turn:
    """The right of a page to have a task in an executor: one at a time.

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
