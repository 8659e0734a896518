"""The servers that the tests of the web application share, and their pages in a browser."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import browser
from pages import Socket
from running_server import Running, run_server


@pytest.fixture(scope="session")
def fake() -> Iterator[Running]:
    """Serves tic-tac-toe, the default, and Connect2, with made-up searches."""
    with run_server("tic-tac-toe", "connect2", is_fake=True) as running:
        yield running


@pytest.fixture(scope="session")
def server() -> Iterator[Running]:
    """Serves the same with real searches."""
    with run_server("tic-tac-toe", "connect2") as running:
        yield running


@pytest.fixture
def socket() -> Socket:
    """The connections of the pages of a test."""
    return Socket()


@pytest.fixture
def visit(chromium: Any, fake: Running, socket: Socket) -> Iterator[Callable[..., Any]]:
    """Returns a function that opens a page in a fresh context.

    It takes the part of the address after "#", the server `at` (by default `fake`), and options of
    the context.
    """
    with contextlib.ExitStack() as stack:

        def visit(state: str = "", at: Running = fake, **options: Any) -> Any:
            page = stack.enter_context(browser.open_page(chromium, **options))
            socket.watch(page)
            page.goto(f"{at.address}#{state}")
            return page

        yield visit
