"""The web application: the page, its files, and the WebSocket."""

import mimetypes
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocket

from dualmctx.pages import SHARED
from dualmctx.visualization import recording_page
from dualmctx.web import handlers, searches
from dualmctx.web.protocol import error, to_json
from dualmctx.web.server import HEADERS, Access
from dualmctx.web.session import Context, Handlers, Session

HANDLERS: Handlers = {
    "hello": handlers.answer_hello,
    "open": handlers.answer_open,
    "position": handlers.answer_position,
    "search": searches.answer_search,
    "analyse": searches.answer_analyse,
    "exact": handlers.answer_exact,
    "review": searches.answer_review,
    "record_search": searches.answer_record_search,
    "read": handlers.answer_read,
    "write": handlers.answer_write,
}
"""The functions that answer messages; `stop` is answered by the session."""
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


def make_app(context: Context, access: Access) -> Asgi:
    """Returns the application.

    Args:
      context: the objects that all sessions share.
      access: who may use the server.
    """
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

    files: list[BaseRoute] = [
        Mount(path, StaticFiles(directory=folder, html=True))
        for path, folder in _FOLDERS
        if folder.is_dir()
    ]
    routes = [WebSocketRoute("/socket", serve_socket), Route("/recording", _empty_page), *files]
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
