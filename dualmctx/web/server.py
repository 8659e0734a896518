"""The server: who may use it, the application, and how it runs on a socket that listens already.

A page of another site can send requests to a server on this machine. Its browser names that site
in the header Origin, which is refused. If the site's own name leads to this machine (DNS
rebinding), the header Host has that name, which is refused as well. On other machines than this
one, only those who know the token are let in.
"""

import hmac
import ipaddress
import logging
import mimetypes
import re
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs

import h11
import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocket
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from dualmctx.errors import UserError
from dualmctx.pages import SHARED
from dualmctx.visualization import recording_page
from dualmctx.web.handlers import HANDLERS
from dualmctx.web.protocol import error, to_json
from dualmctx.web.session import Context, Session

MAX_FRAME_BYTES = 2**20
"""The largest message that is received; a longer one closes the connection with code 1009."""
MAX_SILENT_SECONDS = 10.0
"""The time after which a connection without a whole request is closed."""
_MAX_CONNECTIONS = 512
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-cache",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""The headers of every answer."""
SECRET_PATHS = ("/", "/index.html", "/socket")
"""The paths that need the token, if there is one. The other files are those of the package."""
_PACKAGE = Path(__file__).parents[1]
_FOLDERS = (
    ("/shared", SHARED),
    ("/viewer", _PACKAGE / "visualization" / "static"),
    ("/", _PACKAGE / "web" / "static"),
)
_TRY_AGAIN = 1013

Scope = MutableMapping[str, Any]
Asgi = Callable[[Scope, Callable[..., Awaitable[Any]], Callable[..., Awaitable[None]]], Any]
# A name or an IPv4 address, or an IPv6 address in brackets, and nothing else besides the port.
_HOST = re.compile(
    r"(?:(?P<name>[a-z0-9._-]+)|\[(?P<address>[0-9a-f.]*:[0-9a-f:.]*)\])(?::(?P<port>[0-9]{1,5}))?"
)


class Access(NamedTuple):
    """The rules of a server.

    Attributes:
      hosts: the names, in lower case, under which it may be addressed; IP addresses are always
        allowed, because DNS does not lead to them.
      token: the secret in the address; `None` on a loopback address.
    """

    hosts: frozenset[str]
    token: str | None = None

    def refusal(self, headers: Mapping[str, str], query: str, *, is_secret: bool) -> str | None:
        """Returns the reason to refuse a request; `None` to answer it.

        Args:
          headers: the headers of the request.
          query: the part of the address after the question mark.
          is_secret: whether the request needs the token, if there is one.
        """
        host = headers.get("host", "").lower()
        name = _name(host)
        if name is None or not (name in self.hosts or _is_address(name)):
            return f"the server has no name {host[:100]!r}; use the address that it printed"
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in (f"http://{host}", f"https://{host}"):
            return f"requests from {origin[:100]!r} are refused; open the page of this server"
        if is_secret and self.token is not None and not self._has_token(query):
            return "the token is missing or wrong; open the whole address that the server printed"
        return None

    def _has_token(self, query: str) -> bool:
        given = parse_qs(query).get("token", [""])[-1]
        return hmac.compare_digest(given.encode(), (self.token or "").encode())


def is_loopback(host: str) -> bool:
    """Returns whether only programs on this machine reach a server at this name or address."""
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def make_access(host: str, token: str | None) -> Access:
    """Returns the rules of a server that listens at a name or address."""
    names = {host.lower(), "localhost"}
    if token is not None:
        names |= {socket.gethostname().lower(), socket.getfqdn().lower()}
    return Access(frozenset(names), token)


def _name(host: str) -> str | None:
    """Returns the name or address in a Host header; `None` if it has none."""
    found = _HOST.fullmatch(host)
    if found is None or int(found["port"] or 0) >= 2**16:
        return None
    return found["name"] or found["address"]


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def make_app(context: Context, access: Access) -> Asgi:
    """Returns the application; `context` has the objects that all sessions share."""
    # Some systems name another type, with which browsers refuse modules.
    mimetypes.add_type("text/javascript", ".js")
    number = 0

    async def serve_socket(socket: WebSocket) -> None:
        nonlocal number
        await socket.accept()
        if number >= context.max_sessions:
            reason = f"{number} pages are open, the limit of this server; close one of them"
            await socket.send_text(to_json(error(None, reason)))
            await socket.close(_TRY_AGAIN, "too many pages")
            return
        number += 1
        try:
            await Session(socket, context, HANDLERS).run()
        finally:
            number -= 1

    routes: list[BaseRoute] = [
        WebSocketRoute("/socket", serve_socket),
        Route("/recording", _empty_page),
        *(Mount(path, StaticFiles(directory=folder, html=True)) for path, folder in _FOLDERS),
    ]
    return _guard(Starlette(routes=routes), access)


async def _empty_page(request: Request) -> HTMLResponse:
    """Returns a page with an empty place, into which the page of the server puts a recording."""
    del request
    return HTMLResponse(recording_page(None))


def _guard(app: Asgi, access: Access) -> Asgi:
    """Wraps an application: refuses requests by `access`, and adds `HEADERS` to answers."""

    async def guarded(scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] not in ("http", "websocket"):
            await app(scope, receive, send)
            return

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        query = scope["query_string"].decode("latin-1")
        is_secret = scope["path"] in SECRET_PATHS
        reason = access.refusal(Headers(scope=scope), query, is_secret=is_secret)
        if reason is None:
            await app(scope, receive, send_with_headers)
        elif scope["type"] == "websocket":
            # Before the handshake, this is the answer 403.
            await send({"type": "websocket.close", "code": 1008, "reason": reason[:100]})
        else:
            answer = PlainTextResponse(f"{reason}\n", status_code=403)
            await answer(scope, receive, send_with_headers)

    return guarded


def listen(host: str, port: int) -> socket.socket:
    """Returns a socket that listens at an address, at any free port for port 0.

    Connections wait until `make_server` runs. Raises a UserError if the address is in use or does
    not belong to this machine.
    """
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address, family=family, backlog=128)
    except (OSError, OverflowError) as fault:
        reason = getattr(fault, "strerror", None) or fault
        raise UserError(
            f"the server cannot listen at {host}, port {port}: {reason}; choose another --port "
            "(0 for any free one) or --host"
        ) from None


def make_server(app: Any, started: Callable[[], None] | None = None) -> uvicorn.Server:
    """Returns a server, whose method `run` takes the sockets.

    It calls `started` in its thread as soon as it answers.
    """
    config = uvicorn.Config(
        app,
        lifespan="off",
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        http="h11",
        ws=SocketProtocol,
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
    fault = record.exc_info[1] if record.exc_info else None
    is_text = isinstance(fault, UnicodeDecodeError) and "received from client" in str(record.msg)
    return not (is_text or isinstance(fault, h11.ProtocolError))


class SocketProtocol(WebSocketsSansIOProtocol):
    """A WebSocket that stops reading from a client that does not read the answers to its pings."""

    def handle_ping(self) -> None:
        """Answers a ping; reads no more while too many answers wait."""
        super().handle_ping()
        high = self.transport.get_write_buffer_limits()[1]
        if self.transport.get_write_buffer_size() > high:
            self.transport.pause_reading()

    def resume_writing(self) -> None:
        """Goes on after the client has read the answers."""
        super().resume_writing()
        # Otherwise reading goes on when the session has taken the last message.
        if not self.read_paused:
            self.transport.resume_reading()


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
