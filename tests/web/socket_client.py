"""A page without a browser: sends messages to a server and collects the answers."""

import contextlib
import itertools
import json
from collections.abc import Iterator
from typing import Any

from websockets.sync.client import ClientConnection, connect

Answer = dict[str, Any]
LAST = 60.0
"""Seconds after which an answer counts as missing."""


class Client:
    """A connection to the socket of a server."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket, self._ids = socket, itertools.count(1)

    def send(self, type_: str, **fields: Any) -> int:
        """Sends a message; returns its id."""
        identity = next(self._ids)
        self.socket.send(json.dumps({"type": type_, "id": identity} | fields))
        return identity

    def receive(self, identity: Any = ...) -> Answer:
        """Returns the next answer, or the next one to a message."""
        while True:
            answer = json.loads(self.socket.recv(LAST))
            if identity in (..., answer["id"]):
                return answer

    def answers(self, identity: int) -> Iterator[Answer]:
        """Yields the answers to a message without progress, up to the last one."""
        while True:
            answer = self.receive(identity)
            if answer["type"] != "progress":
                yield answer
                if answer.get("final", True):
                    return

    def ask(self, type_: str, **fields: Any) -> Answer:
        """Sends a message; returns its last answer."""
        return list(self.answers(self.send(type_, **fields)))[-1]


@contextlib.contextmanager
def open_client(address: str, query: str = "", **headers: str) -> Iterator[Client]:
    """Connects to the server of a page; the names of headers have underscores."""
    url = f"{address.replace('http', 'ws', 1)}socket{query}"
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    options: Any = {"max_size": 2**26, "compression": None}
    # A busy machine may not answer for long.
    options |= {"open_timeout": LAST, "ping_interval": None}
    with connect(url, additional_headers=named, **options) as socket:
        yield Client(socket)
