"""Steps of a user on the page of `dualmctx play`, for tests."""

import dataclasses
import json
from collections.abc import Callable
from typing import Any

PHONE = {"viewport": {"width": 390, "height": 844}}
LAPTOP = {"viewport": {"width": 1200, "height": 800}}


@dataclasses.dataclass
class Socket:
    """The connections of the pages of a test to the server.

    Attributes:
      received: the answers of the server that reached a page, as JSON values.
      sent: the messages of the pages, as JSON values.
      held: the types of answers that do not reach a page; set before it is opened.
      changes: for a type of answers, fields that replace those of the server; likewise.
      routes: the connections, if answers are held or changed.
    """

    received: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    sent: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    held: set[str] = dataclasses.field(default_factory=set)
    changes: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    routes: list[Any] = dataclasses.field(default_factory=list)

    def answers(self, kind: str) -> list[dict[str, Any]]:
        """Returns the answers of a type, in order."""
        return [answer for answer in self.received if answer["type"] == kind]

    def questions(self, kind: str) -> list[dict[str, Any]]:
        """Returns the messages of a type, in order."""
        return [message for message in self.sent if message["type"] == kind]

    def watch(self, page: Any) -> None:
        """Collects the messages of a page that is opened next."""
        if self.held or self.changes:
            page.route_web_socket("**/socket", self._connect)
        else:
            page.on("websocket", self._listen)

    def _listen(self, socket: Any) -> None:
        socket.on("framereceived", lambda text: self.received.append(json.loads(text)))
        socket.on("framesent", lambda text: self.sent.append(json.loads(text)))

    def _connect(self, route: Any) -> None:
        server = route.connect_to_server()
        self.routes.append(route)

        def to_page(text: str) -> None:
            answer = json.loads(text)
            if answer["type"] not in self.held:
                answer |= self.changes.get(answer["type"], {})
                self.received.append(answer)
                route.send(json.dumps(answer))

        def to_server(text: str) -> None:
            self.sent.append(json.loads(text))
            server.send(text)

        server.on_message(to_page)
        route.on_message(to_server)


def error(page: Any) -> Any:
    """Returns the message above the view."""
    return page.locator("#error")


def wait_for_text(locator: Any, part: str) -> None:
    """Waits until an element contains a text."""
    locator.filter(has_text=part).first.wait_for()


def press(page: Any, name: str, **options: Any) -> None:
    """Presses a button."""
    page.get_by_role("button", name=name, **options).click()


def address(page: Any) -> dict[str, str]:
    """Returns the state in the address."""
    return page.evaluate("""() => Object.fromEntries(
      new URLSearchParams(window.location.hash.slice(1)))""")


def save(page: Any, name: str, folder: Any) -> Any:
    """Presses a button that saves a file; returns its path."""
    with page.expect_download() as download:
        press(page, name)
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


# The Play view


def status(page: Any) -> Any:
    """Returns the line above the board."""
    return page.locator("#status")


def wait_for_turn(page: Any, count: int | None = None) -> None:
    """Waits until the board shows the position after `count` moves, by default after any number.

    A human is then to move, or the game is over.
    """
    page.wait_for_function(
        """count => {
          const status = document.querySelector('#status');
          const shown = status?.dataset.shown;
          const isRight = shown !== undefined && (count === null || shown === String(count));
          return isRight && /Your move|to move\\.|game is over/.test(status.textContent);
        }""",
        arg=count,
    )


def wait_for_moves(page: Any, count: int) -> list[str]:
    """Waits until the game has a number of moves, and the board shows it; returns their names."""
    page.wait_for_function(
        "count => document.querySelectorAll('ol.moves li').length === count", arg=count
    )
    wait_for_turn(page, count)
    return moves(page)


def moves(page: Any) -> list[str]:
    """Returns the names in the list of moves."""
    return [text.split(". ")[1] for text in page.locator("ol.moves button").all_inner_texts()]


def cell(page: Any, row: int, column: int) -> Any:
    """Returns a cell of the board."""
    return page.locator(f'.cell[data-row="{row}"][data-column="{column}"]')


def play_cell(page: Any, number: int) -> None:
    """Clicks a cell of tic-tac-toe, 1 to 9."""
    cell(page, *divmod(number - 1, 3)).click()


def play_game(page: Any, choose: Callable[[list[int]], int]) -> str:
    """Plays tic-tac-toe against the engine until the end; returns the text of the result.

    Args:
      page: the page.
      choose: from the numbers of the free cells, the one to play.
    """
    wait_for_turn(page)
    while "over" not in status(page).inner_text():
        free = page.locator('.cell[aria-disabled="false"]').evaluate_all(
            "cells => cells.map(c => 3 * c.dataset.row + Number(c.dataset.column) + 1)"
        )
        before = len(moves(page))
        play_cell(page, choose(free))
        page.wait_for_function(
            """before => {
              const count = document.querySelectorAll('ol.moves li').length;
              const text = document.querySelector('#status')?.textContent;
              return text.includes('over') || (count === before + 2 && text.includes('Your move'));
            }""",
            arg=before,
        )
    return page.locator(".banner").inner_text()


# The Analyse view


def wait_for_status(page: Any, text: str) -> None:
    """Waits until the line on the progress of the analysis contains a text."""
    wait_for_text(page.locator(".analysis-status"), text)


def wait_for_place(page: Any, ply: int, count: int) -> None:
    """Waits until the board shows a position of the game."""
    wait_for_text(page.locator(".position-caption"), f"Position {ply} of {count}:")


def table(page: Any) -> dict[str, dict[str, Any]]:
    """Returns the numbers of the table: by the name of the move and the key of the column,
    in the order of the table."""
    rows = page.evaluate("""() =>
      [...document.querySelectorAll('.move-table tbody tr')].map((row) => [
        row.querySelector('th').textContent,
        Object.fromEntries([...row.querySelectorAll('td')].map((cell) => [
          cell.dataset.key, cell.dataset.value === 'null' ? null : Number(cell.dataset.value)])),
      ])""")
    return dict(rows)


def values(page: Any) -> dict[str, float]:
    """Returns the values beside the board by their names, such as "Final head"."""
    return page.evaluate("""() => Object.fromEntries(
      [...document.querySelectorAll('.analysis-values dt')].map((name) => [
        name.textContent, Number(name.nextElementSibling.dataset.value)]))""")


def open_record(page: Any, text: str) -> None:
    """Pastes a record on the Analyse view and opens it."""
    if not page.locator(".record-input[open]").count():
        page.get_by_text("Open a record", exact=True).click()
    page.locator(".record-input textarea").fill(text)
    press(page, "Open the record")
