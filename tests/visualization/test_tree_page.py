"""The page of `dualmctx tree --out search.html`: one file that loads nothing."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dualmctx.commands.main import main
from dualmctx.visualization import recording_page

HOSTILE = "</script><script>alert(1)</script><!--&\u2028\u2029\"'\\"


def scripts(page: str) -> list[str]:
    return re.findall(r"<script[^>]*>(.*?)</script>", page, flags=re.DOTALL)


def test_a_recording_is_embedded_unchanged_and_cannot_escape() -> None:
    recording = {"game": HOSTILE, "moves": [HOSTILE], "value": [0.1, 1e-45, float("nan")]}
    page = recording_page(recording, title=HOSTILE)
    data, code = scripts(page)
    assert json.loads(data) == recording | {"value": [0.1, 1e-45, None]}
    assert "alert" not in code
    assert "<!--" not in data
    assert "<title>&lt;/script&gt;" in page
    # Nothing is loaded; the names of XML's formats are no addresses.
    page = page.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|\bsrc=|@import|url\((?!data:)", page)


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_the_script_of_the_page_is_valid(tmp_path: Path) -> None:
    (tmp_path / "page.js").write_text(scripts(recording_page(None))[1], encoding="utf-8")
    command = ["node", "--check", str(tmp_path / "page.js")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_page_of_the_command_opens_from_a_file(tmp_path: Path, capfd: Any) -> None:
    sync_api = pytest.importorskip("playwright.sync_api")
    browser_path = shutil.which("chromium") or shutil.which("google-chrome")
    if browser_path is None:
        pytest.skip("needs Chromium")
    file = tmp_path / "search.html"
    search = ("--variant", "dual", "--simulations", "12", "5")
    assert main(["tree", "connect2", "2", *search, "--out", str(file)]) == 0
    recording = json.loads(scripts(file.read_text(encoding="utf-8"))[0])
    assert (recording["moves"], recording["trees"]) == (["2"], ["small", "large"])
    assert recording["network"] == "connect2"
    problems: list[str] = []
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        page = browser.new_context(offline=True).new_page()
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(file.as_uri())
        assert page.get_by_text(f"of {len(recording['steps'])}").count() == 1
        page.keyboard.press("ArrowRight")
        assert "Simulation 1" in page.inner_text("body")
        browser.close()
    assert problems == []
