"""The Analyse view in a real browser, against the packaged networks."""

import json
import re
import time

import jax
import numpy as np
import pytest

import games
from analyse_page import (
    address,
    open_analyse,
    status,
    table,
    values,
    wait_for_place,
    wait_for_status,
)
from dualmctx.evaluation.factory import load_evaluator
from running_server import LIMIT, run_server

# The simulations of the network's own search, which all tests of the page compile once.
SHORT = "maximum=85"
# After 1 and 2, only 4, 5 and 7 win for X; 2 is a blunder.
BLUNDER = "moves=1,2,5"


def test_numbers_are_those_of_the_last_answer(chromium, server):
    with open_analyse(chromium, server, f"{SHORT}&moves=5,1") as opened:
        wait_for_status(opened.page, "Finished")
        answer = opened.answers("analysis")[-1]
        assert answer["final"]
        rows = table(opened.page)
        assert next(iter(rows)) == answer["line"][0]
        assert sorted(rows) == sorted(move["name"] for move in answer["moves"])
        for move in answer["moves"]:
            shown = rows[move["name"]]
            assert (shown["visits"], shown["q"]) == (move["visits"], move["q"])
            assert shown["weight"] == move["weight"]
            assert [shown[f"prior-{i}"] for i in range(len(move["prior"]))] == move["prior"]
        value = opened.page.locator(".value-number").get_attribute("data-value")
        assert float(value) == answer["value"]
        heads = [number for name, number in values(opened.page).items() if name.endswith(" head")]
        assert heads == answer["heads"]["value"]


@pytest.mark.slow
def test_numbers_are_those_of_an_evaluation_in_python(chromium, server):
    # A search of this test alone: another one may continue from a tree that another test has grown.
    search = "variant=alphazero&maximum=64"
    with open_analyse(chromium, server, f"{search}&moves=5,1") as opened:
        wait_for_status(opened.page, "Finished")
        rows = table(opened.page)
        value = opened.page.locator(".value-number").get_attribute("data-value")
    evaluator = load_evaluator("tic-tac-toe", variant="alphazero", simulations=64, batch_size=1)
    state = games.replay(evaluator.env, [[4, 0]])
    found = jax.tree.map(lambda x: x[0], evaluator(state))
    assert float(value) == pytest.approx(found.value, abs=1e-5)
    for name, row in rows.items():
        action = int(name) - 1
        assert row["visits"] == found.visits[action]
        assert row["weight"] == pytest.approx(found.action_weights[action], abs=1e-5)
        assert row["prior-1"] == pytest.approx(found.network_policy[1, action], abs=1e-5)
        if row["q"] is None:
            assert np.isnan(found.qvalues[action])
        else:
            assert row["q"] == pytest.approx(found.qvalues[action], abs=1e-5)


@pytest.mark.slow
def test_the_board_shows_the_chosen_number_of_each_move(chromium, server):
    with open_analyse(chromium, server, f"{SHORT}&moves=5,1&number=visits") as opened:
        page = opened.page
        wait_for_status(page, "Finished")
        visits = [str(move["visits"]) for move in opened.answers("analysis")[-1]["moves"]]
        texts = page.locator(".overlay-item text:first-of-type").all_text_contents()
        assert sorted(texts) == sorted(visits)
        assert page.locator(".overlay-item.best").count() == 1
        page.get_by_label("Numbers on the board").select_option("none")
        assert page.locator(".overlay-item").count() == 0
        assert address(page)["number"] == "none"


def test_the_table_sorts_by_any_column(chromium, server):
    with open_analyse(chromium, server, f"{SHORT}&moves=5,1") as opened:
        page = opened.page
        wait_for_status(page, "Finished")
        page.locator('th[data-key="visits"] button').click()
        assert page.locator('th[data-key="visits"]').get_attribute("aria-sort") == "descending"
        visits = [row["visits"] for row in table(page).values()]
        assert visits == sorted(visits, reverse=True)
        page.locator('th[data-key="visits"] button').click()
        visits = [row["visits"] for row in table(page).values()]
        assert visits == sorted(visits)


def test_exact_values_are_those_of_the_solver(chromium, server):
    env = games.make("tic_tac_toe")
    solution, step = games.solve(env), jax.jit(env.step)
    state = step(step(env.init(jax.random.PRNGKey(0)), 0), 1)
    expected = {
        str(action + 1): -int(solution.code_values[int(solution.code_fn(step(state, action)))])
        for action in np.flatnonzero(state.legal_action_mask)
    }
    with open_analyse(chromium, server, f"{SHORT}&moves=1,2") as opened:
        wait_for_status(opened.page, "Finished")
        opened.page.locator("dt", has_text="Exact").wait_for()
        assert {name: row["exact"] for name, row in table(opened.page).items()} == expected
        assert values(opened.page)["Exact"] == 1


