"""A headless Chromium for tests of pages, driven by Playwright.

`tests/conftest.py` registers the fixture `chromium` once for all tests, because Playwright allows
one running instance per process. A test takes the fixture and opens a page in a fresh context:

    def test_title(chromium):
        with browser.open_page(chromium, viewport={"width": 390, "height": 844}) as page:
            page.goto("http://127.0.0.1:8000/")
            assert page.title() == "dualmctx"

At the end `open_page` checks that the page wrote no error to its console. Tests are skipped if
Playwright or Chromium is missing.
"""

import contextlib
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


def find_chromium() -> str | None:
    """Returns the path of the system's Chromium, or None."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


@contextlib.contextmanager
def launch() -> Iterator[Any]:
    """Starts Chromium; skips the test if it or Playwright is missing."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = find_chromium()
    if program is None:
        pytest.skip(f"no Chromium on the PATH: none of {', '.join(PROGRAMS)}")
    with api.sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=program, args=arguments)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A Chromium for the tests of one module, a `playwright.sync_api.Browser`.

    Playwright's event loop occupies the thread of the tests until the fixture ends. So tests that
    call `asyncio.run` belong in a module without this fixture, or run it in a thread of their own.
    """
    with launch() as browser:
        yield browser


@contextlib.contextmanager
def open_page(browser: Any, allowed: str = "", **options: Any) -> Iterator[Any]:
    """Opens a page in a fresh context, without cookies or storage of other tests.

    Args:
      browser: the fixture `chromium`.
      allowed: errors that contain this text are expected; empty for none.
      **options: of `Browser.new_context`, such as `viewport`, `color_scheme` or `offline`.

    Raises:
      AssertionError: at the end, if the page threw an error or wrote one to its console.
    """
    context = browser.new_context(**options)
    context.set_default_timeout(120_000)  # compiling takes long on a busy machine
    page, errors = context.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
    try:
        yield page
        unexpected = [error for error in errors if not allowed or allowed not in error]
        assert not unexpected, f"errors of the page: {unexpected}"
    finally:
        context.close()


def wait_until(page: Any, is_true: Callable[[], bool]) -> None:
    """Waits for a condition that only Python can check; the page's events go on meanwhile."""
    for _ in range(1200):
        if is_true():
            return
        page.wait_for_timeout(50)
    pytest.fail("the condition is still false")
