"""The Trees view in a real browser: records a search, saves it and opens it again."""

import contextlib
import json

import pytest

import browser
import play_page
from running_server import LIMIT

CONNECT2 = "view=trees&checkpoint=connect2&moves=1"
SIZE = {"width": 1200, "height": 800}


@contextlib.contextmanager
def record(chromium, server, simulations=(4, 3)):
    """Opens the Trees view and records a search of Dual at Connect2; yields the page."""
    with play_page.open_play(chromium, server, CONNECT2, viewport=SIZE) as page:
        page.locator('select[name="tree-variant"]').select_option("dual")
        for number, count in enumerate(simulations):
            page.locator('input[name="tree-simulations"]').nth(number).fill(str(count))
        page.get_by_label("compare with AlphaZero").uncheck()
        page.get_by_role("button", name="Record the search").click()
        page.locator(".tree-stage .dv").first.wait_for()
        yield page


def save(page, name, folder):
    """Presses a button that saves a file; returns its path."""
    with page.expect_download() as download:
        page.get_by_role("button", name=name).click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


@pytest.mark.slow
def test_a_recording_is_saved_as_a_page_that_needs_no_server(chromium, server, tmp_path):
    with record(chromium, server) as page:
        saved = save(page, "Save HTML", tmp_path)
        recording = json.loads(save(page, "Save JSON", tmp_path).read_text(encoding="utf-8"))
        text = page.locator(".tree-stage .dv").first.inner_text()
    assert recording["moves"] == ["1"]
    assert recording["simulations"] == [4, 3]
    with browser.open_page(chromium, offline=True, viewport=SIZE) as page:
        page.goto(saved.as_uri())
        page.locator("#viewer .dv").first.wait_for()
        assert page.locator("#viewer .dv").first.inner_text() == text


@pytest.mark.slow
def test_a_saved_recording_is_opened_again(chromium, server, tmp_path):
    with record(chromium, server) as page:
        path = save(page, "Save JSON", tmp_path)
    with play_page.open_play(chromium, server, "view=trees") as page:
        page.locator('input[name="recording"]').set_input_files(path)
        page.locator(".tree-stage .dv").first.wait_for()
        assert page.locator("#error").is_hidden()


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "text", ["no JSON", "[1]", '{"format": "another"}', '{"format": "dualmctx-recording"}']
)
def test_another_file_is_refused_with_a_message(chromium, server, tmp_path, text):
    path = tmp_path / "file.json"
    path.write_text(text)
    with play_page.open_play(chromium, server, "view=trees") as page:
        page.locator('input[name="recording"]').set_input_files(path)
        page.locator("#error").wait_for()
        assert "recording" in page.locator("#error").inner_text()


@pytest.mark.slow
def test_a_budget_beyond_the_limit_is_refused_with_a_message(chromium, server):
    with play_page.open_play(chromium, server, CONNECT2) as page:
        page.locator('input[name="tree-simulations"]').first.fill("999999")
        page.get_by_role("button", name="Record the search").click()
        page.locator("#error").wait_for()
        assert str(LIMIT) in page.locator("#error").inner_text()
        assert page.get_by_role("button", name="Record the search").is_enabled()


def hold_back(page, kind, held, routes):
    """Drops the answers of a type while the list `held` is not empty.

    Appends each socket of the page to `routes`.
    """

    def connect(route):
        routes.append(route)
        server = route.connect_to_server()
        server.on_message(
            lambda text: None if held and f'"type":"{kind}"' in text else route.send(text)
        )

    page.route_web_socket("**/socket", connect)


def test_nothing_is_searched_before_the_network_is_open(chromium, server):
    with browser.open_page(chromium, viewport=SIZE) as page:
        held = [True]
        hold_back(page, "opened", held, [])
        page.goto(f"{server.address}#{CONNECT2}")
        assert page.get_by_role("button", name="Record the search").is_disabled()
        page.get_by_role("tab", name="Analyse").click()
        page.get_by_role("button", name="Evaluate all positions").wait_for()
        for name in ("Stop analysis", "Evaluate all positions"):
            assert page.get_by_role("button", name=name).is_disabled()
        page.get_by_role("tab", name="Play").click()
        page.get_by_label("Strength").wait_for()
        assert page.get_by_label("Strength").is_disabled()
        held.clear()
        page.reload()
        page.get_by_label("Strength").and_(page.locator(":enabled")).wait_for()


@pytest.mark.slow
def test_the_progress_is_removed_when_the_work_ends(chromium, server):
    with browser.open_page(chromium, viewport=SIZE) as page:
        routes, held = [], [True]
        hold_back(page, "recording", held, routes)
        page.goto(f"{server.address}#{CONNECT2}")
        page.get_by_role("button", name="Record the search").click()
        question = {"type": "progress", "stage": "recording the search", "seconds": 3}
        for identity in range(1, 9):  # one of them is the recording's
            routes[0].send(json.dumps({**question, "id": identity}))
        progress = page.locator("#progress")
        progress.filter(has_text="Recording the search").wait_for()
        assert page.locator("#connection").is_hidden()
        box, stage = progress.bounding_box(), page.locator("main").bounding_box()
        assert box["y"] + box["height"] <= stage["y"]  # covers nothing
        page.get_by_role("button", name="Stop recording").click()
        progress.wait_for(state="hidden")
        assert page.get_by_role("button", name="Record the search").is_visible()
        assert page.locator("#error").is_hidden()


@pytest.mark.slow
def test_controls_trees_and_explanation_are_visible_at_once(chromium, server):
    with record(chromium, server) as page:
        page.keyboard.press("PageDown")
        parts = [
            page.get_by_role("button", name="Record the search"),
            page.get_by_role("button", name="Save JSON"),
            page.locator(".dv-slider"),
            *page.locator(".dv-tree").all(),
            page.locator(".dv-step .dv-sentence"),
        ]
        assert len(parts) == 6
        tops = [part.bounding_box()["y"] for part in parts[:2]]
        assert tops[0] == tops[1]  # one row
        for part in parts:
            box = part.bounding_box()
            assert box["y"] >= 0
            assert box["y"] + box["height"] <= SIZE["height"]
