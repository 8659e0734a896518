"""Takes the screenshots of `dualmctx play` for the documents: `python docs/draw_pages.py`.

It starts the server, drives the system's Chromium by Playwright, and writes docs/play.png,
docs/analyse.png and docs/trees.png. `--out FOLDER` writes them to another folder.
"""

import argparse
import contextlib
import io
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

DOCS = pathlib.Path(__file__).parent
_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_COMPILED_MS = 300_000


@contextlib.contextmanager
def serve() -> Iterator[str]:
    """Yields the address of a server."""
    command = [sys.executable, "-m", "dualmctx", "play", "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            found = next(filter(None, (re.search(r"http://\S+", x) for x in process.stderr)), None)
            if found is None:
                sys.exit("the server did not start: run dualmctx play to see why")
            yield found[0]
        finally:
            process.terminate()


def draw_play(page: Any, address: str) -> None:
    """Shows a game of Connect Four after the answer to the fourth move."""
    page.goto(f"{address}#checkpoint=connect-four&moves=4,4,4,4,4,2&variant=dual&simulations=50,35")
    page.get_by_role("gridcell").nth(15).click()
    page.get_by_text("8. ").wait_for(timeout=_COMPILED_MS)


def draw_analysis(page: Any, address: str) -> None:
    """Shows the analysis of a position of Connect Four, and the review of the game."""
    page.set_viewport_size({"width": 1200, "height": 1180})
    moves = "4,4,4,4,4,2,2,6,5,5,3"
    page.goto(f"{address}#checkpoint=connect-four&moves={moves}&ply=9&view=analyse")
    page.get_by_role("button", name="Evaluate all positions").click(timeout=_COMPILED_MS)
    page.locator("svg.curve").wait_for(timeout=_COMPILED_MS)
    page.get_by_text("Finished.").wait_for(timeout=_COMPILED_MS)
    page.mouse.move(0, 0)  # the row under the pointer is marked on the board


def draw_trees(page: Any, address: str) -> None:
    """Shows a selection in a Dual search of Connect2 whose trees have grown."""
    page.set_viewport_size({"width": 1200, "height": 1000})
    page.goto(f"{address}#checkpoint=connect2&view=trees")
    page.locator("[name=tree-simulations]").last.fill("35", timeout=_COMPILED_MS)
    page.locator("[name=tree-simulations]").first.fill("50")
    page.get_by_role("button", name="Record the search").click()
    page.get_by_role("slider", name="step of the search").fill("40", timeout=_COMPILED_MS)
    page.get_by_role("button", name="One micro-step forward").click()


PAGES = {"play": draw_play, "analyse": draw_analysis, "trees": draw_trees}


def save(shot: bytes, path: pathlib.Path) -> None:
    """Writes a screenshot as a PNG with 128 colours, a quarter of its size."""
    image = Image.open(io.BytesIO(shot)).convert("RGB").quantize(128, dither=Image.Dither.NONE)
    image.save(path, optimize=True)


def main() -> None:
    """Runs the program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, default=DOCS, help="the folder of the pictures")
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if program is None:
        sys.exit(f"there is no Chromium on the PATH: none of {', '.join(_PROGRAMS)}")
    with serve() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for name, draw in PAGES.items():
            page = browser.new_page(viewport={"width": 1200, "height": 800})
            draw(page, address)
            page.mouse.move(0, 0)
            save(page.screenshot(), folder / f"{name}.png")
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
