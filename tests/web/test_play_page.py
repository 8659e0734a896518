"""The Play view in a real browser, with a fake engine that plays perfectly."""

import pytest

import browser
import pages
from pages import (
    address,
    cell,
    error,
    moves,
    play_cell,
    press,
    status,
    wait_for_moves,
    wait_for_text,
    wait_for_turn,
)

BOTH = "first=human&second=human"


def test_the_engine_wins_in_one_move(visit):
    page = visit("first=engine&second=human&moves=1,4,2,5")
    page.locator(".banner").wait_for()
    assert moves(page) == ["1", "4", "2", "5", "3"]
    assert page.locator(".banner").inner_text().startswith("The engine wins")
    heard = page.locator("#announcement").text_content()
    assert heard == "Move 5: 3. The game is over. The engine wins. X won"
    assert page.locator('.cell[aria-disabled="false"]').count() == 0
    assert cell(page, 0, 2).get_attribute("aria-label").endswith("X, last move, wins")
    assert page.locator(".cell.winning").count() == 3
    assert not page.locator(".hole").first.is_visible()  # the board has squares


def test_undo_takes_back_the_answer_and_the_move_and_back_does_too(visit):
    page = visit()
    wait_for_turn(page)
    play_cell(page, 5)
    first = wait_for_moves(page, 2)
    play_cell(page, next(number for number in range(1, 10) if str(number) not in first))
    wait_for_moves(page, 4)
    press(page, "Undo")
    assert wait_for_moves(page, 2) == first
    page.go_back()  # before the undo
    wait_for_moves(page, 4)
    page.go_back()  # before the second move
    assert wait_for_moves(page, 2) == first


def test_a_hint_marks_a_move_and_a_resigned_game_can_be_taken_up_again(visit, tmp_path):
    page = visit("moves=1,4,2,5")
    wait_for_turn(page)
    press(page, "Hint")
    wait_for_text(page.locator(".comment"), "Hint: 3, value +")
    assert "hinted" in cell(page, 0, 2).get_attribute("class")
    assert moves(page) == ["1", "4", "2", "5"]
    press(page, "Resign")
    wait_for_text(page.locator(".banner"), "The engine wins. X resigned")
    assert page.locator('.cell[aria-disabled="false"]').count() == 0
    page.reload()
    wait_for_text(page.locator(".banner"), "The engine wins. X resigned")
    page.get_by_text("Record", exact=True).click()
    saved = pages.save(page, "Save record", tmp_path).read_text()
    assert {"# Result: 0-1", "# Termination: resignation"} < set(saved.splitlines())
    press(page, "Undo")
    wait_for_text(status(page), "Your move (X)")


def test_a_hint_ends_when_another_position_is_shown(visit, socket):
    socket.held.add("searched")
    page = visit("moves=1,4,2,5")
    wait_for_turn(page)
    comment = page.locator(".comment")
    for _ in range(2):  # the second hint replaces the first one
        press(page, "Hint")
        wait_for_text(comment, "Searching for a hint")
    press(page, "Previous position")
    browser.wait_until(page, lambda: comment.inner_text() == "")


def test_two_engines_play_until_they_are_paused(visit):
    page = visit("first=engine&moves=1,2,3")
    page.locator("ol.moves li").nth(3).wait_for()
    press(page, "Pause")
    wait_for_text(status(page), "is paused")
    before = moves(page)
    press(page, "Continue")
    page.locator("ol.moves li").nth(len(before)).wait_for()
    press(page, "Pause")
    assert moves(page)[: len(before)] == before


def test_a_move_from_an_earlier_position_keeps_the_line_that_it_replaces(visit):
    page = visit(f"{BOTH}&moves=1,4,2,5")
    wait_for_turn(page)
    press(page, "2. 4")
    wait_for_text(status(page), "Position after move 2 of 4")
    play_cell(page, 9)
    assert wait_for_moves(page, 3) == ["1", "4", "9"]
    press(page, "Return to the line with move 3, 2")
    assert wait_for_moves(page, 4) == ["1", "4", "2", "5"]
    assert page.get_by_role("button", name="Return to the line with move 3, 9").is_visible()


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_search_that_is_interrupted_is_sent_again(visit, socket, is_lost):
    """The page is reloaded, or its connection is lost."""
    socket.held.add("searched")
    page = visit()
    wait_for_turn(page)
    play_cell(page, 5)
    wait_for_text(status(page), "The engine (O) is thinking")
    if is_lost:
        socket.routes[0].close(code=1012, reason="The server restarts.")
        wait_for_text(page.locator("#connection.lost"), "The server restarts. Trying again")
    socket.held.clear()
    if not is_lost:
        page.reload()
    wait_for_text(page.locator("#connection"), "Connected")
    assert wait_for_moves(page, 2)[0] == "5"
    assert len(socket.routes) == 2


