"""The Play view in a real browser, against the packaged networks."""

import json
import os
import re
import subprocess
import sys
import time

import pytest

import browser
import play_page
from play_page import cell, moves, open_play, play_cell, status, wait_for_moves, wait_for_turn
from running_server import Running, run_server

BOTH = "checkpoint=tic-tac-toe&second=human"


def error(page):
    """Returns the message above the view."""
    return page.locator("#error")


def wait_for_text(locator, part):
    """Waits until an element contains a text."""
    locator.filter(has_text=part).wait_for()


@pytest.mark.parametrize(
    ("state", "seeds"),
    [
        ("", range(2)),
        ("first=engine&second=human", range(1)),
        pytest.param("", range(2, 8), marks=pytest.mark.slow),
        pytest.param("first=engine&second=human", range(1, 7), marks=pytest.mark.slow),
    ],
)
def test_random_play_never_beats_the_engine_at_tic_tac_toe(chromium, server, state, seeds):
    with open_play(chromium, server, state) as page:
        for seed in seeds:
            result = play_page.play_game(page, play_page.random_player(seed))
            assert result.startswith(("The engine wins", "Draw")), (seed, result, moves(page))
            page.get_by_role("button", name="New game").click()
            play_page.wait_for_moves(page, int("first" in state))


def test_the_engine_wins_in_one_move(chromium, server):
    with open_play(chromium, server, "first=engine&second=human&moves=1,4,2,5") as page:
        page.locator(".banner").wait_for()
        assert moves(page) == ["1", "4", "2", "5", "3"]
        assert page.locator(".banner").inner_text().startswith("The engine wins")
        heard = page.locator("#announcement").text_content()
        assert heard == "Move 5: 3. The game is over. The engine wins. X won"
        assert page.locator('.cell[aria-disabled="false"]').count() == 0
        assert cell(page, 0, 2).get_attribute("aria-label").endswith("X, last move, wins")


def test_the_hint_names_and_marks_the_winning_move(chromium, server):
    with open_play(chromium, server, "moves=1,4,2,5") as page:
        wait_for_turn(page)
        page.get_by_role("button", name="Hint").click()
        wait_for_text(page.locator(".comment"), "Hint: 3, value +")
        assert "hinted" in cell(page, 0, 2).get_attribute("class")
        assert moves(page) == ["1", "4", "2", "5"]


def test_undo_takes_back_the_answer_and_the_move_and_back_does_too(chromium, server):
    with open_play(chromium, server) as page:
        wait_for_turn(page)
        play_cell(page, 5)
        first = wait_for_moves(page, 2)
        play_cell(page, next(number for number in range(1, 10) if str(number) not in first))
        wait_for_moves(page, 4)
        page.get_by_role("button", name="Undo").click()
        assert wait_for_moves(page, 2) == first
        page.go_back()  # before the undo
        wait_for_moves(page, 4)
        page.go_back()  # before the second move
        assert wait_for_moves(page, 2) == first


@pytest.mark.slow
def test_a_resigned_game_is_lost_and_can_be_taken_up_again(chromium, server):
    with open_play(chromium, server, "moves=5,1") as page:
        wait_for_turn(page)
        page.get_by_role("button", name="Resign").click()
        wait_for_text(page.locator(".banner"), "The engine wins. X resigned")
        assert page.locator('.cell[aria-disabled="false"]').count() == 0
        page.reload()
        wait_for_text(page.locator(".banner"), "The engine wins. X resigned")
        page.get_by_role("button", name="Undo").click()
        wait_for_text(status(page), "Your move (X)")


@pytest.mark.slow
def test_two_humans_play_without_the_engine(chromium, server):
    with open_play(chromium, server, BOTH) as page:
        for count, number in enumerate((1, 4, 2, 5, 3), start=1):
            play_cell(page, number)
            wait_for_moves(page, count)
        assert page.locator(".banner").inner_text().startswith("X wins")
        assert page.get_by_role("button", name="Pause").is_hidden()


@pytest.mark.slow
def test_two_engines_play_until_they_are_paused(chromium, server):
    with open_play(chromium, server, "first=engine&moves=1,2,3") as page:
        page.locator("ol.moves li").nth(3).wait_for()
        page.get_by_role("button", name="Pause").click()
        wait_for_text(status(page), "is paused")
        before = moves(page)
        page.get_by_role("button", name="Continue").click()
        page.locator("ol.moves li").nth(len(before)).wait_for()
        page.get_by_role("button", name="Pause").click()
        assert moves(page)[: len(before)] == before