def test_exact_values_are_shown_without_a_search(chromium, server):
    with open_analyse(chromium, server, "analysing=0&moves=1,2&number=exact") as opened:
        page = opened.page
        page.locator(".overlay-item").nth(6).wait_for()
        wins = page.locator(".overlay-item", has_text="win").count()
        assert wins == sum(row["exact"] == 1 for row in table(page).values()) > 0
        assert all(row["visits"] is None for row in table(page).values())


def test_a_move_continues_from_its_subtree(chromium, server):
    with open_analyse(chromium, server, "maximum=255") as opened:
        page = opened.page
        wait_for_status(page, "Finished")
        before = opened.answers("analysis")
        totals = [np.sum(answer["simulations"]) for answer in before]
        assert totals == sorted(totals)
        page.locator(".move-table tr.best button").click()
        wait_for_place(page, 1, 1)
        wait_for_status(page, "Finished")
        after = opened.answers("analysis")[len(before) :]
        # Without a kept subtree, these would be multiples of the 85 simulations of a step.
        assert all(np.sum(answer["simulations"]) % 85 for answer in after)


def test_stop_leaves_the_server_idle_and_a_reload_keeps_it_stopped(chromium, server):
    with open_analyse(chromium, server) as opened:
        page = opened.page
        wait_for_status(page, "Running")
        page.get_by_role("button", name="Stop analysis").click()
        wait_for_status(page, "Stopped")
        engine = server.context.engines.engine("tic-tac-toe")
        page.wait_for_timeout(500)
        assert engine.is_idle
        page.reload()
        wait_for_status(page, "Stopped")
        page.get_by_role("button", name="Start analysis").click()
        wait_for_status(page, "Running")


@pytest.mark.slow
def test_a_reload_resumes_the_analysis(chromium, server):
    with open_analyse(chromium, server, "moves=5") as opened:
        page = opened.page
        wait_for_status(page, "Running")
        page.reload()
        count = len(opened.answers("analysis"))
        wait_for_place(page, 1, 1)
        wait_for_status(page, f"of {LIMIT:,} simulations")
        assert len(opened.answers("analysis")) > count
        assert table(page)


@pytest.mark.slow
def test_leaving_the_view_stops_the_analysis(chromium, server):
    with open_analyse(chromium, server, "first=human&second=human&moves=2") as opened:
        page = opened.page
        wait_for_status(page, "Running")
        page.get_by_role("tab", name="Play").click()
        page.locator("#view-play .board").wait_for()
        page.wait_for_timeout(500)
        assert server.context.engines.engine("tic-tac-toe").is_idle
        page.get_by_role("tab", name="Analyse").click()
        page.wait_for_function("document.querySelector('#view-analyse .move-table tbody tr')")
        wait_for_status(page, "simulations")


@pytest.mark.slow
def test_two_tabs_analyse_different_positions(chromium, server):
    with (
        open_analyse(chromium, server, f"{SHORT}&moves=5") as one,
        open_analyse(chromium, server, f"{SHORT}&moves=1,5") as other,
    ):
        for opened, moves in ((one, 8), (other, 7)):
            wait_for_status(opened.page, "Finished")
            assert len(table(opened.page)) == moves


def test_keys_step_through_the_game(chromium, server):
    with open_analyse(chromium, server, f"{SHORT}&moves=5,1,9,2") as opened:
        page = opened.page
        wait_for_place(page, 4, 4)
        for key, ply in (("ArrowLeft", 3), ("Home", 0), ("ArrowRight", 1), ("End", 4)):
            page.keyboard.press(key)
            wait_for_place(page, ply, 4)
        for key in ("ArrowLeft", "ArrowRight") * 20:  # as if a key were held down
            page.keyboard.press(key)
        wait_for_status(page, "Finished")
        assert page.locator("#error").inner_text() == ""
        page.get_by_label("Maximum of simulations").focus()
        page.keyboard.press("Home")  # moves the cursor in the field
        wait_for_place(page, 4, 4)


@pytest.mark.slow
def test_slow_exact_values_are_asked_for_one_at_a_time(chromium, server, monkeypatch):
    def find_slowly(*_):
        time.sleep(1)

    monkeypatch.setattr("dualmctx.web.handlers.find_exact", find_slowly)
    with open_analyse(chromium, server, f"{SHORT}&moves=5,1,9,2") as opened:
        page = opened.page
        wait_for_place(page, 4, 4)
        for key in ("ArrowLeft", "ArrowRight") * 10:
            page.keyboard.press(key)
            page.wait_for_timeout(150)  # longer than the page waits for further keys
        wait_for_place(page, 4, 4)
        assert page.locator("#error").inner_text() == ""
        asked = sum(message["type"] == "exact" for message in opened.sent)
        assert asked - len(opened.answers("exact")) <= 1


