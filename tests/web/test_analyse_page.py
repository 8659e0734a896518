"""The Analyse view in a real browser, with a fake engine."""

import re
import threading

import browser
from pages import (
    address,
    error,
    open_record,
    press,
    table,
    values,
    wait_for_place,
    wait_for_status,
    wait_for_text,
)
from running_server import LIMIT

SHORT = "view=analyse&maximum=85"
# After 1 and 2, only 4, 5 and 7 win for X; 2 is a blunder.
BLUNDER = "moves=1,2,5"
OVER = "moves=1,4,2,5,3"


def test_numbers_are_those_of_the_last_answer(visit, socket):
    page = visit(f"{SHORT}&moves=1,2&number=visits")
    wait_for_status(page, "Finished")
    answer = socket.answers("analysis")[-1]
    page.locator("dt", has_text="Exact").wait_for()
    rows = table(page)
    assert next(iter(rows)) == answer["line"][0]
    assert sorted(rows) == sorted(move["name"] for move in answer["moves"])
    for move in answer["moves"]:
        shown = rows[move["name"]]
        assert all(shown[key] == move[key] for key in ("visits", "q", "weight"))
        assert [shown[f"prior-{i}"] for i in range(len(move["prior"]))] == move["prior"]
    [exact] = socket.answers("exact")
    assert {name: row["exact"] for name, row in rows.items()} == exact["moves"]
    value = page.locator(".value-number").get_attribute("data-value")
    assert float(value) == answer["value"]
    beside = values(page)
    assert beside["Exact"] == 1
    heads = [number for name, number in beside.items() if name.endswith(" head")]
    assert heads == answer["heads"]["value"]
    # The ranks follow the policy.
    weights = [row["weight"] for row in rows.values()]
    assert weights == sorted(weights, reverse=True)
    ranks = [str(place) if weight else "–" for place, weight in enumerate(weights, 1)]
    assert page.locator("td[data-key=rank]").all_inner_texts() == ranks
    assert page.locator(".policy-note").inner_text().startswith(answer["policy"])
    # The board has the chosen number.
    texts = page.locator(".overlay-item text:first-of-type").all_text_contents()
    assert sorted(texts) == sorted(str(move["visits"]) for move in answer["moves"])
    assert page.locator(".overlay-item.best").count() == 1
    page.get_by_label("Numbers on the board").select_option("none")
    assert page.locator(".overlay-item").count() == 0
    assert address(page)["number"] == "none"
    # The table sorts by any column.
    for order in ("descending", "ascending"):
        page.locator('th[data-key="visits"] button').click()
        assert page.locator('th[data-key="visits"]').get_attribute("aria-sort") == order
        visits = [row["visits"] for row in table(page).values()]
        assert visits == sorted(visits, reverse=order == "descending")


def test_exact_values_are_shown_without_a_search(visit):
    state = "view=analyse&analysing=0&moves=1,2&number=exact"
    page = visit(state)
    page.locator(".overlay-item").nth(6).wait_for()
    wins = page.locator(".overlay-item", has_text="win").count()
    assert wins == sum(row["exact"] == 1 for row in table(page).values()) > 0
    assert all(row["visits"] is None for row in table(page).values())


def test_an_analysis_runs_while_the_view_is_shown_and_resumes_after_a_reload(visit, fake):
    page = visit("view=analyse&moves=5")
    engines = fake.context.engines
    wait_for_status(page, "Running")
    page.reload()
    wait_for_status(page, f"of {LIMIT:,} simulations")
    assert table(page)
    press(page, "Stop analysis")
    wait_for_status(page, "Stopped")
    browser.wait_until(page, lambda: engines.is_idle)
    page.reload()
    wait_for_status(page, "Stopped")
    press(page, "Start analysis")
    wait_for_status(page, "Running")
    page.get_by_role("tab", name="Play").click()
    page.locator("#view-play .board").wait_for()
    browser.wait_until(page, lambda: engines.is_idle)
    page.get_by_role("tab", name="Analyse").click()
    wait_for_status(page, "Running")


STEP_AND_LEAVE = """() => {
  const step = new KeyboardEvent("keydown", { key: "ArrowLeft", bubbles: true });
  document.body.dispatchEvent(step);
  document.getElementById("tab-play").click();
}"""


