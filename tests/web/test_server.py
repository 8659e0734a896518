"""The server of `dualmctx play`, asked over its socket as a page asks it."""

import json
import re
import urllib.error
import urllib.request

import pytest
from websockets.exceptions import InvalidStatus

import games
from dualmctx import __version__
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
    assert (opened["game"], opened["title"], opened["players"]) == (
        "tic_tac_toe",
        "Tic-tac-toe",
        ["X", "O"],
    )
    searches = {row["name"]: row for row in opened["searches"]}
    assert list(searches)[:2] == [None, "dual"]
    default = searches[None]
    assert (default["label"], default["variant"]) == ("dual (own)", "dual")
    assert (default["trees"], default["simulations"]) == (["small", "large"], [50, 35])
    assert searches["alphazero"]["trees"] == ["tree"]
    assert searches["gumbel"]["label"] == "gumbel"
    assert not searches["gumbel"]["deepens"]
    assert (opened["heads"], opened["exact"]) == (["intermediate", "final"], "solved")
    assert (opened["records"], opened["fen"]) == (["text"], False)


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


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"moves": [0, "1"]}, "move 2, '1', is illegal; legal moves are 2, 3"),
        ({"moves": ["x"]}, "not a move of tic_tac_toe"),
        ({"moves": [9]}, "from 0 to 8"),
        ({"moves": [0, 3, 1, 4, 2, 5]}, "move 6, '6', comes after the end of the game"),
        ({"fen": "8/8 w"}, "has no FEN"),
        ({"checkpoint": "nosuch"}, "it must be one of tic-tac-toe, connect2"),
        ({"checkpoint": "../../etc/passwd"}, "it must be one of"),
        ({"checkpoint": "tests:own_game"}, "it must be one of"),
    ],
)
def test_invalid_position_is_an_error(client, fields, reason):
    for kind in ("position", "search", "analyse", "exact", "review", "record_search"):
        answer = client.ask(kind, **(TIC | fields))
        assert answer["type"] == "error"
        assert reason in answer["message"]


@pytest.mark.slow
def test_fen_is_read_and_written(client):
    fen = "rnbqk/ppppp/P4/1PPPP/RNBQK b - - 0 1"
    chess = {"checkpoint": "gardner-chess", "fen": fen}
    found = client.ask("position", **chess, moves=["b4b3"])
    assert (found["moves"], found["side"]) == (["b4b3"], 0)
    assert found["fen"] == "rnbqk/p1ppp/Pp3/1PPPP/RNBQK w - - 0 2"
    assert found["picture"]["is_chess"]
    answer = client.ask("position", **(chess | {"fen": "k4 w"}))
    assert "2 fields; four to six are needed" in answer["message"]


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
def test_small_budgets_are_exact(client):
    searched = client.ask("search", **TIC, **CHEAP)
    assert searched["simulations"] == 5
    assert sum(move["visits"] for move in searched["moves"]) == 5


def test_temperature_samples_moves(client):
    search = {**TIC, **CHEAP, "temperature": 10}
    names = {client.ask("search", **search)["name"] for _ in range(20)}
    assert len(names) > 1


def test_search_of_a_finished_game_is_an_error(client):
    answer = client.ask("search", **TIC, moves=[0, 3, 1, 4, 2])
    assert "the game is over" in answer["message"]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"variant": "alphabeta"}, "variant is alphabeta; it must be one of dual"),
        ({"variant": "dual:nosuch=1"}, "dual has no option nosuch"),
        ({"variant": "alphazero:max_depth=0"}, "max_depth"),
        ({"variant": "../../etc:x=y"}, "it must be one of dual"),
        ({"simulations": 10**9}, f"at most {LIMIT}"),
        ({"simulations": [50, 35, 20]}, "num_simulations|simulations"),
        ({"variant": "alphazero", "simulations": [5, 3]}, "one tree|num_simulations"),
    ],
)
@pytest.mark.parametrize("kind", ["search", "analyse", "review", "record_search"])
def test_invalid_search_is_an_error(client, kind, fields, reason):
    answer = client.ask(kind, **TIC, **fields)
    assert answer["type"] == "error"
    assert re.search(reason, answer["message"]), answer


