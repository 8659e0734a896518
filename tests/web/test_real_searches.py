"""The page in a real browser, and the socket, with real searches; other tests use a fake engine."""

import random

import jax
import numpy as np
import pytest

import browser
import games
import pages
from dualmctx.evaluation.factory import load_evaluator
from dualmctx.web.networks import BATCH_SIZE
from pages import press, table, wait_for_status
from socket_client import open_client

TIC = {"checkpoint": "tic-tac-toe"}
ALPHAZERO = {"variant": "alphazero", "simulations": 64}


@pytest.fixture
def client(server):
    with open_client(server.address) as connected:
        yield connected


@pytest.mark.slow
def test_random_play_does_not_beat_the_engine_at_tic_tac_toe(visit, server):
    page = visit("first=engine&second=human", at=server)
    result = pages.play_game(page, random.Random(0).choice)
    assert result.startswith(("The engine wins", "Draw")), result


@pytest.mark.slow
def test_numbers_are_those_of_the_last_answer_and_of_an_evaluation_in_python(visit, socket, server):
    # A search of this test alone: another one may continue from a tree that another test has grown.
    state = "view=analyse&variant=alphazero&maximum=64&moves=5,1"
    page = visit(state, at=server)
    wait_for_status(page, "Finished")
    rows = table(page)
    value = float(page.locator(".value-number").get_attribute("data-value"))
    answer = socket.answers("analysis")[-1]
    assert next(iter(rows)) == answer["line"][0]
    assert value == answer["value"]
    # That of a review, which need not be compiled again.
    evaluator = load_evaluator("tic-tac-toe", **ALPHAZERO, batch_size=BATCH_SIZE)
    found = jax.tree.map(lambda x: x[0], evaluator(games.replay(evaluator.env, [[4, 0]])))
    assert value == pytest.approx(found.value, abs=1e-5)
    assert {int(name) - 1 for name in rows} == set(np.flatnonzero(found.legal_action_mask))
    for name, row in rows.items():
        action = int(name) - 1
        assert row["visits"] == found.visits[action]
        assert row["weight"] == pytest.approx(found.action_weights[action], abs=1e-5)
        assert row["prior-1"] == pytest.approx(found.network_policy[1, action], abs=1e-5)
        q = found.qvalues[action]
        assert row["q"] == (None if np.isnan(q) else pytest.approx(q, abs=1e-5))


@pytest.mark.slow
def test_a_move_continues_from_its_subtree_until_the_analysis_is_stopped(visit, socket, server):
    page = visit("view=analyse&maximum=255", at=server)
    wait_for_status(page, "Finished")
    count = len(socket.answers("analysis"))
    page.locator(".move-table tr.best button").click()
    pages.wait_for_place(page, 1, 1)
    wait_for_status(page, "Finished")
    # Without a kept subtree, these would be multiples of the 85 simulations of a step.
    assert all(row["simulations"] % 85 for row in socket.answers("analysis")[count:])
    page.locator("input[name=maximum]").fill("")
    page.locator("input[name=maximum]").blur()
    wait_for_status(page, "Running")
    press(page, "Stop analysis")
    wait_for_status(page, "Stopped")
    browser.wait_until(page, lambda: server.context.engines.is_idle)


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
    assert searched["line"][0] == "3"
    assert searched["line_actions"][0] == 2
    best = max(searched["moves"], key=lambda move: move["weight"])
    assert best["name"] == "3"
    assert len(best["prior"]) == len(searched["heads"]["value"]) == 2
    assert sum(move["weight"] for move in searched["moves"]) == pytest.approx(1, abs=1e-4)


@pytest.mark.slow
def test_analysis_deepens_to_its_maximum(client):
    # Trees are kept; no other test searches this position.
    moves = [1, 4]
    found = list(client.answers(client.send("analyse", **TIC, moves=moves, simulations=400)))
    simulations = [answer["simulations"] for answer in found]
    assert simulations == sorted(simulations)
    assert simulations[-1] >= 400
    assert [answer["final"] for answer in found] == [False] * (len(found) - 1) + [True]
    # The opponent's answer continues from the subtree of the same tree.
    moves.append(found[-1]["line_actions"][0])
    first = next(client.answers(client.send("analyse", **TIC, moves=moves, simulations=600)))
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
