"""The server of `dualmctx play`, asked over its socket as a page asks it."""

import re
import urllib.error
import urllib.request

import pytest
from websockets.exceptions import InvalidStatus

from dualmctx import __version__
from fake_network import LONG
from running_server import LIMIT
from socket_client import open_client

TIC = {"checkpoint": "tic-tac-toe"}
CHEAP = {"variant": "alphazero", "simulations": 5}


@pytest.fixture
def client(server):
    with open_client(server.address) as connected:
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
SEARCHES = ("search", "analyse", "review", "record_search")


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
            "simulations is 501; the recording of a page has at most 500",
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


def test_search_finds_the_winning_move(client):
    """Moves 1 and 2 are X's; O answers on 4 and 5."""
    searched = client.ask("search", **TIC, moves=[0, 3, 1, 4])
    assert (searched["type"], searched["name"], searched["action"]) == ("searched", "3", 2)
    assert searched["simulations"] == 85
    assert (searched["variant"], searched["trees"]) == ("dual", ["small", "large"])
    assert "the prior and the Q of the large tree" in searched["policy"]
    assert searched["line"][0] == "3"
    assert searched["line_actions"][0] == 2
    best = max(searched["moves"], key=lambda move: move["weight"])
    assert best["name"] == "3"
    assert len(best["prior"]) == len(searched["heads"]["value"]) == 2
    assert sum(move["weight"] for move in searched["moves"]) == pytest.approx(1, abs=1e-4)


@pytest.mark.slow
def test_small_budgets_are_exact_and_recorded_alike(client):
    searched = client.ask("search", **TIC, **CHEAP)
    assert searched["simulations"] == 5
    assert sum(move["visits"] for move in searched["moves"]) == 5
    recorded = client.ask("record_search", **TIC, **CHEAP)["recording"]["result"]
    assert recorded["action"] == searched["action"]
    assert recorded["value"] == pytest.approx(searched["value"], abs=1e-5)
    # The names of moves can be sent back, and the answer has numbers of JSON only.
    names = [move["name"] for move in searched["moves"]]
    position = client.ask("position", **TIC)
    assert [(row["action"], row["name"]) for row in position["entries"]] == [
        (move["action"], name) for move, name in zip(searched["moves"], names, strict=True)
    ]


def test_temperature_samples_moves(fake):
    with open_client(fake.address) as client:
        asked = [client.ask("search", **TIC, temperature=10)["name"] for _ in range(20)]
    assert len(set(asked)) > 1


@pytest.mark.slow
def test_analysis_deepens_to_its_maximum(client):
    found = list(client.answers(client.send("analyse", **TIC, moves=[4], simulations=400)))
    simulations = [answer["simulations"] for answer in found]
    assert simulations == sorted(simulations)
    assert simulations[-1] >= 400
    assert [answer["final"] for answer in found] == [False] * (len(found) - 1) + [True]
    # The opponent's answer continues from the subtree of the same tree.
    reply = found[-1]["line_actions"][0]
    first = next(client.answers(client.send("analyse", **TIC, moves=[4, reply], simulations=600)))
    assert first["simulations"] > found[-1]["moves"][0]["visits"]
    assert 0 < first["reused"] < first["simulations"]


def test_stop_ends_an_analysis(client):
    analysis = client.send("analyse", **TIC, moves=[8], simulations=LIMIT, variant="alphazero")
    stop = client.send("stop", target=analysis)
    assert client.receive(stop) == {"type": "stopped", "id": stop, "target": analysis}
    answers = client.answers(analysis)
    last = list(answers)[-1]
    assert last["type"] == "stopped" or (last["final"] and last["simulations"] < LIMIT)


def test_new_analysis_replaces_the_one_before(fake):
    with open_client(fake.address) as client:
        first = client.send("analyse", **TIC, moves=[7], simulations=LIMIT)
        client.receive(first)
        second = client.send("analyse", **TIC, moves=[6], simulations=LIMIT)
        assert list(client.answers(first))[-1]["simulations"] < LIMIT
        assert next(client.answers(second))["type"] == "analysis"
        client.send("stop", target=second)
        assert list(client.answers(second))[-1]["final"]


@pytest.mark.slow
def test_exact_values_are_in_the_view_of_the_side_to_move(client):
    found = client.ask("exact", **TIC, moves=[0, 4, 1])
    assert (found["source"], found["value"]) == ("solved", 0)
    assert found["moves"] == {"3": 0, **dict.fromkeys("46789", -1)}
    assert client.ask("exact", checkpoint="othello")["value"] is None


# Games


@pytest.mark.slow
def test_review_marks_a_blunder(client):
    reviewed = client.ask("review", **TIC, moves=[0, 3, 1, 4, 8, 5], **CHEAP)
    assert [row["ply"] for row in reviewed["positions"]] == list(range(7))
    rows = {row["ply"]: row for row in reviewed["positions"]}
    assert (rows[4]["played"], rows[4]["mark"]) == ("9", "blunder")
    assert rows[4]["exact"] == {"value": 1, "played_value": -1, "loss": 2, "best": ["3"]}
    assert rows[6]["is_over"]
    assert rows[6]["value_first"] == -1


def test_record_is_written_and_read(client):
    written = client.ask("write", **TIC, moves=[4, 0], format="text", headers={"first": "Ann"})
    assert written["filename"] == "tic-tac-toe.txt"
    record = client.ask("read", **TIC, text=written["text"])
    assert (record["moves"], record["count"], record["fen"]) == (["5", "1"], 1, None)
    assert record["headers"]["first"] == "Ann"


def test_long_work_is_replaced_and_stopped(fake):
    with open_client(fake.address) as client:
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
def test_files_have_headers_of_security(server, path, kind):
    status, headers, content = fetch(server.address, path)
    assert (status, headers["Content-Type"].split(";")[0]) == (200, kind)
    assert content
    assert headers["Content-Security-Policy"].startswith("default-src 'self';")
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert "Server" not in headers


@pytest.mark.parametrize(
    "path",
    [
        *("../app.py", "..%2fapp.py", "%2e%2e/%2e%2e/pyproject.toml", "viewer/../../web/app.py"),
        *("viewer/..%2f..%2f..%2fREADME.md", "....//app.py", "..\\app.py", "/etc/passwd", "%00"),
        *("static/../../../../etc/passwd", "nosuch.js"),
    ],
)
def test_other_files_are_not_served(server, path):
    status, _, content = fetch(server.address, path)
    assert status == 404
    assert len(content) < 200


def test_other_sites_are_refused(server):
    assert fetch(server.address, "", Host="evil.example")[0] == 403
    assert fetch(server.address, "app.js", Origin="http://evil.example")[0] == 403
    foreign = open_client(server.address, Origin="http://evil.example")
    with pytest.raises(InvalidStatus, match="403"), foreign:
        pass
    port = server.address.rsplit(":", 1)[1].strip("/")
    with open_client(server.address, Origin=f"http://127.0.0.1:{port}") as client:
        assert client.ask("hello")["type"] == "welcome"
