"""Clients that send bytes which are no HTTP or no WebSocket, or that do not read."""

import base64
import logging
import socket
import threading
import urllib.parse
import urllib.request
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("uvicorn")

import h11

from dualmctx.web import server as web_server
from running_server import serve_context

HOST = b"Host: 127.0.0.1\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
UPGRADE = (
    b"GET /socket HTTP/1.1\r\n%sConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n\r\n"
) % (HOST, base64.b64encode(bytes(16)))


def frame(opcode: int, payload: bytes, *, is_last: bool = True, reserved: int = 0) -> bytes:
    """Returns a frame of a client, whose mask changes nothing."""
    first = (0x80 if is_last else 0) | reserved | opcode
    return bytes([first, 0x80 | len(payload), 0, 0, 0, 0]) + payload


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    """Serves pages without networks."""
    offered: Any = (SimpleNamespace(name="hsr"),)
    executors = {"quick": None, "loading": None, "slow": None}
    context: Any = SimpleNamespace(max_sessions=64, offered=offered, engines=None, **executors)
    with serve_context(context) as page:
        parts = urllib.parse.urlsplit(page)
        yield str(parts.hostname), int(parts.port or 0)


def connect(address: tuple[str, int], data: bytes) -> socket.socket:
    connected = socket.create_connection(address, timeout=60)
    connected.sendall(data)
    return connected


def open_socket(address: tuple[str, int]) -> socket.socket:
    """Returns a connection after the handshake of a WebSocket."""
    connected, answer = connect(address, UPGRADE), b""
    while not answer.endswith(b"\r\n\r\n"):
        answer += connected.recv(1)
    assert answer.startswith(b"HTTP/1.1 101")
    return connected


def read_all(connected: socket.socket) -> bytes:
    """Returns what the server sends until it closes the connection."""
    parts = list(iter(lambda: connected.recv(2**16), b""))
    return b"".join(parts)


@pytest.mark.parametrize(
    "data",
    [
        b"POST / HTTP/1.1\r\n" + HOST + CHUNKED + b"zz\r\nhello\r\n",
        b"GE\x00T / HTTP/1.1\r\n\r\n",
        b"GET /socket HTTP/1.1\r\n" + HOST + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        UPGRADE + frame(1, b"\xff\xfe"),
        UPGRADE + frame(1, b"ab", reserved=0x40),
        *(UPGRADE + frame(3, b"ab"), UPGRADE + b"\x81\x02ab"),
    ],
)
def test_bytes_that_are_no_http_or_no_websocket_are_answered_without_a_traceback(
    address, caplog, data
):
    logging.getLogger("uvicorn.error").addHandler(caplog.handler)
    if data.startswith(UPGRADE):
        with open_socket(address) as connected:
            connected.sendall(data.removeprefix(UPGRADE))
            assert connected.recv(1) == b"\x88"  # a frame that closes the connection
    else:
        with connect(address, data) as connected:
            assert read_all(connected).startswith(b"HTTP/1.1 400 ")
    with urllib.request.urlopen("http://{}:{}/".format(*address), timeout=60) as answer:
        assert answer.status == 200
    assert [record for record in caplog.records if record.exc_info] == []


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (h11.RemoteProtocolError("malformed"), False),
        (RuntimeError("a fault of the program"), True),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "in the program"), True),
    ],
)
def test_faults_of_the_program_keep_their_traceback(error, expected):
    about = ("uvicorn.error", logging.ERROR, "", 0, "Exception in ASGI application", ())
    record = logging.LogRecord(*about, (type(error), error, None))
    assert web_server.is_of_server(record) == expected


def test_connection_without_a_whole_request_is_closed(address, monkeypatch):
    monkeypatch.setattr("dualmctx.web.server.MAX_SILENT_SECONDS", 0.3)
    with connect(address, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n") as slow:
        assert slow.recv(100) == b""


def test_pings_that_nobody_reads_are_not_buffered(address, monkeypatch):
    """The server stops reading; once the client reads, every ping is answered."""
    sizes, paused = [], threading.Event()
    handle = web_server.SocketProtocol.handle_ping

    def watch(protocol: Any) -> None:
        handle(protocol)
        sizes.append(protocol.transport.get_write_buffer_size())
        if not protocol.transport.is_reading():
            paused.set()

    monkeypatch.setattr(web_server.SocketProtocol, "handle_ping", watch)
    ping, number = frame(9, b"x" * 125), 100_000
    with open_socket(address) as connected:
        connected.settimeout(60)
        sender = threading.Thread(target=connected.sendall, args=(ping * number,), daemon=True)
        sender.start()
        assert paused.wait(60)
        missing = number * (2 + 125)
        while missing:
            missing -= len(connected.recv(min(missing, 2**16)))
        sender.join(60)
    # The answers to one more read of the socket may be written after the limit.
    assert max(sizes) < 2**20
