"""What the page says about its numbers, and what the board shows of a finished game."""

import re

import pytest

from analyse_page import address, open_analyse, wait_for_place, wait_for_status
from dualmctx.web.limits import MAX_MESSAGE_BYTES
from play_page import cell, open_play, wait_for_turn
from running_server import run_server

SHORT = "maximum=85"
OVER = "moves=1,4,2,5,3"

DESCRIBE = """async (rows) => {
  const { describeStatus } = await import("/evaluation_panel.js");
  return rows.map(([simulations, reused, maximum]) => describeStatus(
    { analysis: { simulations, reused }, maximum, speed: null, status: "Finished." }));
}"""
STATUSES = [
    ((64, 0, 200), "64 of 200 simulations. Finished."),
    ((200, 0, 200), "200 of 200 simulations. Finished."),
    ((224, 0, 200), "224 simulations (the maximum of 200 in whole steps). Finished."),
    ((74, 42, 200), "74 of 200 simulations, 42 of them kept from an earlier search. Finished."),
    (
        (74, 42, 32),
        "74 simulations (more than the maximum of 32), 42 of them kept from an earlier search. "
        "Finished.",
    ),
    (
        (2000, 2000, 200),
        "2,000 simulations (more than the maximum of 200), all of them kept from an earlier "
        "search. Finished.",
    ),
]


def test_the_number_of_simulations_is_explained(chromium, server):
    with open_analyse(chromium, server, "analysing=0") as opened:
        wait_for_place(opened.page, 0, 0)
        texts = opened.page.evaluate(DESCRIBE, [list(numbers) for numbers, _ in STATUSES])
    assert texts == [text for _, text in STATUSES]


def test_the_button_says_when_there_is_nothing_to_search(chromium, server):
    with open_analyse(chromium, server, f"{SHORT}&{OVER}&ply=4") as opened:
        page, toggle = opened.page, opened.page.locator(".analysis-toggle")
        wait_for_status(page, "Finished")
        assert (toggle.inner_text(), toggle.is_disabled()) == ("Analysis finished", True)
        page.keyboard.press("End")
        wait_for_place(page, 5, 5)
        wait_for_status(page, "The game is over: X won.")
        assert (toggle.inner_text(), toggle.is_disabled()) == ("Game over", True)
        assert not page.locator(".move-table").is_visible()
        page.keyboard.press("Home")
        wait_for_place(page, 0, 5)
        # It says so as soon as the search begins, which may be over at once.
        toggle.filter(has_text=re.compile("Stop analysis|Analysis finished")).wait_for()


def test_moves_can_be_copied_at_the_start_of_a_game(chromium, server):
    """The start is the same position before and after the record is opened."""
    with open_analyse(chromium, server, "analysing=0") as opened:
        page = opened.page
        copy = page.get_by_role("button", name="Copy moves")
        wait_for_place(page, 0, 0)
        assert copy.is_disabled()
        page.get_by_text("Open a record", exact=True).click()
        page.locator(".record-input textarea").fill("5 1 9")
        page.get_by_role("button", name="Open the record").click()
        wait_for_place(page, 0, 3)
        assert copy.is_enabled()


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        ("variant=dual:num_rounds=3", '"dual:num_rounds=3" is not in the list of searches'),
        ("variant=no-such-search", '"no-such-search" is not in the list of searches'),
        ("simulations=1,2,3", "3 numbers do not fit a search with 2 trees"),
        ("variant=alphazero&simulations=5,5", "2 numbers do not fit a search with one tree"),
    ],
)
def test_the_page_shows_no_search_but_the_one_that_plays(chromium, server, state, problem):
    with open_play(chromium, server, f"first=human&second=human&{state}") as page:
        page.locator("#error", has_text=problem).wait_for()
        assert address(page).get("variant", "alphazero") == "alphazero"
        assert "simulations" not in address(page)


