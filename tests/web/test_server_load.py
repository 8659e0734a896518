"""Hostile messages, many connections, and connections that close in the middle of a search."""

import asyncio
import contextlib
import gc
import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from websockets.exceptions import ConnectionClosed

from dualmctx.web.protocol import MAX_MESSAGE_BYTES
from dualmctx.web.server import MAX_FRAME_BYTES
from dualmctx.web.session import Session
from running_server import LIMIT, run_server
from socket_client import Client, open_client
from test_protocol import HOSTILE_FIELDS

TIC = {"checkpoint": "tic-tac-toe"}
UNREADABLE = (
    *("", "{", "[1]", "null", "NaN", '"x"', "\x00", "\ufeff{}", "[" * 50_000, '{"a":' * 40_000),
    *(b"", b"\xff\x00", b"{}", "x" * (MAX_MESSAGE_BYTES + 1), '{"type": NaN}', "{}" * 10_000),
    *('{"type": "hello", "id": "\\ud800"}', '{"id": 1e999, "type": "hello"}', '{"type": {}}'),
    json.dumps({"type": "search", "moves": ["4"] * 40_000}),
    json.dumps({"type": "review", **TIC, "simulations": 10**9}),
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
HOSTILE = [*UNREADABLE, *(json.dumps({"type": "search", **TIC} | x) for x, _ in HOSTILE_FIELDS)]


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


def wait_until(is_true) -> None:
    """Waits for a condition in the threads of the server."""
    for _ in range(1200):
        if is_true():
            return
        time.sleep(0.05)
    raise AssertionError("the condition is still false")


def test_hostile_messages_are_answered_with_errors(fake):
    with open_client(fake.address) as client:
        answers = send_all(client, HOSTILE)
        assert [x for x in answers if x["type"] != "error" or len(x["message"]) > 500] == []
        assert client.ask("position", **TIC, moves=[4])["ply"] == 1


def test_flood_is_answered(fake):
    """The server reads a flood at a limited rate; every message has an answer."""
    with open_client(fake.address) as client:
        for _ in range(150):
            client.send("position", **TIC)
        kinds = [client.receive()["type"] for _ in range(150)]
        assert set(kinds) <= {"position", "error"}
        assert kinds.count("position") >= 16
        assert client.ask("hello")["type"] == "welcome"


def test_message_above_the_frame_limit_closes_only_its_connection(fake):
    with open_client(fake.address) as client, open_client(fake.address) as other:
        client.socket.send("x" * (MAX_FRAME_BYTES + 1))
        with pytest.raises(ConnectionClosed, match="1009"):
            client.receive()
        assert other.ask("hello")["type"] == "welcome"


@pytest.mark.slow
def test_closed_socket_stops_its_search_and_a_reload_loses_nothing(server):
    position = {**TIC, "moves": [2], "simulations": LIMIT}
    with open_client(server.address) as client:
        analysis = client.send("analyse", **position)
        assert next(client.answers(analysis))["type"] == "analysis"
        client.send("search", **TIC, moves=[3])
    wait_until(lambda: server.context.engines.is_idle)
    with open_client(server.address) as client:
        # The kept tree is not complete.
        continued = next(client.answers(client.send("analyse", **position)))
        assert continued["simulations"] < LIMIT
        assert client.ask("search", **TIC, moves=[3])["type"] == "searched"


def test_two_pages_are_independent(fake):
    with open_client(fake.address) as first, open_client(fake.address) as second:
        analysis = first.send("analyse", **TIC, moves=[1], simulations=LIMIT)
        assert next(first.answers(analysis))["type"] == "analysis"
        second.send("stop", target=analysis)
        assert second.ask("position", **TIC, moves=[5])["ply"] == 1
        assert second.ask("search", **TIC, moves=[0, 3, 1, 4])["name"] == "3"
        # The first page's analysis goes on until that page stops it.
        assert not fake.context.engines.is_idle
        first.send("stop", target=analysis)
        assert list(first.answers(analysis))[-1]["final"]


def test_session_beyond_the_limit_is_told_so():
    with run_server("tic-tac-toe", max_sessions=2, is_fake=True) as running:
        with open_client(running.address) as first, open_client(running.address):
            first.ask("hello")
            with open_client(running.address) as third:
                refused = third.receive()
                assert "2 pages are open" in refused["message"]
                with pytest.raises(ConnectionClosed, match="1013"):
                    third.receive()

        def is_welcome() -> bool:
            with open_client(running.address) as client:
                with contextlib.suppress(ConnectionClosed):
                    return client.ask("hello")["type"] == "welcome"
                return False

        # The places of closed pages are free again.
        wait_until(is_welcome)


def count_tasks(loops: list[asyncio.AbstractEventLoop]) -> int:
    return sum(len(asyncio.all_tasks(loop)) for loop in loops)


def count_objects() -> int:
    """Returns the number of all objects, none of which is a session."""
    gc.collect()
    found = gc.get_objects()
    assert not any(type(x) is Session for x in found)
    return len(found)


@pytest.mark.slow
def test_fifty_connections_at_once_leave_nothing_behind(fake):
    def attack(number):
        with open_client(fake.address) as client:
            send_all(client, HOSTILE[number : number + 6])
            client.send("analyse", **TIC, moves=[number % 9], simulations=LIMIT)
            assert client.ask("position", **TIC, moves=[number % 9])["ply"] == 1

    objects = gc.get_objects()
    loops = [
        x for x in objects if issubclass(type(x), asyncio.AbstractEventLoop) and x.is_running()
    ]
    del objects
    num_tasks, counts = count_tasks(loops), []
    assert num_tasks > 0
    # The first attack fills caches.
    for _ in range(3):
        with ThreadPoolExecutor(50) as executor:
            list(executor.map(attack, range(50)))
        wait_until(lambda: fake.context.engines.is_idle)
        wait_until(lambda: count_tasks(loops) <= num_tasks)
        counts.append(count_objects())
    # One object of each of the 50 connections would be more.
    assert abs(counts[2] - counts[1]) < 40
    with open_client(fake.address) as client:
        assert client.ask("search", **TIC, moves=[0, 3, 1, 4])["name"] == "3"
