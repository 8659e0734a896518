"""The viewer of a recording, in a browser: every number, all keys, large trees, hostile texts."""

import functools
import shutil
import subprocess
from pathlib import Path
from typing import Any

import browser
import jax
import numpy as np
import pytest
from untrained import make_untrained
from viewer_numbers import READ, Expected

import games
from dualmctx import Backup, Dual, make_search_fn
from dualmctx.runs.saved_network import model_kwargs_of
from dualmctx.visualization.page import recording_page
from dualmctx.visualization.trained_recording import record_trained

STATIC = Path(recording_page.__code__.co_filename).parent / "static"
POLICY = Dual((10, 7), 3, backup=Backup(window=2, explore_fraction=0.4)).for_evaluation()


@functools.cache
def record(preset: str = "connect2", policy: Any = POLICY, compare: bool = True) -> dict[str, Any]:
    """Records a search by a network with random parameters."""
    return record_trained(make_untrained(preset), policy=policy, compare=compare, name=preset)


def open_recording(page: Any, folder: Path, recording: dict[str, Any]) -> None:
    """Opens the standalone page of a recording, as a file and without a network."""
    path = folder / "recording.html"
    path.write_text(recording_page(recording), encoding="utf-8")
    page.context.set_offline(True)
    page.goto(path.as_uri())
    page.wait_for_selector(".dv-tree")


def read_numbers(page: Any) -> dict[str, list[Any]]:
    """Returns the full numbers of the page; checks that each text is its rounded number."""
    found = {}
    for key, pairs in page.evaluate(READ).items():
        found[key] = [float(value) if value else None for value, _ in pairs]
        for value, text in pairs:
            assert is_rounded(value, text), (key, value, text)
    return found


def is_rounded(value: str, text: str) -> bool:
    shown = text.replace("−", "-").lstrip("=+")
    if not value or shown in ("", "–"):
        return not value and shown in ("", "–")
    digits = len(shown.partition(".")[2])
    return abs(float(shown) - float(value)) <= 0.5 * 10**-digits + 1e-12


def seek(page: Any, step: int) -> None:
    """Moves the slider to the state after a number of steps."""
    page.evaluate(
        "step => { const slider = document.querySelector('.dv-slider'); slider.value = step;"
        " slider.dispatchEvent(new Event('input')); }",
        step,
    )


def check_all_steps(page: Any, recording: dict[str, Any]) -> None:
    """Steps through a recording by keys, forward and back, and checks every number."""
    expected = Expected(recording)
    other = recording.get("comparison")
    other = None if other is None else Expected(other)
    phases, texts = expected.phases(), []
    for i, phase in enumerate(phases):
        if i:
            page.keyboard.press("ArrowRight")
        assert read_numbers(page) == expected.page(*phase, other), phase
        texts.append(page.inner_text(".dv"))
    for i in reversed(range(len(phases) - 1)):
        page.keyboard.press("ArrowLeft")
        assert page.inner_text(".dv") == texts[i], phases[i]
    assert read_numbers(page) == expected.page(*phases[0], other)


def test_every_number_of_a_dual_search_equals_the_recording(chromium, tmp_path):
    with browser.open_page(chromium, viewport={"width": 1280, "height": 800}) as page:
        open_recording(page, tmp_path, record())
        check_all_steps(page, record())


@pytest.mark.slow
def test_the_last_state_equals_the_trees_of_the_ordinary_search(chromium, tmp_path):
    trained, recording = make_untrained("connect2"), record()
    search = make_search_fn(trained.env, trained.network, POLICY, **model_kwargs_of(trained.record))
    states = games.replay(trained.env, np.full((1, 1), -1))
    output = jax.jit(search)(trained.params, jax.random.PRNGKey(0), states)
    with browser.open_page(chromium) as page:
        open_recording(page, tmp_path, recording)
        page.keyboard.press("End")
        found = read_numbers(page)
        for tree, stats in enumerate(output.search_tree.stats):
            for node in recording["nodes"]:
                visits = int(stats.node_visits[0, node["slot"]])
                assert found[f"tree {tree}||{node['index']}|visits"] == [visits or None]
                # The details have the mean in the view of the player to move, as in the engine.
                box = page.locator(".dv-tree").nth(tree).locator(f"[data-node='{node['index']}']")
                box.dispatch_event("click")
                value = float(stats.node_values[0, node["slot"]]) if visits else None
                row = page.locator(f".dv-details tr[data-tree='{tree}'] [data-field=value]")
                shown = row.get_attribute("data-value")
                assert (float(shown) if shown else None) == pytest.approx(value, rel=1e-6)


def test_modules_are_accepted_by_node():
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    for path in sorted(STATIC.glob("*.js")):
        source = path.read_text(encoding="utf-8")
        command = [node, "--input-type=module", "--check"]
        run = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
        assert run.returncode == 0, f"{path.name}: {run.stderr}"
