"""The Trees view in a real browser, with made recordings."""

import json

import browser
import pages
from pages import LAPTOP, error, press
from running_server import LIMIT

CONNECT2 = "view=trees&checkpoint=connect2&moves=1"


def test_a_budget_beyond_the_limit_is_refused_with_a_message(visit):
    page = visit(CONNECT2)
    page.locator('input[name="tree-simulations"]').first.fill("999999")
    press(page, "Record the search")
    pages.wait_for_text(error(page), str(LIMIT))
    assert page.get_by_role("button", name="Record the search").is_enabled()


def test_nothing_is_searched_before_the_network_is_open(visit, socket):
    socket.held.add("opened")
    page = visit(CONNECT2, **LAPTOP)
    assert page.get_by_role("button", name="Record the search").is_disabled()
    page.get_by_role("tab", name="Analyse").click()
    page.get_by_role("button", name="Evaluate all positions").wait_for()
    for name in ("Stop analysis", "Evaluate all positions"):
        assert page.get_by_role("button", name=name).is_disabled()
    page.get_by_role("tab", name="Play").click()
    page.get_by_label("Strength").wait_for()
    assert page.get_by_label("Strength").is_disabled()
    socket.held.clear()
    page.reload()
    page.get_by_label("Strength").and_(page.locator(":enabled")).wait_for()


def test_the_progress_is_removed_when_the_work_ends(visit, socket):
    socket.held.add("recording")
    page = visit(CONNECT2, **LAPTOP)
    press(page, "Record the search")
    page.get_by_role("button", name="Stop recording").wait_for()
    [question] = socket.questions("record_search")
    progress = {"type": "progress", "stage": "recording the search", "seconds": 3}
    socket.routes[0].send(json.dumps(progress | {"id": question["id"]}))
    place = page.locator("#progress")
    pages.wait_for_text(place, "Recording the search")
    assert page.locator("#connection").is_hidden()
    box, stage = place.bounding_box(), page.locator("main").bounding_box()
    assert box["y"] + box["height"] <= stage["y"]  # covers nothing
    press(page, "Stop recording")
    place.wait_for(state="hidden")
    assert page.get_by_role("button", name="Record the search").is_visible()
    assert error(page).is_hidden()


def test_a_recording_is_saved_as_a_page_that_needs_no_server(visit, socket, chromium, tmp_path):
    page = visit(CONNECT2, **LAPTOP)
    page.locator('select[name="tree-variant"]').select_option("dual")
    for number, count in enumerate((4, 3)):
        page.locator('input[name="tree-simulations"]').nth(number).fill(str(count))
    press(page, "Record the search")
    page.locator(".tree-stage .dv").wait_for()
    saved = pages.save(page, "Save HTML", tmp_path)
    text = page.locator(".tree-stage .dv").inner_text()
    [question] = socket.questions("record_search")
    asked = {"moves": ["1"], "variant": "dual", "simulations": [4, 3], "compare": True}
    assert asked.items() <= question.items()
    with browser.open_page(chromium, offline=True, **LAPTOP) as page:
        page.goto(saved.as_uri())
        page.locator("#viewer .dv").wait_for()
        assert page.locator("#viewer .dv").inner_text() == text


def test_controls_trees_and_explanation_are_visible_at_once(visit):
    page = visit(CONNECT2, **LAPTOP)
    press(page, "Record the search")
    page.locator(".tree-stage .dv").wait_for()
    page.keyboard.press("PageDown")
    parts = [
        page.get_by_role("button", name="Record the search"),
        page.get_by_role("button", name="Save HTML"),
        page.locator(".dv-slider"),
        *page.locator(".dv-tree").all(),
        page.locator(".dv-step .dv-sentence"),
    ]
    assert len(parts) == 5
    tops = [part.bounding_box()["y"] for part in parts[:2]]
    assert tops[0] == tops[1]  # one row
    for part in parts:
        box = part.bounding_box()
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= LAPTOP["viewport"]["height"]
