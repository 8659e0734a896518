"""The server of `dualmctx play`, asked over its socket as a page asks it."""

import asyncio
import contextlib
import gc
import json
import re
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from dualmctx import __version__
from dualmctx.web.server import MAX_FRAME_BYTES
from fake_network import LONG
from running_server import LIMIT, run_server
from socket_client import Client, open_client
from test_protocol import HOSTILE_FIELDS, UNREADABLE

TIC = {"checkpoint": "tic-tac-toe"}


@pytest.fixture
def client(fake):
    with open_client(fake.address) as connected:
        yield connected


# Networks and positions


def test_welcome_lists_the_networks(client):
    welcome = client.ask("hello")
    names = [row["name"] for row in welcome["checkpoints"]]
    assert names[:2] == ["tic-tac-toe", "connect2"]
    assert {"connect-four", "go-9x9"} < set(names)
    assert (welcome["version"], welcome["default"]) == (__version__, "tic-tac-toe")
    assert welcome["limits"] == {
        "simulations": LIMIT,
        "message_bytes": 2**18,
        "moves": 1000,
        "recorded_simulations": 500,
    }


def test_opened_network_is_described(client):
    opened = client.ask("open", **TIC)
    expected = {"game": "tic_tac_toe", "title": "Tic-tac-toe", "players": ["X", "O"], "fen": False}
    expected |= {"heads": ["intermediate", "final"], "exact": "solved", "records": ["text"]}
    assert expected.items() <= opened.items()
    searches = {row["name"]: row for row in opened["searches"]}
    assert list(searches)[:2] == [None, "dual"]
    default = {"label": "dual (own)", "variant": "dual", "simulations": [50, 35]}
    assert (default | {"trees": ["small", "large"]}).items() <= searches[None].items()
    assert searches["alphazero"]["trees"] == ["tree"]
    assert searches["gumbel"]["label"] == "gumbel"
    assert not searches["gumbel"]["deepens"]


def test_position_has_picture_and_legal_moves(client):
    found = client.ask("position", **TIC, moves=["5", 0])
    assert found["picture"]["rows"][0] == ["O", ".", "."]
    assert found["picture"]["marked"] == [[0, 0]]
    assert (found["side"], found["is_over"], found["result"]) == (0, False, None)
    assert (found["moves"], found["actions"], found["ply"]) == (["5", "1"], [4, 0], 2)
    assert [entry["action"] for entry in found["entries"]] == [1, 2, 3, 5, 6, 7, 8]
    assert found["entries"][0]["targets"] == [[0, 1]]
    assert found["shape"] == "square"


@pytest.mark.parametrize(
    ("moves", "result"),
    [
        ([0, 3, 1, 4, 2], {"winner": 0, "text": "X won", "cells": [[0, 0], [0, 1], [0, 2]]}),
        ([0, 3, 1, 4, 8, 5], {"winner": 1, "text": "O won", "cells": [[1, 0], [1, 1], [1, 2]]}),
        ([0, 1, 2, 4, 3, 5, 7, 6, 8], {"winner": None, "text": "draw", "cells": []}),
    ],
)
def test_finished_game_has_a_result(client, moves, result):
    found = client.ask("position", **TIC, moves=moves)
    assert (found["is_over"], found["result"], found["entries"]) == (True, result, [])