def test_the_principal_variation_is_a_preview_until_it_is_played(chromium, server):
    with open_analyse(chromium, server, "maximum=170&moves=5,1") as opened:
        page = opened.page
        wait_for_status(page, "Finished")
        line = opened.answers("analysis")[-1]["line"]
        assert len(line) > 1
        assert page.locator(".line-moves button").all_inner_texts() == line
        page.locator(".line-moves button").nth(1).click()
        page.locator(".position-caption", has_text="Preview").wait_for()
        assert address(page)["moves"] == "5,1"
        page.keyboard.press("Escape")
        wait_for_place(page, 2, 2)
        page.locator(".line-moves button").nth(1).click()
        page.get_by_role("button", name="Play these 2 moves").click()
        wait_for_place(page, 4, 4)
        assert address(page)["moves"].split(",") == ["5", "1", *line[:2]]


@pytest.mark.slow
def test_the_review_marks_the_blunder(chromium, server):
    with open_analyse(chromium, server, f"{SHORT}&{BLUNDER}") as opened:
        page = opened.page
        page.get_by_role("button", name="Evaluate all positions").click()
        page.locator(".review-status", has_text="Evaluated 4 positions.").wait_for(timeout=120_000)
        rows = opened.answers("reviewed")[-1]["positions"]
        assert [row["mark"] for row in rows] == [None, "blunder", None, None]
        assert page.locator("ol.moves button").all_inner_texts() == ["1. 1", "2. 2 ??", "3. 5"]
        points = page.locator(".curve-point").evaluate_all(
            "points => points.map((point) => Number(point.dataset.value))"
        )
        assert points == [row["value_first"] for row in rows]
        label = page.locator(".curve-point.blunder").get_attribute("aria-label")
        assert "O plays 2, blunder: turns a draw into a loss; best: 5." in label
        page.locator(".curve-point.blunder").focus()
        page.keyboard.press("Enter")
        wait_for_place(page, 1, 3)


@pytest.mark.slow
def test_a_new_move_keeps_the_rows_before_it(chromium, server):
    with open_analyse(chromium, server, f"{SHORT}&{BLUNDER}&ply=1") as opened:
        page = opened.page
        page.get_by_role("button", name="Evaluate all positions").click()
        page.locator(".curve-point").nth(3).wait_for(timeout=120_000)
        wait_for_status(page, "Finished")
        page.locator('.move-table button[title="Play 5"]').click()
        page.locator(".review-status", has_text="Evaluated 2 of 3 positions").wait_for()
        assert page.locator(".curve-point").count() == 2
        assert page.locator(".curve-point.blunder").count() == 0


def open_record(page, text):
    """Pastes a record and opens it."""
    if not page.locator(".record-input[open]").count():
        page.get_by_text("Open a record", exact=True).click()
    page.locator(".record-input textarea").fill(text)
    page.get_by_role("button", name="Open the record").click()


def test_a_pasted_record_opens_and_a_broken_one_changes_nothing(chromium, server):
    with open_analyse(chromium, server, f"{SHORT}&moves=9") as opened:
        page = opened.page
        wait_for_place(page, 1, 1)
        open_record(page, "5 5 1")
        page.locator(".record-message.error").wait_for()
        assert address(page)["moves"] == "9"
        assert page.locator(".record-input textarea").input_value() == "5 5 1"
        open_record(page, "5 1 9")
        page.locator(".record-message", has_text="Opened 3 moves").wait_for()
        wait_for_place(page, 0, 3)
        page.go_back()
        wait_for_place(page, 1, 1)


@pytest.mark.slow
def test_an_uploaded_record_opens_and_a_large_one_is_refused(chromium, server):
    with open_analyse(chromium, server, SHORT) as opened:
        page = opened.page
        wait_for_place(page, 0, 0)
        page.get_by_text("Open a record", exact=True).click()
        upload = page.locator(".record-input input[type=file]")
        record = {"name": "game.txt", "mimeType": "text/plain", "buffer": b"5 1 9 3"}
        upload.set_input_files(record)
        wait_for_place(page, 0, 4)
        upload.set_input_files(record | {"name": "large.txt", "buffer": b"5 1\n" * 100_000})
        page.locator(".record-message.error", has_text="large.txt has 400,000 bytes").wait_for()
        wait_for_place(page, 0, 4)


