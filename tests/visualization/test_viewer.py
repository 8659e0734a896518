"""The viewer of a recording, in a browser: every number, all keys, large trees, hostile texts."""

import re
from pathlib import Path
from typing import Any

import pytest

import browser
from dualmctx.visualization import recording_page
from made_recordings import make_recording
from recorded import POLICIES, dual_recording, record
from viewer_numbers import READ, Expected

DAMAGED = "The recording is damaged: "


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
            assert not re.search(r"[−+]0(\.0+)?$", text), (key, value, text)
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


def check_all_steps(page: Any, recording: dict[str, Any], check: Any = None) -> None:
    """Steps through a recording by keys, forward and back, and checks every number.

    Calls `check(number, phase, level)` at each micro-step on the way forward.
    """
    expected = Expected(recording)
    other = recording.get("comparison")
    other = None if other is None else Expected(other)
    phases, texts = expected.phases(), []
    for i, phase in enumerate(phases):
        if i:
            page.keyboard.press("ArrowRight")
        assert read_numbers(page) == expected.page(*phase, other), phase
        texts.append(page.inner_text(".dv"))
        if check is not None:
            check(*phase)
    for i in reversed(range(len(phases) - 1)):
        page.keyboard.press("ArrowLeft")
        assert page.inner_text(".dv") == texts[i], phases[i]
    assert read_numbers(page) == expected.page(*phases[0], other)


@pytest.mark.slow
def test_every_number_and_sentence_of_a_dual_search_follows_the_recording(chromium, tmp_path):
    recording, seen = dual_recording(), set()
    steps = recording["steps"]

    def check_sentence(number: int, phase: str, level: int) -> None:
        text = page.inner_text(".dv-sentence")
        # The page draws discs and no letters.
        assert "(black)" not in page.inner_text(".dv")
        if phase == "select":
            reason = steps[number]["path"][level]["reason"]
            assert ("drawn at random" in text) == (reason == "explore")
            seen.add(reason)
        if phase == "evaluate" and steps[number]["evaluation"]:
            is_large = steps[number]["tree"] == 1
            assert ("The heads intermediate and final" in text) == is_large
            seen.add("both heads" if is_large else "one head")
        if phase == "mix":
            assert "the weight 0.25 for values and 0.25 for priors" in text
        if phase == "update":
            assert "In the small tree, visits stay" in text
        if phase == "backup":
            outside = [x["in_window"] for x in steps[number]["changes"]].count(False)
            assert (f"{outside} of the nodes are outside" in text) == (outside > 0)
            assert page.locator(".dv-tree").first.locator(".dv-outside").count() == outside
            seen.add(outside > 0)

    with browser.open_page(chromium, viewport={"width": 1280, "height": 800}) as page:
        open_recording(page, tmp_path, recording)
        check_all_steps(page, recording, check_sentence)
    assert {"rule", "explore", "one head", False, True} <= seen


@pytest.mark.slow
@pytest.mark.parametrize(("preset", "name"), [("connect2", "several leaves"), ("nim", "contempt")])
def test_every_number_of_other_searches_equals_the_recording(chromium, tmp_path, preset, name):
    recording = record(preset, POLICIES[name], 0)
    with browser.open_page(chromium) as page:
        open_recording(page, tmp_path, recording)
        check_all_steps(page, recording)


@pytest.mark.slow
def test_alphazero_is_shown_at_the_same_cost(chromium, tmp_path):
    recording = dual_recording()
    other = recording["comparison"]
    with browser.open_page(chromium) as page:
        open_recording(page, tmp_path, recording)
        assert page.locator(".dv-tree:visible").count() == 2
        page.locator(".dv-compare input").check()
        for position in (0, 3, len(recording["steps"])):
            seek(page, position)
            spent = recording["steps"][position - 1]["blocks"] if position else 0
            count = sum(step["blocks"] <= spent for step in other["steps"])
            expected = {
                key.replace("tree 0", "tree 2"): numbers
                for key, numbers in Expected(other).trees(count, -1).items()
            }
            found = read_numbers(page)
            assert {key: x for key, x in found.items() if key.startswith("tree 2")} == expected
        page.locator(".dv-compare input").uncheck()
        assert page.locator(".dv-tree:visible").count() == 2


