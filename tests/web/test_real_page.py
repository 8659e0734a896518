"""The page in a real browser with real searches; the other tests of the page use a fake engine."""

import json
import random

import jax
import numpy as np
import pytest

import browser
import games
import pages
from dualmctx.evaluation.factory import load_evaluator
from pages import LAPTOP, press, table, wait_for_status


@pytest.mark.slow
@pytest.mark.parametrize(
    ("state", "seeds"), [("", range(2)), ("first=engine&second=human", range(1))]
)
def test_random_play_never_beats_the_engine_at_tic_tac_toe(visit, server, state, seeds):
    page = visit(state, at=server)
    page.locator('#view-play[data-search="compiled"]').wait_for()
    for seed in seeds:
        result = pages.play_game(page, random.Random(seed).choice)
        assert result.startswith(("The engine wins", "Draw")), (seed, result)
        press(page, "New game")
        pages.wait_for_moves(page, int("first" in state))


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
    evaluator = load_evaluator("tic-tac-toe", variant="alphazero", simulations=64, batch_size=1)
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
def test_the_review_marks_the_blunder(visit, socket, server):
    # After 1 and 2, only 4, 5 and 7 win for X; 2 is a blunder.
    page = visit("view=analyse&analysing=0&moves=1,2,5", at=server)
    press(page, "Evaluate all positions")
    pages.wait_for_text(page.locator(".review-status"), "Evaluated 4 positions.")
    rows = socket.answers("reviewed")[-1]["positions"]
    assert [row["mark"] for row in rows] == [None, "blunder", None, None]
    assert page.locator("ol.moves button").all_inner_texts() == ["1. 1", "2. 2 ??", "3. 5"]
    points = page.locator(".curve-point").evaluate_all(
        "points => points.map((point) => Number(point.dataset.value))"
    )
    assert points == [row["value_first"] for row in rows]


@pytest.mark.slow
def test_a_recording_is_saved_as_a_page_without_a_server_and_opened_again(
    visit, server, chromium, tmp_path
):
    page = visit("view=trees&checkpoint=connect2&moves=1", **LAPTOP, at=server)
    page.locator('select[name="tree-variant"]').select_option("dual")
    for number, count in enumerate((4, 3)):
        page.locator('input[name="tree-simulations"]').nth(number).fill(str(count))
    press(page, "Record the search")
    page.locator(".tree-stage .dv").wait_for()
    saved = pages.save(page, "Save HTML", tmp_path)
    path = pages.save(page, "Save JSON", tmp_path)
    text = page.locator(".tree-stage .dv").inner_text()
    page.reload()
    page.locator('input[name="recording"]').set_input_files(path)
    page.locator(".tree-stage .dv").wait_for()
    assert page.locator(".tree-stage .dv").inner_text() == text
    recording = json.loads(path.read_text(encoding="utf-8"))
    assert (recording["moves"], recording["simulations"]) == (["1"], [4, 3])
    assert recording["comparison"]["variant"] == "alphazero"
    with browser.open_page(chromium, offline=True, **LAPTOP) as page:
        page.goto(saved.as_uri())
        page.locator("#viewer .dv").wait_for()
        assert page.locator("#viewer .dv").inner_text() == text
