"""Runs the application on a socket that listens already."""

import logging
import socket
import time
from collections.abc import Callable
from typing import Any

import h11
import uvicorn

from dualmctx.errors import UserError

MAX_FRAME_BYTES = 2**20
"""The largest message that is received; a longer one closes the connection with code 1009."""
MAX_SILENT_SECONDS = 10.0
"""The time after which a connection without a whole request is closed."""
_MAX_CONNECTIONS = 512


def listen(host: str, port: int) -> socket.socket:
    """Returns a socket that listens at an address; connections wait until `make_server` runs.

    Args:
      host: a name or an address.
      port: 0 for any free port.

    Raises:
      ValueError: if the address is in use or does not belong to this machine.
    """
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address, family=family, backlog=128)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(
            f"the server cannot listen at {host}, port {port}: {reason}; choose another --port "
            "(0 for any free one) or --host"
        ) from None


def make_server(app: Any, started: Callable[[], None] | None = None) -> uvicorn.Server:
    """Returns a server, whose method `run` takes the sockets.

    Args:
      app: the application.
      started: called in the thread of the server as soon as it answers.
    """
    config = uvicorn.Config(
        app,
        lifespan="off",
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        http="h11",
        ws="websockets-sansio",
        ws_max_size=MAX_FRAME_BYTES,
        ws_per_message_deflate=False,
        limit_concurrency=_MAX_CONNECTIONS,
        timeout_graceful_shutdown=1,
    )
    logging.getLogger("uvicorn.error").addFilter(is_of_server)
    return _Server(config, started)


def is_of_server(record: logging.LogRecord) -> bool:
    """Returns whether a record of uvicorn is about the server, and not about a client's bytes.

    A request that is no HTTP, or text that is no UTF-8, is answered and then forgotten: otherwise a
    client could fill the terminal with tracebacks.
    """
    error = record.exc_info[1] if record.exc_info else None
    is_text = isinstance(error, UnicodeDecodeError) and "received from client" in str(record.msg)
    return not (is_text or isinstance(error, h11.ProtocolError))


class _Server(uvicorn.Server):
    """A server that also closes connections without a whole request, as slow clients send it."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None] | None) -> None:
        super().__init__(config)
        self._call_when_started = started
        self._silent_since: dict[tuple[Any, Any], float] = {}

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._call_when_started is not None:
            self._call_when_started()

    async def on_tick(self, counter: int) -> bool:
        now = time.monotonic()
        # The type of the connections lacks their attributes.
        connections: set[Any] = set(self.server_state.connections)
        pairs = [(x, x.cycle) for x in connections if hasattr(x, "cycle")]
        # The `cycle` is the last request with its answer; sockets of pages have none.
        silent = [x for x in pairs if x[1] is None or x[1].response_complete]
        self._silent_since = {x: self._silent_since.get(x, now) for x in silent}
        for (connection, _), since in self._silent_since.items():
            if now - since > MAX_SILENT_SECONDS:
                connection.transport.close()
        return await super().on_tick(counter)