def transform(page: Any) -> list[float]:
    """Returns the offset and the scale of the first tree."""
    text = page.locator(".dv-tree > g").first.get_attribute("transform")
    return [float(number) for number in re.findall(r"-?[\d.]+(?:e-?\d+)?", text)]


def test_trees_are_panned_zoomed_and_marked_together(chromium, tmp_path):
    with browser.open_page(chromium, viewport={"width": 1280, "height": 800}) as page:
        open_recording(page, tmp_path, dual_recording())
        start = transform(page)
        box = page.locator(".dv-tree").first.bounding_box()
        x, y = box["x"] + 200, box["y"] + 60
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + 30, y + 20, steps=5)
        page.mouse.up()
        assert transform(page) == pytest.approx([start[0] + 30, start[1] + 20, start[2]], abs=1)
        page.mouse.wheel(0, -200)
        browser.wait_until(page, lambda: transform(page)[2] > start[2])
        for label, sign in (("zoom out", -1), ("zoom in", 1)):
            before = transform(page)[2]
            page.get_by_label(label).first.click()
            assert (transform(page)[2] - before) * sign > 0
        both = [x.get_attribute("transform") for x in page.locator(".dv-tree > g").all()]
        assert both[0] == both[1]
        page.get_by_label("fit the whole tree").first.click()
        assert transform(page)[0] == 16
        page.keyboard.press("End")
        page.locator(".dv-tree").first.locator("[data-node='1']").hover()
        marked = page.locator(".dv-hovered")
        assert [x.get_attribute("data-node") for x in marked.all()] == ["1", "1"]


def test_large_trees_are_pruned_and_summaries_open(chromium, tmp_path):
    recording = make_recording(500)
    with browser.open_page(chromium) as page:
        open_recording(page, tmp_path, recording)
        page.keyboard.press("End")
        drawn = page.locator(".dv-node:not(.dv-more)").count()
        assert 60 <= drawn < 70
        hidden = [
            int(re.match(r"\+(\d+)", text)[1])
            for text in page.locator(".dv-more text").all_text_contents()
        ]
        assert drawn + sum(hidden) == len(recording["nodes"])
        page.locator(".dv-more").first.dispatch_event("click")
        assert page.locator(".dv-node:not(.dv-more)").count() > drawn
        page.locator(".dv-limit").select_option("Infinity")
        assert page.locator(".dv-node:not(.dv-more)").count() == len(recording["nodes"])
        assert page.locator(".dv-more").count() == 0
        seek(page, 0)
        assert page.locator(".dv-node:not(.dv-hidden)").count() == 1


def test_keys_alone_operate_the_viewer(chromium, tmp_path):
    recording = make_recording(200)
    with browser.open_page(chromium) as page:
        open_recording(page, tmp_path, recording)
        page.keyboard.press("End")
        assert page.inner_text(".dv-step-count") == "step 200 of 200"
        page.keyboard.press("PageUp")
        assert page.inner_text(".dv-step-count") == "step 199 of 200"
        page.locator(".dv-tree").focus()
        parents = []
        for key in ("ArrowLeft",) * 30 + ("ArrowRight", "ArrowRight", "ArrowLeft"):
            page.keyboard.press(key)
            parents.append(page.locator(".dv-details h3").inner_text())
        assert parents[29] == "root"
        assert parents[30].count("move") == parents[32].count("move") == 1
        assert parents[31].count("move") == 2
        before = transform(page)
        page.keyboard.press("+")
        assert transform(page)[2] > before[2]
        page.keyboard.press("Shift+ArrowLeft")
        page.keyboard.press("0")
        assert transform(page)[0] == 16
        count = page.locator(".dv-node:not(.dv-more)").count()
        for _ in range(2):
            page.keyboard.press("ArrowLeft")
        open_summary_of_root(page, recording)
        assert page.locator(".dv-node:not(.dv-more)").count() > count


def open_summary_of_root(page: Any, recording: dict[str, Any]) -> None:
    """Opens by keys the first summary that is a child of a node on the way to the left."""
    for key in ("ArrowRight", "ArrowDown") * len(recording["nodes"]):
        count = page.locator(".dv-more").count()
        drawn = page.locator(".dv-node").count()
        page.keyboard.press("Enter")
        if (page.locator(".dv-more").count(), page.locator(".dv-node").count()) != (count, drawn):
            return
        page.keyboard.press(key)