@pytest.mark.slow
def test_a_move_from_an_earlier_position_keeps_the_line_that_it_replaces(chromium, server):
    with open_play(chromium, server, f"{BOTH}&moves=1,4,2,5") as page:
        wait_for_turn(page)
        page.get_by_role("button", name="2. 4").click()
        wait_for_text(status(page), "Position after move 2 of 4")
        play_cell(page, 9)
        assert wait_for_moves(page, 3) == ["1", "4", "9"]
        page.get_by_role("button", name="Return to the line with move 3, 2").click()
        assert wait_for_moves(page, 4) == ["1", "4", "2", "5"]
        assert page.get_by_role("button", name="Return to the line with move 3, 9").is_visible()


def hold_back_searches(page, held):
    """Drops the answers to searches while the list `held` is not empty."""

    def connect(route):
        server = route.connect_to_server()
        server.on_message(lambda text: None if held and "searched" in text else route.send(text))

    page.route_web_socket("**/socket", connect)


def test_a_reload_during_a_search_continues_the_game(chromium, server):
    with browser.open_page(chromium) as page:
        held = [True]
        hold_back_searches(page, held)
        page.goto(server.address)
        wait_for_turn(page)
        play_cell(page, 5)
        wait_for_text(status(page), "The engine (O) is thinking")
        held.clear()
        page.reload()
        assert wait_for_moves(page, 2)[0] == "5"


def test_a_lost_connection_is_shown_and_the_search_is_sent_again(chromium, server):
    with browser.open_page(chromium) as page:
        routes, held = [], [True]

        def connect(route):
            routes.append(route)
            other = route.connect_to_server()
            other.on_message(lambda text: None if held and "searched" in text else route.send(text))

        page.route_web_socket("**/socket", connect)
        page.goto(server.address)
        wait_for_turn(page)
        play_cell(page, 5)
        wait_for_text(status(page), "The engine (O) is thinking")
        routes[0].close(code=1012, reason="The server restarts.")
        wait_for_text(page.locator("#connection.lost"), "The server restarts. Trying again")
        held.clear()
        wait_for_text(page.locator("#connection"), "Connected")
        assert wait_for_moves(page, 2)[0] == "5"
        assert len(routes) == 2


def test_two_tabs_play_two_games(chromium, server):
    with open_play(chromium, server, BOTH) as page:
        other = page.context.new_page()
        other.goto(f"{server.address}#{BOTH}&moves=9")
        for tab, count in ((page, 0), (other, 1)):
            wait_for_moves(tab, count)
        play_cell(page, 1)
        play_cell(other, 2)
        assert wait_for_moves(page, 1) == ["1"]
        assert wait_for_moves(other, 2) == ["9", "2"]


def test_a_game_is_played_with_the_keyboard_alone(chromium, server):
    with open_play(chromium, server, BOTH) as page:
        wait_for_turn(page)
        for _ in range(30):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.matches('.cell')"):
                break
        keys = [
            "Enter",
            "ArrowDown Enter",
            "ArrowUp ArrowRight Enter",
            "ArrowDown Space",
            "Home ArrowUp End Enter",
        ]
        for count, line in enumerate(keys, start=1):
            for key in line.split():
                page.keyboard.press(key)
            wait_for_moves(page, count)
        assert moves(page) == ["1", "4", "2", "5", "3"]
        assert page.locator(".banner").inner_text().startswith("X wins")
        ring = page.evaluate(
            "getComputedStyle(document.activeElement.querySelector('.ring')).stroke"
        )
        assert ring != "none"


def test_a_move_by_the_mouse_leaves_no_mark_of_the_focus(chromium, server):
    with open_play(chromium, server, BOTH) as page:
        wait_for_turn(page)
        play_cell(page, 5)
        wait_for_moves(page, 1)
        ring = page.evaluate(
            "getComputedStyle(document.activeElement.querySelector('.ring')).stroke"
        )
        assert ring == "none"
        assert page.locator(".ghost").count() == 0
        page.mouse.move(*centre(cell(page, 0, 0)))
        assert page.locator(".ghost").text_content() == "O"
        assert page.locator(".mark-corners").count() == 1


