"""The rows of a request, from the thread of an engine to the event loop."""

import asyncio

from dualmctx.evaluation.answers import Row


class Stream:
    """Holds the newest row of a request; a page that reads slowly misses interim rows."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._row: Row | None = None
        self._arrived = asyncio.Event()

    def receive(self, row: Row) -> None:
        """Takes a row; may be called from any thread.

        Raises:
          RuntimeError: if the event loop is closed.
        """
        self._loop.call_soon_threadsafe(self.put, row)

    def put(self, row: Row) -> None:
        """Takes a row in the thread of the event loop."""
        self._row = row
        self._arrived.set()

    async def next(self, seconds: float) -> Row | None:
        """Waits for a row that was not returned yet; returns `None` after some seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._arrived.wait()
        except TimeoutError:
            return None
        self._arrived.clear()
        return self._row