POSITIONS = ("position", "search", "analyse", "exact", "review", "record_search")
# The engine checks the searches of the other messages.
SEARCHES = ("review", "record_search")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kinds", "fields", "reason"),
    [
        (POSITIONS, {"moves": [0, "1"]}, "move 2, '1', is illegal; legal moves are 2, 3"),
        (POSITIONS, {"moves": ["x"]}, "not a move of tic_tac_toe"),
        (POSITIONS, {"moves": [9]}, "from 0 to 8"),
        (POSITIONS, {"moves": [0, 3, 1, 4, 2, 5]}, "move 6, '6', comes after the end of the game"),
        (POSITIONS, {"fen": "8/8 w"}, "has no FEN"),
        (POSITIONS, {"checkpoint": "nosuch"}, "it must be one of tic-tac-toe, connect2"),
        (POSITIONS, {"checkpoint": "../../etc/passwd"}, "it must be one of"),
        (POSITIONS, {"checkpoint": "tests:own_game"}, "it must be one of"),
        (SEARCHES, {"variant": "alphabeta"}, "variant is alphabeta; it must be one of dual"),
        (SEARCHES, {"variant": "dual:nosuch=1"}, "dual has no option nosuch"),
        (SEARCHES, {"variant": "alphazero:max_depth=0"}, "max_depth"),
        (SEARCHES, {"variant": "../../etc:x=y"}, "it must be one of dual"),
        (SEARCHES, {"simulations": 10**9}, f"at most {LIMIT}"),
        (SEARCHES, {"simulations": [50, 35, 20]}, "num_simulations|simulations"),
        (SEARCHES, {"variant": "alphazero", "simulations": [5, 3]}, "one tree|num_simulations"),
        (["search"], {"moves": [0, 3, 1, 4, 2]}, "the game is over"),
        (
            ["record_search"],
            {"variant": "alphazero", "simulations": 501},
            "the search has 501 simulations; the recording of a page has at most 500",
        ),
        (
            ["record_search"],
            {"variant": "alphago:rollout_length=42", "simulations": 200, "compare": True},
            "the comparison with AlphaZero has .* simulations; the recording of a page has at most",
        ),
        (["read"], {"text": ""}, "the text has no game"),
        (["read"], {"text": "1 1"}, "move 2, '1', is illegal"),
        (["read"], {"text": "(;GM[1]SZ[9];B[aa])"}, "the game is go"),
        (["read"], {"text": "(;" * 50_000}, "."),
        (["write"], {"format": "pgn"}, "are written as text"),
        (["write"], {"format": "../x"}, "are written as text"),
        (["write"], {"format": "text", "headers": {"path": "x"}}, "header 'path'"),
        (["write"], {"format": "text", "moves": [0, 0]}, "move 2, '1', is illegal"),
    ],
)
def test_invalid_message_is_an_error(client, kinds, fields, reason):
    for kind in kinds:
        answer = client.ask(kind, **(TIC | fields))
        assert answer["type"] == "error"
        assert re.search(reason, answer["message"]), answer


# Searches


def test_temperature_samples_moves(client):
    asked = [client.ask("search", **TIC, temperature=10)["name"] for _ in range(20)]
    assert len(set(asked)) > 1


def test_new_analysis_replaces_the_one_before_and_a_stop_ends_it(client):
    first = client.send("analyse", **TIC, moves=[7], simulations=LIMIT)
    client.receive(first)
    second = client.send("analyse", **TIC, moves=[6], simulations=LIMIT)
    assert list(client.answers(first))[-1]["simulations"] < LIMIT
    assert next(client.answers(second))["type"] == "analysis"
    stop = client.send("stop", target=second)
    assert client.receive(stop) == {"type": "stopped", "id": stop, "target": second}


def test_exact_values_are_in_the_view_of_the_side_to_move(client):
    found = client.ask("exact", **TIC, moves=[0, 4, 1])
    assert (found["source"], found["value"]) == ("solved", 0)
    assert found["moves"] == {"3": 0, **dict.fromkeys("46789", -1)}
    assert client.ask("exact", checkpoint="othello")["value"] is None


# Games


def test_record_is_written_and_read(client):
    written = client.ask("write", **TIC, moves=[4, 0], format="text", headers={"first": "Ann"})
    assert written["filename"] == "tic-tac-toe.txt"
    record = client.ask("read", **TIC, text=written["text"])
    assert (record["moves"], record["count"], record["fen"]) == (["5", "1"], 1, None)
    assert record["headers"]["first"] == "Ann"


def test_long_work_is_replaced_and_stopped(client):
    search = {**TIC, "variant": "alphazero", "simulations": LONG}
    first, second = (client.send("record_search", **search) for _ in range(2))
    assert next(client.answers(first)) == {"type": "stopped", "id": first}
    client.send("stop", target=second)
    client.send("stop", target=second)
    assert next(client.answers(second)) == {"type": "stopped", "id": second}


