"""Files of results: formats, atomic writes, and parts that survive a kill."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from dualmctx.errors import UserError
from dualmctx.evaluation import results_file
from dualmctx.evaluation.questions import RESULT_FIELDS
from dualmctx.evaluation.results_file import WRITERS, Counts, Results, write_results
from dualmctx.runs.journal import read_lines, to_line, write_rows

MOVE = {"action": 1, "move": "2", "network_policy": [0.25, 1.0], "weight": 1.0}
ROWS: list[dict[str, Any]] = [
    {"id": None, "line": 1, "error": 'not JSON: "é", so ,'},
    {
        **{"id": "a", "line": 2, "action": 1, "move": "2", "value": -0.5, "pv": ["2", "1"]},
        **{"network_value": [0.5, -1.0], "tree_values": [0.1], "heads_agree": True},
        **{"heads_distance": 0.125, "legal": [{**MOVE, "visits": 3, "q": None}]},
    },
    {
        **{"id": 7, "line": 5, "action": None, "move": None, "value": 1.0, "pv": []},
        **{"network_value": [None, None], "tree_values": [], "heads_agree": False},
        **{"heads_distance": None, "legal": []},
    },
]
EXPECTED = {name: [row.get(name) for row in ROWS] for name in RESULT_FIELDS}


BIG = 2**70


@pytest.mark.parametrize("identity", [BIG, -BIG, 2**63, 'é ",legal": {', "a\\", '{"id":7,', "7"])
def test_every_id_is_written_exactly(tmp_path: Path, identity: Any) -> None:
    """Includes ids of more than 64 bits, and ids that look like other parts of a row."""
    rows = [row | {"id": identity} for row in ROWS]
    lines = list(map(to_line, rows))
    assert [json.loads(line) for line in lines] == rows
    write_results(lines, tmp_path / "x.csv")
    with (tmp_path / "x.csv").open(newline="", encoding="utf-8") as file:
        assert [record["id"] for record in csv.DictReader(file)] == [str(identity)] * len(rows)
    write_results(lines, tmp_path / "x.parquet")
    found = parquet.read_table(tmp_path / "x.parquet").to_pydict()
    assert found == EXPECTED | {"id": [str(identity)] * len(rows)}
    write_rows(tmp_path / "part", rows)
    assert [line.data for line in read_lines(tmp_path / "part")] == lines


def test_parquet_contains_the_rows_in_nested_columns(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(results_file, "_ROWS_PER_GROUP", 2)
    write_results(map(to_line, ROWS), tmp_path / "x.parquet")
    table = parquet.read_table(tmp_path / "x.parquet")
    assert table.to_pydict() == EXPECTED | {"id": [None, "a", "7"]}
    assert parquet.ParquetFile(tmp_path / "x.parquet").num_row_groups == 2
    legal = table.schema.field("legal").type.value_type
    assert {legal.field(i).name for i in range(legal.num_fields)} == {*MOVE, "visits", "q"}


@pytest.mark.parametrize("suffix", WRITERS)
def test_files_are_written_atomically(tmp_path: Path, suffix: str) -> None:
    def broken() -> Any:
        yield to_line(ROWS[0])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_results(broken(), tmp_path / f"x{suffix}")
    assert list(tmp_path.iterdir()) == []


def names(folder: Path) -> set[str]:
    return {x.name for x in folder.iterdir()}


def make_results(folder: Path, **settings: Any) -> Results:
    return Results(folder / "x.csv", {"seed": 0, "search": {"n": 1}} | settings)


def test_existing_file_raises(tmp_path: Path) -> None:
    results = make_results(tmp_path)
    results.part.touch()
    results.claim(resume=False)
    assert names(tmp_path) == {"x.csv.settings.json"}
    assert results.finished() is None
    with pytest.raises(ValueError, match=r"x\.csv, which exists or is incomplete; .*--resume$"):
        results.claim(resume=False)
    other = Results(tmp_path / "y.csv", {})
    other.path.touch()
    with pytest.raises(ValueError, match=r"y\.csv, which exists"):
        other.claim(resume=False)
    with pytest.raises(ValueError, match=r"y\.csv cannot be resumed without y\.csv\.settings"):
        other.claim(resume=True)


def test_results_of_standard_input_start_again(tmp_path: Path) -> None:
    """Results for standard input cannot be resumed, because the input is gone."""
    for resume in (False, True):
        for positions in (None, "digest"):
            make_results(tmp_path, positions=None).claim(resume=False)
            make_results(tmp_path).part.touch()
            again = make_results(tmp_path, positions=positions)
            again.claim(resume=resume)
            assert names(tmp_path) == {"x.csv.settings.json"}
            assert again.finished() is None
            (tmp_path / "x.csv.settings.json").unlink()
    # Complete results stay.
    done = make_results(tmp_path, positions=None)
    done.claim(resume=False)
    done.path.touch()
    done.finish(Counts(3, 1))
    with pytest.raises(ValueError, match=r"x\.csv, which exists"):
        done.claim(resume=False)


def test_resuming_requires_equal_settings(tmp_path: Path) -> None:
    make_results(tmp_path).claim(resume=True)
    make_results(tmp_path).part.touch()
    make_results(tmp_path).claim(resume=True)
    assert make_results(tmp_path).part.exists()
    other = make_results(tmp_path, search={"n": 2}, seed=3)
    with pytest.raises(ValueError, match=r"settings: search\.n \(1 → 2\), seed \(0 → 3\); choose"):
        other.claim(resume=True)


def test_results_are_finished_once(tmp_path: Path) -> None:
    results = make_results(tmp_path)
    results.claim(resume=False)
    results.part.touch()
    results.path.write_text("some results")
    results.finish(Counts(3, 1))
    assert results.finished() == Counts(3, 1)
    assert names(tmp_path) == {"x.csv", "x.csv.settings.json"}
    results.claim(resume=True)
    assert results.finished() == Counts(3, 1)
    # A kill may have left the part.
    results.part.touch()
    results.claim(resume=True)
    assert names(tmp_path) == {"x.csv", "x.csv.settings.json"}
    for content in ("", "some result", "some Results", "some results "):
        results.path.write_text(content)
        with pytest.raises(UserError, match=r"x\.csv was changed after it was written; remove it"):
            results.claim(resume=True)
        assert results.path.read_text() == content
    results.path.unlink()
    results.claim(resume=True)
    assert results.finished() is None


@pytest.mark.parametrize(
    "content",
    [
        *("", "[]", "{}", "\x00", '{"settings": 1}', '{"settings": {}, "finished": {}}'),
        '{"settings": {}, "finished": {"rows": 3, "errors": 0}}',
    ],
)
def test_damaged_settings_raise_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "x.csv.settings.json").write_text(content)
    with pytest.raises(ValueError, match=r"settings\.json cannot be read \(.*\); remove it"):
        make_results(tmp_path).claim(resume=True)