def test_no_analysis_starts_after_the_view_was_left(visit, socket):
    page = visit(f"{SHORT}&moves=5,1")
    wait_for_status(page, "Finished")
    page.evaluate(STEP_AND_LEAVE)
    page.wait_for_timeout(500)
    assert len(socket.questions("analyse")) == 1
    page.get_by_role("tab", name="Analyse").click()
    browser.wait_until(page, lambda: len(socket.questions("analyse")) == 2)


def test_numbers_of_another_search_are_not_shown(visit):
    page = visit("view=analyse&moves=5&variant=alphazero")
    browser.wait_until(page, lambda: any(row["visits"] for row in table(page).values()))
    press(page, "Stop analysis")
    wait_for_status(page, "Stopped")
    assert any(row["visits"] for row in table(page).values())
    page.locator("select[name=analysis-variant]").select_option("")
    browser.wait_until(page, lambda: all(row["visits"] is None for row in table(page).values()))
    page.locator("select[name=analysis-variant]").select_option("alphazero")
    browser.wait_until(page, lambda: any(row["visits"] for row in table(page).values()))


def test_keys_step_through_the_game(visit):
    page = visit(f"{SHORT}&moves=5,1,9,2")
    wait_for_place(page, 4, 4)
    for key, ply in (("ArrowLeft", 3), ("Home", 0), ("ArrowRight", 1), ("End", 4)):
        page.keyboard.press(key)
        wait_for_place(page, ply, 4)
    for key in ("ArrowLeft", "ArrowRight") * 20:  # as if a key were held down
        page.keyboard.press(key)
    wait_for_status(page, "Finished")
    assert error(page).inner_text() == ""
    page.get_by_label("Maximum of simulations").focus()
    page.keyboard.press("Home")  # moves the cursor in the field
    wait_for_place(page, 4, 4)


def test_slow_exact_values_are_asked_for_one_at_a_time(visit, socket, monkeypatch):
    may_end = threading.Event()
    monkeypatch.setattr("dualmctx.web.handlers.find_exact", lambda *_: may_end.wait(60) and None)
    page = visit(f"{SHORT}&moves=5,1,9,2")
    for ply in (4, 3, 2, 1):
        wait_for_place(page, ply, 4)
        # The exact values of a position are asked for before its search.
        count = 5 - ply
        browser.wait_until(page, lambda n=count: len(socket.questions("analyse")) == n)
        page.keyboard.press("ArrowLeft")
    assert len(socket.questions("exact")) == 1
    may_end.set()
    browser.wait_until(page, lambda: len(socket.answers("exact")) == 2)
    # Only the position that is shown is asked for now.
    assert [len(x["moves"]) for x in socket.questions("exact")] == [4, 0]


def test_a_move_of_the_principal_variation_plays_the_line_up_to_it(visit, socket):
    page = visit(f"{SHORT}&moves=5,1&ply=1")
    wait_for_status(page, "Finished")
    line = socket.answers("analysis")[-1]["line"]
    buttons = page.locator(".line-moves button")
    assert buttons.all_inner_texts() == line
    buttons.nth(1).click()
    wait_for_place(page, 3, 3)
    assert address(page)["moves"].split(",") == ["5", *line[:2]]


def test_the_review_shows_marks_and_a_new_move_keeps_the_rows_before_it(visit, socket):
    page = visit(f"{SHORT}&{BLUNDER}&ply=1&variant=gumbel")
    press(page, "Evaluate all positions")
    page.locator(".curve-point").nth(3).wait_for()
    assert socket.questions("review")[0]["variant"] == "gumbel"
    assert page.locator("ol.moves button").all_inner_texts() == ["1. 1", "2. 2 ??", "3. 5"]
    blunder = page.locator(".curve-point.blunder")
    label = blunder.get_attribute("aria-label")
    assert "O plays 2, blunder: turns a draw into a loss; best: 5." in label
    summary = page.locator(".review-summary tr[data-side] td:last-child").all_inner_texts()
    assert summary == ["0.00", "1.00"]  # by the exact values, as the marks
    bottom = "elements => Math.max(...elements.map((x) => x.getBoundingClientRect().bottom))"
    top = "elements => Math.min(...elements.map((x) => x.getBoundingClientRect().top))"
    others = page.locator(".curve-dot, .curve-value, .curve-exact, .curve-label")
    signs = page.locator(".curve-mark").evaluate_all(bottom)
    assert signs <= others.evaluate_all(top)
    page.keyboard.press("Home")
    wait_for_place(page, 0, 3)
    blunder.focus()
    page.keyboard.press("Enter")
    wait_for_place(page, 1, 3)
    wait_for_status(page, "Finished")
    page.locator('.move-table button[title="Play 5"]').click()
    wait_for_text(page.locator(".review-status"), "Evaluated 2 of 3 positions")
    assert page.locator(".curve-point").count() == 2
    assert blunder.count() == 0