@pytest.mark.parametrize("state", ["variant=dual", "simulations=40", "variant=own&simulations=5,5"])
def test_a_search_of_the_list_is_read_from_the_address(chromium, server, state):
    with open_play(chromium, server, f"first=human&second=human&{state}") as page:
        page.locator("select[name=variant]").and_(page.locator(":enabled")).wait_for()
        wait_for_turn(page)
        assert not page.locator("#error").is_visible()
        assert dict(pair.split("=") for pair in state.split("&")).items() <= address(page).items()


@pytest.mark.slow
def test_the_review_uses_the_search_of_the_view(chromium):
    """The default search begins anew for each budget, so the view shows another one."""
    for gumbel in run_server("tic-tac-toe", variant="gumbel"):
        with open_analyse(chromium, gumbel, "analysing=0") as opened:
            page = opened.page
            wait_for_place(page, 0, 0)
            shown = page.locator("select[name=analysis-variant]").input_value()
            page.get_by_role("button", name="Evaluate all positions").click()
            page.get_by_role("button", name="Stop", exact=True).click()
            [sent] = [message for message in opened.sent if message["type"] == "review"]
            assert shown
            assert sent["variant"] == shown


@pytest.mark.parametrize(("text", "is_long"), [("5", False), ("\n", True), ('"', True)])
def test_a_record_is_measured_as_the_message_that_it_becomes(chromium, server, text, is_long):
    measure = """async ([text, limits]) => {
      const { checkSize } = await import("/record.js");
      try { checkSize(text, "The record", { welcome: { limits } }); }
      catch (error) { return error.message; }
      return "";
    }"""
    with open_play(chromium, server) as page:
        found = page.evaluate(measure, [text * 200_000, {"message_bytes": MAX_MESSAGE_BYTES}])
    long = "The record has 400,002 bytes; a record may have at most 260,144."
    assert found.startswith(long) if is_long else found == ""


def test_searches_have_one_name_in_all_views(chromium, server):
    with open_play(chromium, server, "first=human&second=human") as page:
        wait_for_turn(page)
        page.locator("select[name=variant]").and_(page.locator(":enabled")).wait_for()
        names = page.locator("select[name=variant] option").all_inner_texts()
        assert names[0] == "dual (own)"
        for tab, name in (("Analyse", "analysis-variant"), ("Trees", "tree-variant")):
            page.get_by_role("tab", name=tab).click()
            page.locator(f"select[name={name}] option").first.wait_for(state="attached")
            found = page.locator(f"select[name={name}] option").all_inner_texts()
            assert [text.removesuffix(", begins anew") for text in found] == names


def test_marks_of_the_curve_are_above_it(chromium, server):
    with open_analyse(chromium, server, "analysing=0&moves=1,2,5") as opened:
        page = opened.page
        page.get_by_label("Simulations per position").fill("5")
        page.get_by_role("button", name="Evaluate all positions").click()
        page.locator(".curve-mark").first.wait_for(timeout=120_000)
        summary = page.locator(".review-summary tr[data-side] td:last-child").all_inner_texts()
        assert summary == ["0.00", "1.00"]  # by the exact values, as the marks
        bottom = "elements => Math.max(...elements.map((x) => x.getBoundingClientRect().bottom))"
        top = "elements => Math.min(...elements.map((x) => x.getBoundingClientRect().top))"
        signs = page.locator(".curve-mark").evaluate_all(bottom)
        others = page.locator(".curve-dot, .curve-value, .curve-exact, .curve-label")
        assert signs <= others.evaluate_all(top)


@pytest.mark.parametrize(
    ("state", "winning"),
    [("", []), (OVER, [(0, 0), (0, 1), (0, 2)]), ("moves=1,2,3,5,4,6,8,7,9", [])],
)
def test_the_board_of_tic_tac_toe(chromium, server, state, winning):
    """It has squares, also while it is empty; the winning line is marked."""
    with open_play(chromium, server, f"first=human&second=human&{state}") as page:
        wait_for_turn(page)
        assert page.locator(".hole").first.is_visible() is False
        cells = page.locator(".cell.winning").evaluate_all(
            "cells => cells.map((x) => [Number(x.dataset.row), Number(x.dataset.column)])"
        )
        assert [tuple(place) for place in cells] == winning
        for place in winning:
            assert cell(page, *place).get_attribute("aria-label").endswith(", wins")
