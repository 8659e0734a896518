"""Searches, reviews and recordings over the socket, with real networks; other tests fake them."""

import random

import jax
import numpy as np
import pytest

import games
from dualmctx.evaluation.factory import load_evaluator
from dualmctx.web.networks import BATCH_SIZE
from socket_client import open_client

TIC = {"checkpoint": "tic-tac-toe"}
ALPHAZERO = {"variant": "alphazero", "simulations": 64}


@pytest.fixture
def client(server):
    with open_client(server.address) as connected:
        yield connected


@pytest.mark.slow
def test_random_play_does_not_beat_the_engine_at_tic_tac_toe(client):
    draws, moves = random.Random(0), []
    while not (found := client.ask("position", **TIC, moves=moves))["is_over"]:
        is_engine = found["side"] == 0
        choice = client.ask("search", **TIC, moves=moves) if is_engine else None
        moves.append((choice or draws.choice(found["entries"]))["name"])
    assert found["result"]["winner"] != 1


@pytest.mark.slow
def test_numbers_are_those_of_an_evaluation_in_python(client):
    # A search of this test alone: another one may continue from a tree that another test has grown.
    answer = client.ask("analyse", **TIC, moves=["5", "1"], **ALPHAZERO)
    # That of a review, which need not be compiled again.
    evaluator = load_evaluator("tic-tac-toe", **ALPHAZERO, batch_size=BATCH_SIZE)
    found = jax.tree.map(lambda x: x[0], evaluator(games.replay(evaluator.env, [[4, 0]])))
    assert answer["value"] == pytest.approx(found.value, abs=1e-5)
    actions = [move["action"] for move in answer["moves"]]
    assert actions == np.flatnonzero(found.legal_action_mask).tolist()
    for action, move in zip(actions, answer["moves"], strict=True):
        assert move["visits"] == found.visits[action]
        assert move["weight"] == pytest.approx(found.action_weights[action], abs=1e-5)
        assert move["prior"] == pytest.approx(found.network_policy[:, action], abs=1e-5)
        q = found.qvalues[action]
        assert move["q"] == (None if np.isnan(q) else pytest.approx(q, abs=1e-5))


@pytest.mark.slow
def test_a_recording_is_that_of_the_search_of_the_message(client):
    """The search of `recorded.DUAL`, whose programs need not be compiled again."""
    search = "dual:num_rounds=2:window=1:explore_fraction=0.9"
    fields = {"moves": ["3"], "variant": search, "simulations": [12, 8], "compare": True}
    recording = client.ask("record_search", checkpoint="connect2", **fields)["recording"]
    assert (recording["moves"], recording["simulations"]) == (["3"], [12, 8])
    assert (recording["network"], recording["options"]["num_rounds"]) == ("connect2", 2)
    assert recording["comparison"]["variant"] == "alphazero"


@pytest.mark.slow
def test_search_finds_the_winning_move(client):
    """Moves 1 and 2 are X's; O answers on 4 and 5."""
    searched = client.ask("search", **TIC, moves=[0, 3, 1, 4])
    assert (searched["type"], searched["name"], searched["action"]) == ("searched", "3", 2)
    assert searched["simulations"] == 85
    assert (searched["variant"], searched["trees"]) == ("dual", ["small", "large"])
    assert "the prior and the Q of the large tree" in searched["policy"]
    assert (searched["line"][0], searched["line_actions"][0]) == ("3", 2)
    best = max(searched["moves"], key=lambda move: move["weight"])
    assert best["name"] == "3"
    assert len(best["prior"]) == len(searched["heads"]["value"]) == 2
    assert sum(move["weight"] for move in searched["moves"]) == pytest.approx(1, abs=1e-4)


@pytest.mark.slow
def test_analysis_deepens_to_its_maximum(client):
    found = list(client.answers(client.send("analyse", **TIC, moves=[4], simulations=400)))
    simulations = [answer["simulations"] for answer in found]
    assert simulations == sorted(simulations)
    assert simulations[-1] >= 400
    assert [answer["final"] for answer in found] == [False] * (len(found) - 1) + [True]
    # The opponent's answer continues from the subtree of the same tree.
    reply = found[-1]["line_actions"][0]
    deeper = client.send("analyse", **TIC, moves=[4, reply], simulations=600)
    first = next(client.answers(deeper))
    client.send("stop", target=deeper)
    assert first["simulations"] > found[-1]["moves"][0]["visits"]
    assert 0 < first["reused"] < first["simulations"]


@pytest.mark.slow
def test_review_marks_a_blunder(client):
    reviewed = client.ask("review", **TIC, moves=[0, 3, 1, 4, 8, 5], **ALPHAZERO)
    assert [row["ply"] for row in reviewed["positions"]] == list(range(7))
    rows = {row["ply"]: row for row in reviewed["positions"]}
    assert (rows[4]["played"], rows[4]["mark"]) == ("9", "blunder")
    assert rows[4]["exact"] == {"value": 1, "played_value": -1, "loss": 2, "best": ["3"]}
    assert rows[6]["is_over"]
    assert rows[6]["value_first"] == -1