RING_OF_FOCUS = "getComputedStyle(document.activeElement.querySelector('.ring')).stroke"
KEYS = (
    *("Enter", "ArrowDown Enter", "ArrowUp ArrowRight Enter"),
    *("ArrowDown Space", "Home ArrowUp End Enter"),
)


def test_two_humans_play_with_the_keyboard_alone(visit):
    page = visit(BOTH)
    wait_for_turn(page)
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('.cell')"):
            break
    for count, line in enumerate(KEYS, start=1):
        for key in line.split():
            page.keyboard.press(key)
        wait_for_moves(page, count)
    assert moves(page) == ["1", "4", "2", "5", "3"]
    assert page.locator(".banner").inner_text().startswith("X wins")
    assert page.get_by_role("button", name="Pause").is_hidden()
    assert page.evaluate(RING_OF_FOCUS) != "none"


def test_a_move_by_the_mouse_leaves_no_mark_of_the_focus(visit):
    page = visit(BOTH)
    wait_for_turn(page)
    play_cell(page, 5)
    wait_for_moves(page, 1)
    assert page.evaluate(RING_OF_FOCUS) == "none"
    assert page.locator(".ghost").count() == 0
    cell(page, 0, 0).hover()
    assert page.locator(".ghost").text_content() == "O"
    assert page.locator(".mark-corners").count() == 1


def test_a_phone_shows_all_views_without_horizontal_scrolling(visit):
    state = "view=analyse&maximum=85&moves=1,2,5"
    page = visit(state, **pages.PHONE)
    press(page, "Evaluate all positions")
    page.locator(".curve-point").nth(3).wait_for()
    pages.wait_for_status(page, "simulations")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.get_by_role("tab", name="Play").click()
    wait_for_turn(page)
    page.get_by_text("Record", exact=True).click()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.get_by_role("tab", name="Trees").click()
    press(page, "Record the search")
    page.locator(".tree-stage .dv").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == 390


ADDRESSES = {
    "checkpoint=no-such-network": "no-such-network",
    "temperature=hot": 'temperature in the address: "hot" is not a number from 0 to 10',
    "variant=dual:num_rounds=3": '"dual:num_rounds=3" is not in the list of searches',
    "simulations=1,2,3": "3 numbers do not fit a search with 2 trees",
    "variant=alphazero&simulations=5,5": "2 numbers do not fit a search with one tree",
}


@pytest.mark.slow
def test_a_wrong_part_of_an_address_is_replaced_with_a_message(visit):
    for state, message in ADDRESSES.items():
        page = visit(f"{BOTH}&{state}")
        wait_for_text(error(page), message)
        assert address(page).get("variant", "alphazero") == "alphazero"
        assert "simulations" not in address(page)
    page = visit(f"{BOTH}&variant=own&simulations=5,5")
    page.locator("select[name=variant]").and_(page.locator(":enabled")).wait_for()
    assert error(page).is_hidden()
    assert address(page)["simulations"] == "5,5"
    page = visit(f"{BOTH}&moves=1,1")
    wait_for_text(error(page), "move 2, '1', is illegal")
    press(page, "New game")
    wait_for_text(status(page), "X to move.")
    assert error(page).is_hidden()
    page.evaluate("window.location.hash = 'temperature=99'")
    wait_for_text(error(page), 'temperature in the address: "99" is not a number from 0 to 10')
    page.go_back()
    browser.wait_until(page, error(page).is_hidden)


def test_a_game_is_left_for_another_one_saved_and_loaded_again(visit, tmp_path):
    page = visit(f"{BOTH}&moves=1,4")
    wait_for_turn(page)
    page.get_by_label("Game and network").select_option("connect2")
    wait_for_moves(page, 0)
    page.wait_for_function("() => document.querySelectorAll('.cell').length === 4")
    assert "checkpoint=connect2" in page.url
    page.go_back()
    assert wait_for_moves(page, 2) == ["1", "4"]
    page.get_by_text("Record", exact=True).click()
    path = pages.save(page, "Save record", tmp_path)
    press(page, "New game")
    wait_for_moves(page, 0)
    page.locator('input[name="file"]').set_input_files(path)
    assert wait_for_moves(page, 2) == ["1", "4"]