def centre(element):
    """Returns the centre of an element on the page, in pixels."""
    box = element.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_a_phone_shows_the_page_without_horizontal_scrolling(chromium, server, scheme):
    size = {"width": 390, "height": 844}
    with open_play(chromium, server, BOTH, viewport=size, color_scheme=scheme) as page:
        wait_for_turn(page)
        page.get_by_text("Record", exact=True).click()
        for tab in ("Play", "Trees"):
            page.get_by_role("tab", name=tab).click()
            page.locator(f"#view-{tab.lower()} > *").first.wait_for()
            assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_a_saved_record_is_loaded_again(chromium, server, tmp_path):
    with open_play(chromium, server, f"{BOTH}&moves=1,4,2,5") as page:
        wait_for_turn(page)
        page.get_by_text("Record", exact=True).click()
        with page.expect_download() as download:
            page.get_by_role("button", name="Save record").click()
        path = tmp_path / download.value.suggested_filename
        download.value.save_as(path)
        page.get_by_role("button", name="New game").click()
        wait_for_moves(page, 0)
        page.locator('input[name="file"]').set_input_files(path)
        assert wait_for_moves(page, 4) == ["1", "4", "2", "5"]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("state", "parts"),
    [
        ("moves=1,1", ("move 2", "1")),
        ("checkpoint=no-such-network", ("no-such-network",)),
        ("temperature=hot", ("temperature", "hot", "0 to 10")),
        ("second=human&variant=no-such-search", ("no-such-search",)),
    ],
)
def test_a_wrong_address_is_answered_with_a_message(chromium, server, state, parts):
    with open_play(chromium, server, state) as page:
        error(page).wait_for()
        text = error(page).inner_text()
        assert all(part in text for part in parts), text


@pytest.mark.slow
def test_a_new_game_mends_a_wrong_address(chromium, server):
    with open_play(chromium, server, "moves=1,1") as page:
        error(page).wait_for()
        page.get_by_role("button", name="New game").click()
        wait_for_text(status(page), "Your move (X)")
        assert error(page).is_hidden()


@pytest.mark.slow
def test_another_game_begins_from_its_start_and_the_address_keeps_it(chromium, server):
    with open_play(chromium, server, f"{BOTH}&moves=1,4") as page:
        wait_for_turn(page)
        page.get_by_label("Game and network").select_option("connect2")
        wait_for_moves(page, 0)
        page.wait_for_function("() => document.querySelectorAll('.cell').length === 4")
        assert "checkpoint=connect2" in page.url
        page.go_back()
        assert wait_for_moves(page, 2) == ["1", "4"]


@pytest.mark.slow
def test_the_strength_is_in_the_address_and_in_the_request(chromium, server):
    with browser.open_page(chromium) as page:
        sent = []
        page.on(
            "websocket",
            lambda socket: socket.on("framesent", lambda text: sent.append(json.loads(text))),
        )
        page.set_default_timeout(60_000)
        page.goto(server.address)
        wait_for_turn(page)
        page.get_by_label("Strength").select_option("Beginner")
        assert "temperature=1" in page.url
        play_cell(page, 5)
        wait_for_moves(page, 2)
        # Searches with temperature 0 only let the server compile.
        [search] = [row for row in sent if row["type"] == "search" and row["temperature"]]
        assert search["temperature"] == 1
        assert f"simulations={','.join(map(str, search['simulations']))}" in page.url
        page.locator('input[name="temperature"]').fill("20")
        page.locator('input[name="temperature"]').blur()
        assert "temperature=20" not in page.url


@pytest.mark.slow
def test_a_promotion_asks_for_the_piece(chromium):
    state = "second=human&fen=4k/P4/5/5/4K w - - 0 1"
    for running in run_server("gardner-chess"):
        with open_play(chromium, running, state) as page:
            wait_for_turn(page)
            cell(page, 1, 0).click()
            assert "dotted" in cell(page, 0, 0).get_attribute("class")
            cell(page, 0, 0).click()
            page.get_by_role("button", name="Cancel").click()
            assert moves(page) == []
            cell(page, 0, 0).click()  # the pawn is still chosen
            page.get_by_role("button", name="Rook (a4a5r)").click()
            assert wait_for_moves(page, 1) == ["a4a5r"]
            assert "white rook" in cell(page, 0, 0).get_attribute("aria-label")
            page.get_by_role("button", name="Flip board").click()
            assert "flip=1" in page.url


@pytest.fixture
def command():
    """Runs `dualmctx play connect-four` in a process; gives the printed address."""
    arguments = [sys.executable, "-m", "dualmctx", "play", "connect-four", "--port", "0"]
    # The tests compile without optimizations, users do not.
    environment = {name: text for name, text in os.environ.items() if name != "XLA_FLAGS"}
    with subprocess.Popen(
        [*arguments, "--no-browser"], stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        line = process.stderr.readline()
        yield Running(re.search(r"http://\S+", line)[0], None)
        process.terminate()


@pytest.mark.slow
def test_the_first_answer_at_connect_four_takes_less_than_a_second(chromium, command):
    """A busy machine gets three attempts, each with another first move."""
    for column in (3, 4, 2):
        with open_play(chromium, command, "variant=dual&simulations=50,35") as page:
            page.set_default_timeout(180_000)
            page.locator('#view-play[data-search="compiled"]').wait_for()
            compiled = time.perf_counter()
            cell(page, 5, column).click()
            page.locator("ol.moves li").nth(1).wait_for()
            seconds = time.perf_counter() - compiled
        if seconds < 1:
            return
    raise AssertionError(f"the answer took {seconds:.2f} s")
