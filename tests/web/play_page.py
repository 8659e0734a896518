"""Steps of a user on the Play view, for tests."""

import contextlib
import random
from collections.abc import Callable, Iterator
from typing import Any

import browser


@contextlib.contextmanager
def open_play(chromium: Any, server: Any, state: str = "", **options: Any) -> Iterator[Any]:
    """Opens the page in a fresh context; `state` is the part of the address after "#"."""
    with browser.open_page(chromium, **options) as page:
        page.set_default_timeout(60_000)  # compiling takes long on a busy machine
        page.goto(f"{server.address}#{state}")
        yield page


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


def random_player(seed: int) -> Callable[[list[int]], int]:
    """Returns a player that chooses at random."""
    return random.Random(seed).choice
