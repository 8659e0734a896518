"""Files of results: formats, atomic writes, and parts that survive a kill."""

import csv
import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from dualmctx.errors import UserError
from dualmctx.evaluation import results_file
from dualmctx.evaluation.fields import RESULT_FIELDS
from dualmctx.evaluation.parts import Counts, end_row, has_end, is_end, join_parts, reopen_part
from dualmctx.evaluation.results_file import WRITERS, check_results, write_results
from dualmctx.evaluation.results_state import Results
from dualmctx.runs.journal import to_line, write_rows

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


def write_part(path: Path, rows: list[dict[str, Any]], end: int | None = None) -> Path:
    """Writes a complete part; `end` is the number of all positions."""
    write_rows(path, [*rows, end_row(end)])
    return path


def test_json_lines_contain_the_rows(tmp_path: Path) -> None:
    write_results(map(to_line, ROWS), tmp_path / "x.jsonl")
    lines = (tmp_path / "x.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == ROWS


def test_csv_contains_the_rows_with_json_cells(tmp_path: Path) -> None:
    write_results(map(to_line, ROWS), tmp_path / "x.csv")
    with (tmp_path / "x.csv").open(newline="") as file:
        records = list(csv.DictReader(file))

    def read(name: str, cell: str) -> Any:
        if cell == "":
            return None
        return cell if name in ("id", "move", "error") else json.loads(cell)

    found = {name: [read(name, record[name]) for record in records] for name in EXPECTED}
    assert found == EXPECTED | {"id": [None, "a", "7"]}
    assert list(records[0]) == list(EXPECTED)


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
    part = write_part(tmp_path / "part", rows, 3)
    assert [row.data for row in join_parts([part], strict=False)] == lines


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


def test_nan_is_written_as_null() -> None:
    assert to_line({"value": [math.nan, -math.inf, 0.5]}) == b'{"value":[null,null,0.5]}\n'


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("x.txt", r"must end in one of \.jsonl, \.csv, \.parquet, or be -; "),
        ("results", r"must end in one of"),
        ("none/x.csv", r"the folder none does not exist$"),
    ],
)
def test_invalid_file_names_raise(name: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        check_results(Path(name))


def test_parquet_without_pyarrow_names_the_remedy(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ValueError, match=r'^pyarrow is not installed; run pip install "dualmctx\['):
        check_results(Path("x.parquet"))


def test_truncated_part_keeps_complete_rows(tmp_path: Path) -> None:
    """After a cut at any byte, complete rows stay and the completed file is the same."""
    path = write_part(tmp_path / "part", ROWS, 3)
    content, rows = path.read_bytes(), [*ROWS, end_row(3)]
    assert is_end(reopen_part(path)[-1])
    for size in range(len(content)):
        path.write_bytes(content[:size])
        part, errors, last = reopen_part(path)
        assert part.num_rows == content[:size].count(b"\n")
        assert errors == sum("error" in row for row in rows[: part.num_rows])
        assert last == (rows[part.num_rows - 1] if part.num_rows else {})
        part.append(rows[part.num_rows :])
        assert path.read_bytes() == content


def test_end_is_visible_to_other_processes(tmp_path: Path) -> None:
    path = tmp_path / "part"
    assert not has_end(path)
    part, _, _ = reopen_part(path)
    for row in ROWS:
        part.append([row])
        assert not has_end(path)
    part.append([end_row(None)])
    assert has_end(path)
    path.write_bytes(path.read_bytes()[:-1])
    assert not has_end(path)


def read_joined(paths: list[Path], *, strict: bool) -> list[dict[str, Any]]:
    joined = list(join_parts(paths, strict=strict))
    rows = [json.loads(row.data) for row in joined]
    assert [(row.line, row.is_error) for row in joined] == [(x["line"], "error" in x) for x in rows]
    return rows


def test_parts_are_merged_by_line_number(tmp_path: Path) -> None:
    rows = [{"line": i} | ({"error": "x"} if i in (4, 7) else {}) for i in range(1, 10)]
    paths = [write_part(tmp_path / str(i), rows[i::3], 9) for i in range(3)]
    assert read_joined(paths, strict=False) == rows
    assert read_joined(paths, strict=True) == rows[:4]


def test_parts_of_a_strict_task_end_at_an_error(tmp_path: Path) -> None:
    rows = [{"line": i} | ({"error": "x"} if i in (3, 6) else {}) for i in range(1, 9)]
    paths = [tmp_path / "0", tmp_path / "1"]
    write_part(paths[0], rows[:3:2])
    write_part(paths[1], rows[1:6:2])
    assert read_joined(paths, strict=True) == rows[:3]
    assert len(read_joined(paths, strict=False)) == 5


@pytest.mark.parametrize(
    ("kept", "end", "words"),
    [
        ([[1, 2, 2]], 3, "0 both have line 2; remove all parts and start again"),
        ([[1, 3], [2, 3]], 4, "1 both have line 3; remove all parts and start again"),
        ([[1, 2]], 3, "0 have 2 rows, but the positions are [3]; remove all parts"),
        ([[1, 2], []], 3, "1 have 2 rows, but the positions are [3, 3]; remove all parts"),
    ],
)
def test_positions_without_a_row_or_with_two_raise(
    tmp_path: Path, kept: list[list[int]], end: int, words: str
) -> None:
    paths = [
        write_part(tmp_path / str(i), [{"line": line} for line in lines], end)
        for i, lines in enumerate(kept)
    ]
    with pytest.raises(UserError, match=re.escape(words)) as error:
        list(join_parts(paths, strict=False))
    assert "\n" not in str(error.value)


def test_parts_without_an_end_raise(tmp_path: Path) -> None:
    write_rows(tmp_path / "0", ROWS)
    with pytest.raises(UserError, match=r"0 is not complete; continue with --resume"):
        list(join_parts([tmp_path / "0"], strict=False))


def names(folder: Path) -> set[str]:
    return {x.name for x in folder.iterdir()}


def make_results(folder: Path, **settings: Any) -> Results:
    return Results(folder / "x.csv", {"seed": 0, "search": {"n": 1}} | settings)


def test_existing_file_raises(tmp_path: Path) -> None:
    results = make_results(tmp_path)
    results.part(5).touch()
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
            make_results(tmp_path).part(0).touch()
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
    make_results(tmp_path).part(0).touch()
    make_results(tmp_path).claim(resume=True)
    assert make_results(tmp_path).part(0).exists()
    other = make_results(tmp_path, search={"n": 2}, seed=3)
    with pytest.raises(ValueError, match=r"settings: search\.n \(1 → 2\), seed \(0 → 3\); choose"):
        other.claim(resume=True)


def test_results_are_finished_once(tmp_path: Path) -> None:
    results = make_results(tmp_path)
    results.claim(resume=False)
    for process in range(2):
        results.part(process).touch()
    results.path.write_text("some results")
    results.finish(Counts(3, 1))
    assert results.finished() == Counts(3, 1)
    assert names(tmp_path) == {"x.csv", "x.csv.settings.json"}
    results.claim(resume=True)
    assert results.finished() == Counts(3, 1)
    # A kill may have left parts.
    results.part(0).touch()
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
