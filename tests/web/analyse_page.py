"""Steps of a user on the Analyse view, for tests."""

import contextlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import browser


class Opened(NamedTuple):
    """The page, and the messages of its socket so far.

    Attributes:
      page: a `playwright.sync_api.Page`.
      received: the answers of the server, as JSON values.
      sent: the messages of the page, as JSON values.
    """

    page: Any
    received: list[dict[str, Any]]
    sent: list[dict[str, Any]]

    def answers(self, kind: str) -> list[dict[str, Any]]:
        """Returns the answers of a type, in order."""
        return [answer for answer in self.received if answer["type"] == kind]


@contextlib.contextmanager
def open_analyse(chromium: Any, server: Any, state: str = "", **options: Any) -> Iterator[Opened]:
    """Opens the view; `state` is the part of the address after "#view=analyse&"."""
    with browser.open_page(chromium, **options) as page:
        opened = Opened(page, [], [])
        page.on("websocket", lambda socket: _listen(socket, opened))
        page.goto(f"{server.address}#view=analyse&{state}")
        yield opened


def _listen(socket: Any, opened: Opened) -> None:
    socket.on("framereceived", lambda text: opened.received.append(json.loads(text)))
    socket.on("framesent", lambda text: opened.sent.append(json.loads(text)))


def status(page: Any) -> Any:
    """Returns the line on the progress of the analysis."""
    return page.locator(".analysis-status")


def wait_for_status(page: Any, text: str) -> None:
    """Waits until the line on the progress contains a text."""
    status(page).filter(has_text=text).wait_for(timeout=120_000)


def wait_for_place(page: Any, ply: int, count: int) -> None:
    """Waits until the board shows a position of the game."""
    text = f"Position {ply} of {count}:"
    page.locator(".position-caption").filter(has_text=text).wait_for()


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


def address(page: Any) -> dict[str, str]:
    """Returns the state in the address."""
    return page.evaluate("""() => Object.fromEntries(
      new URLSearchParams(window.location.hash.slice(1)))""")