# Files and access


def fetch(address, path, **headers):
    """Returns the status, the headers and the content of a request."""
    request = urllib.request.Request(address + path, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


@pytest.mark.parametrize(
    ("path", "kind"),
    [("", "text/html"), ("app.js", "text/javascript"), ("recording", "text/html")],
)
def test_files_have_headers_of_security(fake, path, kind):
    status, headers, content = fetch(fake.address, path)
    assert (status, headers["Content-Type"].split(";")[0]) == (200, kind)
    assert content
    assert headers["Content-Security-Policy"].startswith("default-src 'self';")
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert "Server" not in headers


@pytest.mark.parametrize(
    "path",
    [
        *(
            "../server.py",
            "..%2fserver.py",
            "%2e%2e/%2e%2e/%2e%2e/pyproject.toml",
            "viewer/../../web/server.py",
        ),
        *(
            "viewer/..%2f..%2f..%2fREADME.md",
            "....//server.py",
            "..\\server.py",
            "/etc/passwd",
            "%00",
        ),
        *("static/../../../../etc/passwd", "nosuch.js"),
    ],
)
def test_other_files_are_not_served(fake, path):
    status, _, content = fetch(fake.address, path)
    assert status == 404
    assert len(content) < 200


def test_other_sites_are_refused(fake):
    assert fetch(fake.address, "", Host="evil.example")[0] == 403
    assert fetch(fake.address, "app.js", Origin="http://evil.example")[0] == 403
    foreign = open_client(fake.address, Origin="http://evil.example")
    with pytest.raises(InvalidStatus, match="403"), foreign:
        pass
    port = fake.address.rsplit(":", 1)[1].strip("/")
    with open_client(fake.address, Origin=f"http://127.0.0.1:{port}") as client:
        assert client.ask("hello")["type"] == "welcome"


# Hostile messages, many connections, and connections that close in the middle of a search

HOSTILE = [
    *(data for data, _ in UNREADABLE),
    *(json.dumps({"type": "search", **TIC} | fields) for fields, _ in HOSTILE_FIELDS),
    json.dumps({"type": "read", **TIC, "text": "(;" * 60_000}),
    json.dumps({"type": "analyse", **TIC, "variant": "\u202e\U0001f600" * 100}),
    json.dumps({"type": "open", "checkpoint": "\x00"}),
]


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
    """Every message has an answer, and another page is answered meanwhile."""
    with open_client(fake.address) as client, open_client(fake.address) as other:
        for _ in range(150):
            client.send("position", **TIC)
        assert other.ask("hello")["type"] == "welcome"
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
    """Returns the number of objects that connections need: the server's and their sockets'."""
    gc.collect()
    modules = "dualmctx.web.", "websockets.", "asyncio.", "_asyncio"
    return sum(str(type(x).__module__).startswith(modules) for x in gc.get_objects())


@pytest.mark.slow
def test_many_connections_at_once_leave_nothing_behind(fake):
    def attack(number):
        with open_client(fake.address) as client:
            send_all(client, HOSTILE[2 * number : 2 * number + 3])
            client.send("analyse", **TIC, moves=[number % 9], simulations=LIMIT)
            assert client.ask("position", **TIC, moves=[number % 9])["ply"] == 1

    objects = gc.get_objects()
    loops = [
        x for x in objects if issubclass(type(x), asyncio.AbstractEventLoop) and x.is_running()
    ]
    del objects
    num_tasks, num_objects = count_tasks(loops), count_objects()
    assert num_tasks > 0
    for _ in range(2):
        with ThreadPoolExecutor(20) as executor:
            list(executor.map(attack, range(20)))
        wait_until(lambda: fake.context.engines.is_idle)
        wait_until(lambda: count_tasks(loops) <= num_tasks)
        wait_until(lambda: count_objects() <= num_objects)
    with open_client(fake.address) as client:
        assert client.ask("search", **TIC, moves=[0, 3, 1, 4])["name"] == "3"