@pytest.mark.slow
def test_the_analysis_is_saved_as_json(chromium, server):
    with open_analyse(chromium, server, f"{SHORT}&moves=5,1") as opened:
        page = opened.page
        wait_for_status(page, "Finished")
        with page.expect_download() as download:
            page.get_by_role("button", name="Save the analysis").click()
        saved = json.loads(download.value.path().read_text(encoding="utf-8"))
        assert saved["format"] == "dualmctx-analysis"
        assert saved["position"]["moves"] == ["5", "1"]
        assert saved["analysis"] == opened.answers("analysis")[-1]


@pytest.mark.slow
def test_moves_and_link_are_copied(chromium, server):
    options = {"permissions": ["clipboard-read", "clipboard-write"]}
    with open_analyse(chromium, server, f"{SHORT}&moves=5,1", **options) as opened:
        page = opened.page
        wait_for_place(page, 2, 2)
        read = "navigator.clipboard.readText()"
        page.get_by_role("button", name="Copy moves").click()
        page.locator(".copy-message", has_text="Copied the moves.").wait_for()
        assert page.evaluate(read) == "5 1"
        page.get_by_role("button", name="Copy link").click()
        page.locator(".copy-message", has_text="Copied the link.").wait_for()
        assert page.evaluate(read) == page.url


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_a_phone_shows_the_view_without_horizontal_scrolling(chromium, server, scheme):
    options = {"viewport": {"width": 390, "height": 844}, "color_scheme": scheme}
    with open_analyse(chromium, server, f"{SHORT}&{BLUNDER}", **options) as opened:
        page = opened.page
        page.get_by_role("button", name="Evaluate all positions").click()
        page.locator(".curve-point").nth(3).wait_for(timeout=120_000)
        wait_for_status(page, "simulations")
        assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_wrong_settings_in_the_address_are_reported(chromium, server):
    with open_analyse(chromium, server, "maximum=0&number=pi") as opened:
        page = opened.page
        wait_for_place(page, 0, 0)
        text = page.locator("#error").inner_text()
        assert re.search(r"maximum in the address: .0. is not a whole number", text)
        assert "number in the address" in text
        assert status(page).count() == 1


@pytest.fixture
def other_games():
    """Serves games with PGN, SGF and a solver that is installed separately."""
    yield from run_server("gardner-chess", "go-9x9", "connect-four")


@pytest.mark.slow
def test_records_of_chess_and_go_open(chromium, other_games):
    pgn = """[Variant "Gardner"]\n[White "Ada"]\n[Black "Bob"]\n\n1. c3 bxc3 2. dxc3 *\n"""
    sgf = "(;GM[1]SZ[9]KM[7.5];B[ee];W[cc];B[])"
    games_of = (("gardner-chess", pgn, 3, "white Ada, black Bob"), ("go-9x9", sgf, 3, ""))
    for checkpoint, record, count, text in games_of:
        state = f"checkpoint={checkpoint}&analysing=0"
        with open_analyse(chromium, other_games, state) as opened:
            wait_for_place(opened.page, 0, 0)
            open_record(opened.page, record)
            opened.page.locator(".record-message", has_text=f"Opened {count} moves").wait_for()
            assert text in opened.page.locator(".record-message").inner_text()
            opened.page.keyboard.press("End")
            wait_for_place(opened.page, count, count)


@pytest.mark.slow
def test_the_review_marks_a_blunder_of_connect_four_by_its_exact_value(chromium, other_games):
    pytest.importorskip("bitbully")
    # The first move in the centre wins; after 1 the second side wins.
    state = "checkpoint=connect-four&analysing=0&moves=1,4"
    with open_analyse(chromium, other_games, state) as opened:
        page = opened.page
        page.get_by_label("Simulations per position").fill("16")
        page.get_by_role("button", name="Evaluate all positions").click()
        page.locator(".curve-point.blunder").first.wait_for(timeout=120_000)
        row = opened.answers("reviewed")[-1]["positions"][0]
        assert row["exact"]["best"] == ["4"]
        assert row["exact"]["loss"] == 2
        assert "1. 1 ??" in page.locator("ol.moves button").all_inner_texts()


def test_ranks_follow_the_policy(chromium, server):
    with open_analyse(chromium, server, f"{SHORT}&moves=1,4,2,5") as opened:
        wait_for_status(opened.page, "Finished")
        rows = list(table(opened.page).values())
        ranks = opened.page.locator("td[data-key=rank]").all_inner_texts()
        note = opened.page.locator(".policy-note").inner_text()
        policy = opened.answers("analysis")[-1]["policy"]
    weights = [row["weight"] for row in rows]
    assert weights == sorted(weights, reverse=True)
    num_ranked = sum(weight > 0 for weight in weights)
    assert num_ranked > 1
    assert ranks == [*map(str, range(1, num_ranked + 1)), *["–"] * (len(rows) - num_ranked)]
    assert note.startswith(policy)
