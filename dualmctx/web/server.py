"""Runs the application on a socket that listens already."""

import socket
import time
from collections.abc import Callable
from typing import Any

import uvicorn

from dualmctx.errors import UserError
from dualmctx.web.limits import MAX_FRAME_BYTES, MAX_SILENT_SECONDS

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
        ws="websockets-sansio",
        ws_max_size=MAX_FRAME_BYTES,
        ws_per_message_deflate=False,
        limit_concurrency=_MAX_CONNECTIONS,
        timeout_graceful_shutdown=1,
    )
    return _Server(config, started)


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