def test_a_game_is_left_for_another_board_of_the_same_game(visit, socket):
    row = {"name": "tic-tac-toe", "game": "tic_tac_toe", "title": "Tic-tac-toe"}
    other = row | {"name": "connect2", "title": "Tic-tac-toe (size 2)"}
    socket.changes["welcome"] = {"checkpoints": [row, other]}
    page = visit(f"{BOTH}&moves=1,4")
    wait_for_turn(page)
    page.get_by_label("Game and network").select_option("connect2")
    wait_for_moves(page, 0)
    assert "moves" not in address(page)


def test_the_strength_is_in_the_address_and_in_the_request(visit, socket):
    page = visit()
    wait_for_turn(page)
    page.get_by_label("Strength").select_option("Beginner")
    assert "temperature=1" in page.url
    play_cell(page, 5)
    wait_for_moves(page, 2)
    # Searches with temperature 0 only let the server compile.
    [search] = [row for row in socket.questions("search") if row["temperature"]]
    assert search["temperature"] == 1
    assert f"simulations={','.join(map(str, search['simulations']))}" in page.url
    page.locator('input[name="temperature"]').fill("20")
    page.locator('input[name="temperature"]').blur()
    assert "temperature=20" not in page.url


MEASURE = """async (text) => {
  const { checkSize } = await import("/record.js");
  try { checkSize(text, "The record", { welcome: null }); } catch (error) { return error.message; }
  return "";
}"""


def test_a_record_is_measured_as_the_message_that_it_becomes(visit):
    """Quotes and ends of lines take two bytes."""
    page = visit()
    assert page.evaluate(MEASURE, "5" * 200_000) == ""
    message = page.evaluate(MEASURE, '"' * 200_000)
    assert message.startswith("The record has 400,002 bytes; a record may have at most 260,144.")


SHAPES = """async (games) => {
  const { shapeOf } = await import("/shared/draw_board.js");
  return games.map(shapeOf);
}"""


def test_the_shape_of_cells_is_that_of_a_game_of_the_package(visit):
    found = visit().evaluate(SHAPES, ["go_9x9", "go_19x19", "hex", "go_fish:make", "hex_own:make"])
    assert found == ["points", "points", "hex", "square", "square"]


PROMOTION = {
    "picture": {
        "caption": "white to move",
        "rows": [[".", "k"], ["P", "."], [".", "K"]],
        "row_labels": ["3", "2", "1"],
        "column_labels": ["a", "b"],
        "is_chess": True,
        "marked": [],
    },
    "shape": "square",
    "side": 0,
    "entries": [
        {"action": i, "name": f"a2a3{x}", "start": [1, 0], "targets": [[0, 0]], "shown": [0, 0]}
        for i, x in enumerate("qrbn")
    ],
}
DRAW_ALONE = """async (position) => {
  const { makeBoard } = await import("/board.js");
  document.querySelector("main").replaceChildren();
  window.chosen = [];
  const root = document.querySelector("main");
  window.board = makeBoard(root, { onMove: (entry) => window.chosen.push(entry.name) });
  window.board.draw(position, { game: "gardner_chess", isActive: true });
}"""


def test_a_promotion_asks_for_the_piece(visit):
    page = visit()
    wait_for_turn(page)
    page.evaluate(DRAW_ALONE, PROMOTION)
    cell(page, 1, 0).click()
    assert "dotted" in cell(page, 0, 0).get_attribute("class")
    cell(page, 0, 0).click()
    press(page, "Cancel")
    assert page.evaluate("window.chosen") == []
    cell(page, 0, 0).click()  # the pawn is still chosen
    press(page, "Rook (a2a3r)")
    assert page.evaluate("window.chosen") == ["a2a3r"]
    assert cell(page, 1, 0).get_attribute("aria-label") == "a2: white pawn"
    place = cell(page, 0, 0).bounding_box()
    page.evaluate("p => window.board.draw(p, { game: 'gardner_chess', flip: true })", PROMOTION)
    turned = cell(page, 0, 0).bounding_box()
    assert turned["x"] > place["x"]
    assert turned["y"] > place["y"]


def test_chess_can_be_turned_and_has_a_fen(visit, socket):
    fen = "8/8 w - - 0 1"
    socket.changes["position"] = {"picture": PROMOTION["picture"], "entries": [], "fen": fen}
    socket.changes["opened"] = {"fen": True}
    page = visit(BOTH)
    wait_for_turn(page)
    press(page, "Flip board")
    assert "flip=1" in page.url
    page.get_by_text("Record", exact=True).click()
    field = page.get_by_label("Position (FEN)")
    field.fill("8" * 301)
    field.press("Enter")
    wait_for_text(error(page), "The position has 301 characters; it may have at most 300.")
    page.get_by_role("tab", name="Analyse").click()
    pages.wait_for_place(page, 0, 0)
    assert page.get_by_label("Position as FEN").input_value() == fen