def test_a_stopped_review_says_so(visit, socket):
    socket.held.add("reviewed")
    page = visit(f"{SHORT}&{BLUNDER}")
    press(page, "Evaluate all positions")
    press(page, "Stop", exact=True)
    wait_for_text(page.locator(".review-status"), "Stopped.")


def test_a_record_opens_and_a_broken_or_large_one_changes_nothing(visit):
    page = visit(f"{SHORT}&moves=9")
    wait_for_place(page, 1, 1)
    open_record(page, "5 5 1")
    page.locator(".record-message.error").wait_for()
    assert address(page)["moves"] == "9"
    assert page.locator(".record-input textarea").input_value() == "5 5 1"
    open_record(page, "5 1 9")
    wait_for_text(page.locator(".record-message"), "Opened 3 moves")
    wait_for_place(page, 0, 3)
    page.go_back()
    wait_for_place(page, 1, 1)
    upload = page.locator(".record-input input[type=file]")
    record = {"name": "game.txt", "mimeType": "text/plain", "buffer": b"5 1 9 3"}
    upload.set_input_files(record)
    wait_for_place(page, 0, 4)
    # The start is the same position before and after the record is opened.
    assert page.get_by_label("Moves as text").input_value() == "5 1 9 3"
    upload.set_input_files(record | {"name": "large.txt", "buffer": b"5 1\n" * 100_000})
    wait_for_text(page.locator(".record-message.error"), "large.txt has 400,000 bytes")
    wait_for_place(page, 0, 4)


FILES = {
    "(;CA[Shift_JIS]C[ソ];B[cc])": "shift_jis",  # its second byte is a backslash
    "(;CA[unknown]C[ソ])": "utf-8-sig",
    '[Event "Café"]': "cp1252",
}
UNREADABLE = {
    "(;CA[unknown]C[é])": 'names the unknown encoding "unknown". Save it in UTF-8.',
    "(;C[é\\])])": "names no encoding. Save it in UTF-8.",
}


def test_a_file_may_have_another_encoding_than_utf_8(visit, socket):
    page = visit(SHORT)
    wait_for_status(page, "Finished")
    page.get_by_text("Open a record", exact=True).click()

    def open_file(text, encoding):
        file = {"name": "a.txt", "mimeType": "text/plain", "buffer": text.encode(encoding)}
        page.locator(".record-input input[type=file]").set_input_files(file)

    for count, (text, encoding) in enumerate(FILES.items(), start=1):
        open_file(text, encoding)
        browser.wait_until(page, lambda n=count: len(socket.questions("read")) == n)
        assert socket.questions("read")[-1]["text"] == text
    for text, reason in UNREADABLE.items():
        open_file(text, "cp1252")
        wait_for_text(page.locator(".record-message.error"), f"a.txt is not in UTF-8, and {reason}")


def test_the_button_says_when_there_is_nothing_to_search(visit):
    page = visit(f"{SHORT}&{OVER}&ply=4")
    toggle = page.locator(".analysis-toggle")
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


DESCRIBE = """async (rows) => {
  const { describeStatus } = await import("/evaluation_panel.js");
  return rows.map(([simulations, reused, maximum]) => describeStatus(
    { analysis: { simulations, reused }, maximum, speed: null, status: "Finished." }));
}"""
STATUSES = {
    (64, 0, 200): "64 of 200 simulations. Finished.",
    (224, 0, 200): "224 simulations (the maximum of 200 in whole steps). Finished.",
    (74, 74, 32): "74 simulations (more than the maximum of 32), all of them kept from an earlier",
}


def test_the_number_of_simulations_is_explained(visit):
    page = visit("view=analyse&analysing=0")
    texts = page.evaluate(DESCRIBE, [list(numbers) for numbers in STATUSES])
    for text, expected in zip(texts, STATUSES.values(), strict=True):
        assert text.startswith(expected)
