"""The documents show the measurements of `benchmarks/results`, and no other numbers."""

import json
import pathlib
import subprocess

import pytest

from benchmarks import ledger
from documents import PAGES, ROOT, read

TEXT = """# Page

## Speed

<!-- ledger speed: B ours_us -->
<!-- /ledger -->

Ours takes 1,436 µs and 1.44 ms, a share of 21 % and 0.213, or 9.8 ± 0.5 points, with `c = 0.75`.

## Other

It takes 12.4 s in 26 rows, see [speed](../benchmarks/results/speed.json), or 12.5 s.

## Plans

<!-- no measurements -->

We expect 99.9 %.
"""


# Pages whose numbers are settings, formulas or examples. So are those of the tutorials.
WITHOUT_MEASUREMENTS = {
    "benchmarks/README.md",
    "docs/algorithms.md",
    "docs/clusters.md",
    "docs/engines.md",
    "docs/index.md",
    "docs/install.md",
    "docs/networks.md",
    "docs/pipeline-reference.md",
    "docs/play-protocol.md",
    "docs/python.md",
    "docs/recordings.md",
    "docs/serve.md",
    "docs/start.md",
    "docs/trees.md",
    "docs/variants.md",
}


def test_every_page_with_measurements_is_checked() -> None:
    others = {page for page in PAGES if not page.startswith("docs/tutorials/")}
    assert others - {*ledger.DOCUMENTS} == WITHOUT_MEASUREMENTS


@pytest.fixture
def results(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setattr(ledger, "RESULTS", tmp_path)
    rows = [{"B": 4096, "ours_us": 1436.0, "share": 0.2126}, {"B": 1, "ours us": -1.5}]
    more = {"stated": {"seconds": 12.43, "gain": "9.8 ± 0.5", "milliseconds": 1.44}}
    ledger.write_measurement(tmp_path / "speed.json", rows, **more)
    return tmp_path


@pytest.mark.parametrize("page", ledger.DOCUMENTS)
def test_tables_are_those_of_the_ledger(page: str) -> None:
    """`python -m benchmarks.ledger` writes them."""
    assert ledger.render(read(page)) == read(page)


@pytest.mark.parametrize("page", ledger.DOCUMENTS)
def test_sentences_state_numbers_of_the_ledger(page: str) -> None:
    assert ledger.find_unknown(read(page)) == []


def test_every_measurement_says_where_it_comes_from() -> None:
    for file in sorted(ledger.RESULTS.glob("*.json")):
        found = json.loads(file.read_text(encoding="utf-8"))
        known = ("command", "date", "commit", "environment", "rows")
        assert {*known} <= found.keys(), file.name
        assert all((found["command"], found["date"])), file.name
        assert found["rows"] or found["stated"], file.name
        assert "device" in found["environment"], file.name


@pytest.mark.usefixtures("results")
def test_a_table_has_the_columns_that_its_mark_names() -> None:
    lines = ledger.render(TEXT).splitlines()
    begin = lines.index("<!-- ledger speed: B ours_us -->")
    assert lines[begin + 1] == "| B | ours us |"
    assert lines[begin + 3 : begin + 5] == ["| 4,096 | 1,436.0 |", "| 1 | −1.5 |"]
    assert "*Measured*" in lines[begin + 6]
    assert ledger.render("\n".join(lines)) == "\n".join(lines)


@pytest.mark.usefixtures("results")
def test_numbers_that_no_measurement_of_a_section_has_are_found() -> None:
    assert ledger.find_unknown(TEXT) == ["## Other: 12.5"]
    wrong = TEXT.replace("21 %", "22 %").replace("± 0.5", "± 0.6").replace("1.44", "1.45")
    found = ["## Speed: 1.45", "## Speed: 22", "## Speed: 0.6", "## Other: 12.5"]
    assert ledger.find_unknown(wrong) == found
    assert ledger.find_unknown(TEXT.replace("speed.json", "")) == [
        "## Other: 12.4",
        "## Other: 12.5",
    ]


def test_a_measurement_records_the_commit_and_the_device(results: pathlib.Path) -> None:
    found = json.loads((results / "speed.json").read_text())
    head = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    ).stdout
    assert found["commit"] is None or head.startswith(found["commit"].removesuffix("-dirty"))
    assert found["environment"]["cpu_cores"] >= 1
    ledger.write_measurement(None, [])


def test_a_program_that_is_gone_is_named_with_its_commit() -> None:
    where = {"device": "cpu", "jax": "0.10.2"}
    result = {"command": "python -m benchmarks.gone 1", "date": "2026-11-27", "commit": "abc"}
    shown = ledger.provenance(result | {"environment": where})
    assert shown == "*Measured* 2026-11-27, commit abc: `benchmarks.gone 1` (cpu, JAX 0.10.2)."