def test_playing_advances_and_pauses(chromium, tmp_path):
    with browser.open_page(chromium) as page:
        page.clock.install(time=0)
        open_recording(page, tmp_path, make_recording(30))
        page.clock.pause_at(1000)
        slider = page.locator(".dv-slider")
        page.locator("select[aria-label=speed]").select_option(label="10 steps/s")
        page.keyboard.press("p")
        page.clock.run_for(450)
        assert slider.input_value() == "4"
        page.get_by_label("Play or pause (P)").click()
        page.clock.run_for(1000)
        assert slider.input_value() == "4"


HOSTILE = "<img src=x onerror=alert(1)></script>\"'&{}\u2028"


def test_hostile_names_are_shown_as_text(chromium, tmp_path):
    recording = make_recording(20, HOSTILE.replace("{}", "{{}}") + "{}")
    with browser.open_page(chromium) as page:
        page.on("dialog", lambda dialog: pytest.fail(dialog.message))
        open_recording(page, tmp_path, recording)
        page.keyboard.press("End")
        assert page.locator("img").count() == 0
        assert "<img src=x onerror=alert(1)></script>" in page.inner_text(".dv-details h3")
        assert page.evaluate("document.scripts.length") == 2


DAMAGES = [
    ({"format": "other"}, "not a recording of dualmctx"),
    ({"version": 2}, "has version 2; this viewer reads version 1"),
    ({"steps": None}, DAMAGED),
    ({"nodes": [{"index": 0, "parent": 0}]}, DAMAGED),
    ({"steps": [{"kind": "other"}]}, DAMAGED),
    ({"steps": [{"kind": "simulation", "changes": [{"node": 0, "tree": 0}]}]}, DAMAGED),
    ({"result": None}, DAMAGED),
    ({"comparison": {"nodes": []}}, DAMAGED),
]


def test_a_destroyed_viewer_leaves_nothing_and_damaged_recordings_are_refused(chromium, tmp_path):
    with browser.open_page(chromium) as page:
        open_recording(page, tmp_path, make_recording(3))
        children = page.evaluate("""() => {
          const root = document.createElement("div");
          document.body.append(root);
          const recording = JSON.parse(document.getElementById("recording").textContent);
          module_viewer_js.startViewer(root, recording).destroy();
          return root.childNodes.length;
        }""")
        assert children == 0
        page.keyboard.press("ArrowRight")
        assert page.inner_text(".dv-phase") == "selection, level 1 of 1"
        for change, message in DAMAGES:
            text = page.evaluate(
                "recording => { try { module_viewer_js.startViewer(document.body, recording); }"
                " catch (error) { return error.message; } }",
                make_recording(3) | change,
            )
            assert message in text


@pytest.mark.slow
@pytest.mark.parametrize(("is_chess", "first"), [(False, "dv-black"), (True, "dv-white")])
def test_the_legend_names_the_sides_by_the_colours_of_the_discs(
    chromium, tmp_path, is_chess, first
):
    with browser.open_page(chromium) as page:
        recording = make_recording(3)
        recording["players"] = ["white", "black"] if is_chess else ["x (black)", "o (white)"]
        picture = {"caption": "", "rows": [["."]], "row_labels": [], "column_labels": []}
        recording["nodes"][0]["picture"] = {**picture, "is_chess": is_chess, "marked": []}
        open_recording(page, tmp_path, recording)
        discs = page.locator(".dv-legend .dv-disc circle").evaluate_all(
            "discs => discs.map((disc) => disc.getAttribute('class'))"
        )
        texts = page.locator(".dv-legend > span").all_inner_texts()[:2]
        assert [text.strip() for text in texts] == (
            ["white moved", "black moved"] if is_chess else ["black moved", "white moved"]
        )
        assert discs[0] == first
        assert set(discs) == {"dv-black", "dv-white"}
        node = page.locator('.dv-tree [data-node="1"] circle').first
        assert node.get_attribute("class") == first


@pytest.mark.slow
def test_a_phone_needs_no_horizontal_scrolling(chromium, tmp_path):
    with browser.open_page(chromium, viewport={"width": 390, "height": 844}) as page:
        open_recording(page, tmp_path, dual_recording())
        for _ in range(12):
            page.keyboard.press("ArrowRight")
            assert page.evaluate("document.documentElement.scrollWidth") == 390
