"""Fields of positions that pass through to the results, and the selection of fields."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from dualmctx.errors import UserError
from dualmctx.evaluation.positions_file import read_csv, read_json_lines
from dualmctx.evaluation.questions import (
    RESULT_FIELDS,
    Question,
    check_fields,
    extra_fields,
    select,
)
from dualmctx.evaluation.results_file import (
    Flat,
    Layout,
    check_results,
    find_extra,
    flat_columns,
    write_results,
)
from dualmctx.evaluation.text_files import open_compressed, open_decompressed, split_suffix
from dualmctx.runs.journal import parse_line, to_line

BIG = 2**70
MOVE = {"action": 1, "move": "2", "network_policy": [0.25, 1.0], "weight": 1.0, "visits": 3}
ROWS: list[dict[str, Any]] = [
    {"id": "e", "line": 1, "error": "bad", "note": 'a ,"legal": b', "big": 1, "mixed": 1},
    {
        **{"id": 7, "line": 2, "action": 1, "move": "2", "value": -0.5},
        **{"network_value": [0.5, None], "tree_values": [0.1], "pv": ["2", "1"]},
        **{"heads_agree": True, "heads_distance": 0.5},
        "legal": [{**MOVE, "q": None}, {**MOVE, "move": "3", "q": 0.5}],
        **{"note": "é", "big": BIG, "mixed": "x", "share": 0.5, "flag": True, "list": [1, "a"]},
    },
    {"id": 8, "line": 3, "action": None, "note": None, "share": 1, "list": {"legal": []}},
]
EXTRA = {
    **{"note": "text", "big": "json", "mixed": "json", "share": "number", "flag": "boolean"},
    "list": "json",
}


def only(data: str, *, is_csv: bool = False) -> Question:
    [question] = (read_csv if is_csv else read_json_lines)(io.BytesIO(data.encode()))
    return question


@pytest.mark.parametrize(
    ("text", "extra"),
    [
        ('{"moves": ""}', None),
        ('{"moves": "", "a": "x:y", "b": 1, "c": null}', {"a": "x:y", "b": 1, "c": None}),
        ('{"moves": "", "a": {"b": [1.5]}}', {"a": {"b": [1.5]}}),
        ('{"moves": "", "value": 1, "line": 2}', {"input_value": 1, "input_line": 2}),
        (f'{{"moves": "", "a": {BIG}, "b": [{BIG}]}}', {"a": BIG, "b": [BIG]}),
        ('{"moves": 3, "a": 1}', {"a": 1}),
    ],
)
def test_other_json_fields_are_kept(text: str, extra: Any) -> None:
    assert only(text).extra == extra


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("1e999", "field 'a' is inf; it must have finite numbers"),
        ('"\\ud800"', "no unpaired surrogates"),
        ("[" * 1100 + "]" * 1100, "nested"),
    ],
)
def test_fields_that_cannot_be_stored_are_errors(value: str, error: str) -> None:
    question = only(f'{{"moves": "", "a": {value}}}')
    assert question.error is not None
    assert error in question.error


def test_other_csv_columns_are_kept_as_text() -> None:
    question = only('id,moves,elo,,value\n1,4,7,x,"a, b"\n', is_csv=True)
    assert question.extra == {"elo": "7", "input_value": "a, b"}


def test_equal_names_in_results_raise() -> None:
    with pytest.raises(ValueError, match="value would be input_value in the results"):
        extra_fields({"moves": "", "value": 1, "input_value": 2})


def test_positions_are_echoed() -> None:
    assert only('{"moves": [3], "a": 1}').echoed().extra == {"moves": [3], "a": 1}
    assert only('{"fen": "f"}').echoed().extra == {"moves": "", "fen": "f"}
    assert only('{"a": 1}').echoed().extra == {"a": 1}


def test_unknown_fields_name_the_others() -> None:
    check_fields(["move", "id", "elo", "fen"], ["elo"])
    with pytest.raises(ValueError, match="has valeu, perhaps you meant value; the fields are id, "):
        check_fields(["valeu"], [])
    with pytest.raises(ValueError, match="has id twice"):
        check_fields(["id", "id"], [])


def test_selected_fields_have_their_order_and_keep_errors() -> None:
    assert list(select(ROWS[1], ["value", "id", "none"]).items()) == [("value", -0.5), ("id", 7)]
    assert select(ROWS[0], ["note"]) == {"note": ROWS[0]["note"], "error": "bad"}


def test_kinds_follow_from_all_values() -> None:
    assert find_extra(map(to_line, ROWS)) == EXTRA
    assert parse_line(to_line(ROWS[1])) == ROWS[1]


def lines() -> Any:
    return map(to_line, ROWS)


def test_csv_has_a_column_for_each_further_field(tmp_path: Path) -> None:
    write_results(lines(), tmp_path / "x.csv", Layout((*RESULT_FIELDS, *EXTRA), EXTRA))
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
    assert (row["heads_agree"], row["share"], error["error"]) == ("true", "0.5", "bad")
    assert set(over.values()) == {"8", "3", "", "1"}


def test_parquet_columns_have_the_types_of_further_fields(tmp_path: Path) -> None:
    write_results(lines(), tmp_path / "x.parquet", Layout((*RESULT_FIELDS, *EXTRA), EXTRA))
    found = parquet.read_table(tmp_path / "x.parquet").to_pydict()
    assert found["big"] == ["1", str(BIG), None]
    assert found["mixed"] == ["1", "x", None]
    assert found["share"] == [None, 0.5, 1.0]
    assert found["flag"] == [None, True, None]
    assert found["list"] == [None, '[1,"a"]', '{"legal":[]}']


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
@pytest.mark.parametrize("compression", [".gz", ".zst"])
def test_compressed_results_contain_the_same_rows(
    tmp_path: Path, suffix: str, compression: str
) -> None:
    if compression == ".zst":
        pytest.importorskip("backports.zstd")
    plain, path = tmp_path / f"x{suffix}", tmp_path / f"x{suffix}{compression}"
    assert split_suffix(path) == (suffix, compression)
    check_results(path)
    layout = Layout((*RESULT_FIELDS, *EXTRA), EXTRA)
    for file in (plain, path, path.with_name(f"y{suffix}{compression}")):
        write_results(lines(), file, layout)
    with open_decompressed(path) as file:
        assert file.read() == plain.read_bytes()
    assert path.read_bytes() != plain.read_bytes()
    assert path.read_bytes() == path.with_name(f"y{suffix}{compression}").read_bytes()


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


TEXT = b"".join(b'{"id": %d, "moves": "e2e4 e7e5"}\n' % i for i in range(40))


@pytest.mark.parametrize("number", [1, 2])
def test_no_flipped_bit_changes_the_text_of_a_compressed_file(
    compressed: Path, number: int
) -> None:
    """Also of several members or frames, one after the other; some bits have no meaning."""
    whole, num_refused = compressed.read_bytes() * number, 0
    for bit in range(8 * len(whole)):
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        found = read_decompressed(compressed, bytes(changed))
        assert found in (None, TEXT * number)
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
    monkeypatch.setattr("dualmctx.evaluation.text_files._MODULES", ("no_such_module",))
    with pytest.raises(ValueError, match=r"Zstandard is not installed; run pip install \"dualmctx"):
        check_results(Path("x.csv.zst"))