def test_analysis_deepens_to_its_maximum(client):
    found = list(client.answers(client.send("analyse", **TIC, moves=[4], simulations=1500)))
    simulations = [answer["simulations"] for answer in found]
    assert simulations == sorted(simulations)
    assert simulations[-1] >= 1500
    assert [answer["final"] for answer in found] == [False] * (len(found) - 1) + [True]
    # The opponent's answer continues from the subtree of the same tree.
    reply = found[-1]["line_actions"][0]
    first = next(client.answers(client.send("analyse", **TIC, moves=[4, reply], simulations=2000)))
    assert first["simulations"] > found[-1]["moves"][0]["visits"]
    assert 0 < first["reused"] < first["simulations"]


def test_stop_ends_an_analysis(client):
    analysis = client.send("analyse", **TIC, moves=[8], simulations=LIMIT, variant="alphazero")
    stop = client.send("stop", target=analysis)
    assert client.receive(stop) == {"type": "stopped", "id": stop, "target": analysis}
    answers = client.answers(analysis)
    last = list(answers)[-1]
    assert last["type"] == "stopped" or (last["final"] and last["simulations"] < LIMIT)


def test_new_analysis_replaces_the_one_before(client):
    first = client.send("analyse", **TIC, moves=[7], simulations=LIMIT)
    client.receive(first)
    second = client.send("analyse", **TIC, moves=[6], simulations=100)
    ended = {}
    while ended.keys() != {first, second}:
        answer = client.receive()
        if answer.get("final", answer["type"] == "stopped"):
            ended[answer["id"]] = answer.get("simulations", 0)
    assert ended[first] < LIMIT
    assert ended[second] >= 100


def test_exact_values_are_in_the_view_of_the_side_to_move(client):
    found = client.ask("exact", **TIC, moves=[0, 4, 1])
    assert (found["source"], found["value"]) == ("solved", 0)
    assert found["moves"] == {"3": 0, **dict.fromkeys("46789", -1)}
    assert client.ask("exact", checkpoint="othello")["value"] is None


# Games


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


@pytest.mark.parametrize(
    ("kind", "fields", "reason"),
    [
        ("read", {"text": ""}, "the text has no game"),
        ("read", {"text": "1 1"}, "move 2, '1', is illegal"),
        ("read", {"text": "(;GM[1]SZ[9];B[aa])"}, "the game is go"),
        ("read", {"text": "(;" * 50_000}, "."),
        ("write", {"format": "pgn"}, "are written as text"),
        ("write", {"format": "../x"}, "are written as text"),
        ("write", {"format": "text", "headers": {"path": "x"}}, "header 'path'"),
        ("write", {"format": "text", "moves": [0, 0]}, "move 2, '1', is illegal"),
    ],
)
def test_invalid_record_is_an_error(client, kind, fields, reason):
    answer = client.ask(kind, **TIC, **fields)
    assert answer["type"] == "error"
    assert re.search(reason, answer["message"])


@pytest.mark.slow
def test_recorded_search_ends_like_the_search(client):
    position = {"checkpoint": "connect2", "variant": "dual", "simulations": [16, 8]}
    recording = client.ask("record_search", **position, compare=True)["recording"]
    searched = client.ask("search", **position)
    assert recording["result"]["action"] == searched["action"]
    assert recording["result"]["value"] == pytest.approx(searched["value"], abs=1e-5)
    assert recording["comparison"]["variant"] == "alphazero"


def test_large_recording_is_refused(client):
    answer = client.ask("record_search", **TIC, variant="alphazero", simulations=501)
    assert answer["type"] == "error"
    assert "simulations is 501; the recording of a page has at most 500" in answer["message"]


@pytest.mark.slow
def test_stop_ends_long_work(client):
    for kind in ("review", "record_search"):
        work = client.send(kind, checkpoint="connect2", variant="muzero", simulations=300)
        client.send("stop", target=work)
        client.send("stop", target=work)
        last = list(client.answers(work))[-1]
        assert last["type"] in ("stopped", "reviewed", "recording")


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


def test_messages_are_answers_as_json(client):
    """The names of moves of every answer can be sent back."""
    searched = client.ask("search", **TIC, **CHEAP)
    names = [move["name"] for move in searched["moves"]]
    env = games.make("tic_tac_toe")
    assert games.parse_moves(env, names) == [move["action"] for move in searched["moves"]]
    assert json.loads(json.dumps(searched)) == searched
