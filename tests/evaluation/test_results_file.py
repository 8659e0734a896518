"""Files of results: formats, atomic writes, and parts that survive a kill."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from dualmctx.errors import UserError
from dualmctx.evaluation import results_file
from dualmctx.evaluation.results_file import (
    WRITERS,
    Flat,
    Layout,
    check_results,
    find_extra,
    flat_columns,
    write_results,
)
from dualmctx.evaluation.results_state import Counts, Results
from dualmctx.game_files.questions import RESULT_FIELDS
from dualmctx.game_files.text_files import open_compressed, open_decompressed, split_suffix
from dualmctx.runs.journal import parse_line, read_lines, to_line, write_rows

BIG = 2**64 - 1
MOVE = {"action": 1, "move": "2", "network_policy": [0.25, 1.0], "weight": 1.0, "visits": 3}
# An error, a position and a finished game, with further fields.
ROWS: list[dict[str, Any]] = [
    {
        **{"id": "e", "line": 1, "error": 'bad: "é", so ,'},
        **{"note": 'a ,"legal": b', "big": 1, "mixed": 1},
    },
    {
        **{"id": 7, "line": 2, "action": 1, "move": "2", "value": -0.5},
        **{"network_value": [0.5, None], "tree_values": [0.1], "pv": ["2", "1"]},
        **{"heads_agree": True, "heads_distance": 0.5},
        "legal": [{**MOVE, "q": None}, {**MOVE, "move": "3", "q": 0.5}],
        **{"note": "é", "big": BIG, "mixed": "x", "share": 0.5, "flag": True, "list": [1, "a"]},
    },
    {
        **{"id": None, "line": 5, "action": None, "move": None, "value": 1.0, "pv": []},
        **{"network_value": [None, None], "tree_values": [], "heads_agree": False},
        **{"heads_distance": None, "legal": [], "note": None, "share": 1, "list": {"legal": []}},
    },
]
EXTRA = {
    **{"note": "text", "big": "json", "mixed": "json", "share": "number", "flag": "boolean"},
    "list": "json",
}
LAYOUT = Layout((*RESULT_FIELDS, *EXTRA), EXTRA)
# In Parquet, ids and the values without a common type are text.
IN_PARQUET = {name: [row.get(name) for row in ROWS] for name in LAYOUT.columns} | {
    **{"id": ["e", "7", None], "big": ["1", str(BIG), None], "mixed": ["1", "x", None]},
    **{"share": [None, 0.5, 1.0], "list": [None, '[1,"a"]', '{"legal":[]}']},
}


def lines(rows: list[dict[str, Any]] = ROWS) -> list[bytes]:
    return list(map(to_line, rows))


@pytest.mark.parametrize("identity", [BIG, -(2**63), 'é ",legal": {', "a\\"])
def test_every_id_is_written_exactly(tmp_path: Path, identity: Any) -> None:
    """Includes ids of 64 bits, and ids that look like other parts of a row."""
    rows = [row | {"id": identity} for row in ROWS]
    assert [json.loads(line) for line in lines(rows)] == rows
    write_results(lines(rows), tmp_path / "x.csv")
    with (tmp_path / "x.csv").open(newline="", encoding="utf-8") as file:
        assert [record["id"] for record in csv.DictReader(file)] == [str(identity)] * len(rows)
    write_results(lines(rows), tmp_path / "x.parquet", LAYOUT)
    found = parquet.read_table(tmp_path / "x.parquet").to_pydict()
    assert found == IN_PARQUET | {"id": [str(identity)] * len(rows)}
    write_rows(tmp_path / "part", rows)
    assert [line.data for line in read_lines(tmp_path / "part")] == lines(rows)


def test_parquet_contains_the_rows_in_nested_columns(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(results_file, "_ROWS_PER_GROUP", 2)
    write_results(lines(), tmp_path / "x.parquet", LAYOUT)
    table = parquet.read_table(tmp_path / "x.parquet")
    assert table.to_pydict() == IN_PARQUET
    assert parquet.ParquetFile(tmp_path / "x.parquet").num_row_groups == 2
    legal = table.schema.field("legal").type.value_type
    assert {legal.field(i).name for i in range(legal.num_fields)} == {*MOVE, "q"}


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
    for resume, positions in ((False, None), (True, "digest")):
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
        *("", "{}", '{"settings": {"a": "\udcff"}}'),
        '{"settings": {}, "finished": {"rows": 3, "errors": 0}}',
    ],
)
def test_damaged_settings_raise_one_line(tmp_path: Path, content: str) -> None:
    # "\udcff" stands for a byte that is no UTF-8.
    (tmp_path / "x.csv.settings.json").write_text(content, errors="surrogateescape")
    with pytest.raises(ValueError, match=r"settings\.json cannot be read \(.*\); remove it"):
        make_results(tmp_path).claim(resume=True)


TEXT = b"".join(b'{"id": %d, "moves": "e2e4 e7e5"}\n' % i for i in range(10))


def read_decompressed(path: Path, content: bytes) -> bytes | None:
    """Returns the text of a compressed file; `None` if it is refused by one line with its name."""
    path.write_bytes(content)
    try:
        with open_decompressed(path) as file:
            return file.read()
    except UserError as error:
        message = str(error)
    assert message.startswith(f"{path} cannot be decompressed: ")
    assert "\n" not in message
    return None


@pytest.fixture(params=[".gz", ".zst"])
def compressed(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Returns a file with `TEXT`, as this package writes it."""
    if request.param == ".zst":
        pytest.importorskip("backports.zstd")
    path = tmp_path / f"x.jsonl{request.param}"
    with open_compressed(path, request.param) as file:
        file.write(TEXT)
    return path


