"""Hostile messages, many connections, and connections that close in the middle of a search."""

import contextlib
import gc
import json
import os
import socket
import statistics
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed

from dualmctx.web.limits import MAX_FRAME_BYTES, MAX_MESSAGE_BYTES
from running_server import LIMIT, run_server
from socket_client import Client, open_client
from test_protocol import HOSTILE_FIELDS

TIC = {"checkpoint": "tic-tac-toe"}
UNREADABLE = (
    *("", "{", "[1]", "null", "NaN", '"x"', "\x00", "\ufeff{}", "[" * 50_000, '{"a":' * 40_000),
    *(b"", b"\xff\x00", b"{}", "x" * (MAX_MESSAGE_BYTES + 1), '{"type": NaN}', "{}" * 10_000),
    *('{"type": "hello", "id": "\\ud800"}', '{"id": 1e999, "type": "hello"}', '{"type": {}}'),
    json.dumps({"type": "search", "moves": ["4"] * 40_000}),
    json.dumps({"type": "search", **TIC, "simulations": 10**9}),
    json.dumps({"type": "search", **TIC, "simulations": 10**40}),
    json.dumps({"type": "search", **TIC, "variant": "dual:num_rounds=999999999999"}),
    json.dumps({"type": "analyse", **TIC, "variant": "\u202e\U0001f600" * 100}),
    json.dumps({"type": "position", "checkpoint": "../trained_networks/hsr.safetensors"}),
    json.dumps({"type": "open", "checkpoint": "\x00"}),
    json.dumps({"type": "position", **TIC, "moves": ["\U0001f600"]}),
    json.dumps({"type": "read", **TIC, "text": "[" * 100_000}),
    json.dumps({"type": "read", **TIC, "text": "(;" * 60_000}),
    json.dumps({"type": "write", **TIC, "format": "__class__"}),
)


def hostile_messages():
    """Yields 200 messages that are answered with errors."""
    fields = [json.dumps({"type": "search", **TIC} | x) for x, _ in HOSTILE_FIELDS]
    messages = [*UNREADABLE, *fields]
    return (messages * 3)[:200]


def send_all(client: Client, messages) -> list[dict]:
    """Sends messages and returns their answers; never has many messages without an answer."""
    answers = []
    for message in messages:
        client.socket.send(message)
        # The first message may have to wait until the network is loaded.
        while (answer := client.receive())["type"] == "progress":
            pass
        answers.append(answer)
    return answers


def test_hostile_messages_are_answered_with_errors(server):
    messages = hostile_messages()
    assert len(messages) == 200
    with open_client(server.address) as client:
        answers = send_all(client, messages)
        assert [x for x in answers if x["type"] != "error" or len(x["message"]) > 500] == []
        assert client.ask("position", **TIC, moves=[4])["ply"] == 1


def test_flood_is_answered(server):
    """The server reads a flood at a limited rate; every message has an answer."""
    with open_client(server.address) as client:
        for _ in range(150):
            client.send("position", **TIC)
        kinds = [client.receive()["type"] for _ in range(150)]
        assert set(kinds) <= {"position", "error"}
        assert kinds.count("position") >= 16
        assert client.ask("hello")["type"] == "welcome"


def test_message_above_the_frame_limit_closes_only_its_connection(server):
    with open_client(server.address) as client, open_client(server.address) as other:
        client.socket.send("x" * (MAX_FRAME_BYTES + 1))
        with pytest.raises(ConnectionClosed, match="1009"):
            client.receive()
        assert other.ask("hello")["type"] == "welcome"


def wait_until_idle(server):
    engines = list(server.context.engines._engines.values())
    for _ in range(600):
        if all(engine.is_idle for engine in engines):
            return
        time.sleep(0.05)
    raise AssertionError("a search goes on")


def test_closed_socket_stops_its_search(server):
    position = {**TIC, "moves": [2], "simulations": LIMIT}
    with open_client(server.address) as client:
        analysis = client.send("analyse", **position)
        assert next(client.answers(analysis))["type"] == "analysis"
        client.send("search", **TIC, moves=[3])
    begin = time.monotonic()
    wait_until_idle(server)
    assert time.monotonic() - begin < 10
    with open_client(server.address) as client:
        # The kept tree is not complete.
        continued = next(client.answers(client.send("analyse", **position)))
        assert continued["simulations"] < LIMIT


def test_reload_in_the_middle_of_a_search_loses_nothing(server):
    position = {**TIC, "moves": [4, 0]}
    with open_client(server.address) as client:
        client.send("search", **position)
    with open_client(server.address) as client:
        assert client.ask("search", **position)["type"] == "searched"


def test_two_pages_are_independent(server):
    with open_client(server.address) as first, open_client(server.address) as second:
        analysis = first.send("analyse", **TIC, moves=[1], simulations=2000)
        assert second.ask("position", **TIC, moves=[5])["ply"] == 1
        found = second.ask("search", **TIC, moves=[0, 3, 1, 4])
        assert found["name"] == "3"
        second.send("stop", target=analysis)
        assert list(first.answers(analysis))[-1]["simulations"] >= 2000


def test_session_beyond_the_limit_is_told_so():
    for server in run_server("tic-tac-toe", max_sessions=2):
        with open_client(server.address) as first, open_client(server.address):
            first.ask("hello")
            with open_client(server.address) as third:
                refused = third.receive()
                assert "2 pages are open" in refused["message"]
                with pytest.raises(ConnectionClosed, match="1013"):
                    third.receive()
        with contextlib.ExitStack() as stack:
            # The place of a closed page is free again.
            for _ in range(100):
                client = stack.enter_context(open_client(server.address))
                with contextlib.suppress(ConnectionClosed):
                    if client.ask("hello")["type"] == "welcome":
                        break
                time.sleep(0.1)
            else:
                raise AssertionError("no place became free")


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def attack(server) -> None:
    """Sends hostile messages in 50 connections at once, with searches in between."""

    def work(number):
        with open_client(server.address) as client:
            send_all(client, hostile_messages()[number : number + 20])
            client.send("analyse", **TIC, moves=[number % 9], simulations=200)
            assert client.ask("position", **TIC, moves=[number % 9])["ply"] == 1

    with ThreadPoolExecutor(50) as executor:
        list(executor.map(work, range(50)))
    wait_until_idle(server)


def test_fifty_connections_at_once(server):
    attack(server)
    with open_client(server.address) as client:
        assert client.ask("search", **TIC, moves=[0, 3, 1, 4])["name"] == "3"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_memory_stays_flat(server):
    """A leak adds to every attack; caches and the allocator add to some of them."""
    sizes = []
    for _ in range(8):
        attack(server)
        gc.collect()
        sizes.append(resident_bytes())
    assert statistics.median(np.diff(sizes[2:])) < 4 * 2**20


def test_connection_without_a_whole_request_is_closed(server, monkeypatch):
    monkeypatch.setattr("dualmctx.web.server.MAX_SILENT_SECONDS", 0.3)
    address = urllib.parse.urlsplit(server.address)
    assert address.hostname is not None
    with socket.create_connection((address.hostname, address.port), timeout=20) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        assert slow.recv(100) == b""