def test_kinds_follow_from_all_values() -> None:
    assert find_extra(lines()) == EXTRA
    assert parse_line(to_line(ROWS[1])) == ROWS[1]


def test_csv_has_a_column_for_each_further_field(tmp_path: Path) -> None:
    write_results(lines(), tmp_path / "x.csv", LAYOUT)
    with (tmp_path / "x.csv").open(newline="", encoding="utf-8") as file:
        records = list(csv.DictReader(file))
    assert list(records[0]) == [*RESULT_FIELDS, *EXTRA]
    assert [x["note"] for x in records] == ['a ,"legal": b', "é", ""]
    assert [x["big"] for x in records] == ["1", str(BIG), ""]
    assert [x["list"] for x in records] == ["", '[1,"a"]', '{"legal":[]}']
    assert json.loads(records[1]["legal"]) == ROWS[1]["legal"]


def test_flat_csv_has_one_scalar_or_joined_text_per_column(tmp_path: Path) -> None:
    layout = Layout((*RESULT_FIELDS, "share"), {"share": "number"}, Flat(2, 1))
    write_results(lines(), tmp_path / "x.csv", layout)
    with (tmp_path / "x.csv").open(newline="", encoding="utf-8") as file:
        error, row, over = csv.DictReader(file)
    names = [x for name in layout.columns for x in flat_columns(name, Flat(2, 1))]
    assert list(row) == names
    assert {k: v for k, v in row.items() if k.startswith(("network", "tree", "legal", "pv"))} == {
        **{"network_value_1": "0.5", "network_value_2": "", "tree_values_1": "0.1", "pv": "2 1"},
        **{"legal_moves": "2 3", "legal_weights": "1.0 1.0", "legal_visits": "3 3"},
        **{"legal_q": "- 0.5", "legal_network_policy_1": "0.25 0.25"},
        "legal_network_policy_2": "1.0 1.0",
    }
    assert (row["heads_agree"], row["share"]) == ("true", "0.5")
    assert error["error"] == 'bad: "é", so ,'
    assert set(over.values()) == {"5", "1.0", "1", "false", ""}
    # Fields of the positions with the name of a column keep out of its way.
    passed = ("legal_moves", "input_legal_moves")
    write_results(
        lines([ROWS[1] | dict.fromkeys(passed, "x")]),
        tmp_path / "y.csv",
        layout._replace(columns=(*RESULT_FIELDS, *passed)),
    )
    with (tmp_path / "y.csv").open(newline="") as file:
        [row] = csv.DictReader(file)
    assert (row["legal_moves"], row["input_legal_moves"]) == ("2 3", "x")
    assert row["input_input_legal_moves"] == "x"


@pytest.mark.parametrize(("suffix", "compression"), [(".jsonl", ".gz"), (".csv", ".zst")])
def test_compressed_results_contain_the_same_rows(
    tmp_path: Path, suffix: str, compression: str
) -> None:
    if compression == ".zst":
        pytest.importorskip("backports.zstd")
    plain, path = tmp_path / f"x{suffix}", tmp_path / f"x{suffix}{compression}"
    assert split_suffix(path) == (suffix, compression)
    check_results(path)
    for file in (plain, path, path.with_name(f"y{suffix}{compression}")):
        write_results(lines(), file, LAYOUT)
    with open_decompressed(path) as file:
        assert file.read() == plain.read_bytes()
    assert path.read_bytes() != plain.read_bytes()
    assert path.read_bytes() == path.with_name(f"y{suffix}{compression}").read_bytes()


@pytest.mark.slow
def test_no_flipped_bit_changes_the_text_of_a_compressed_file(compressed: Path) -> None:
    """The file has two members or frames, one after the other; some bits have no meaning."""
    whole, num_refused = compressed.read_bytes() * 2, 0
    for bit in range(8 * len(whole)):
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        found = read_decompressed(compressed, bytes(changed))
        assert found in (None, TEXT * 2)
        num_refused += found is None
    assert num_refused > 0.9 * 8 * len(whole)


def test_a_compressed_file_that_is_cut_off_is_refused(compressed: Path) -> None:
    """Also after its first member or frame; a cut between two of them cannot be seen."""
    one = compressed.read_bytes()
    assert read_decompressed(compressed, one + one) == TEXT * 2
    for size in range(2 * len(one)):
        found = read_decompressed(compressed, (one + one)[:size])
        assert found == (TEXT if size == len(one) else None)


@pytest.mark.parametrize("tail", [b"x", b"text", b"\x1f\x8b"])
def test_a_compressed_file_with_other_bytes_at_its_end_is_refused(
    compressed: Path, tail: bytes
) -> None:
    assert read_decompressed(compressed, compressed.read_bytes() + tail) is None
    assert read_decompressed(compressed, tail) is None


def test_zstandard_without_a_checksum_is_read(tmp_path: Path) -> None:
    zstd = pytest.importorskip("backports.zstd")
    assert read_decompressed(tmp_path / "x.jsonl.zst", zstd.compress(TEXT)) == TEXT


def test_zstandard_without_its_package_names_the_remedy(monkeypatch: Any) -> None:
    monkeypatch.setattr("dualmctx.game_files.text_files._MODULES", ("no_such_module",))
    with pytest.raises(ValueError, match=r"Zstandard is not installed; run pip install \"dualmctx"):
        check_results(Path("x.csv.zst"))
