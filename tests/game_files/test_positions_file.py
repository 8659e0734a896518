"""Reading of requested positions: every line gives a request or a one-line error."""

import io
import json
import re
import reprlib
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dualmctx.game_files.positions_file import read_csv, read_epd, read_json_lines
from dualmctx.game_files.questions import Question, check_fields, extra_fields, select
from dualmctx.game_files.text_files import MAX_LINE_LENGTH, read_lines

DEEP = "[" * 100_000


def json_lines(data: bytes) -> list[Question]:
    return list(read_json_lines(io.BytesIO(data)))


def csv_lines(data: bytes) -> list[Question]:
    return list(read_csv(io.BytesIO(data)))


def only(questions: list[Question]) -> Question:
    [question] = questions
    return question


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ('{"moves": [3, 3, "c4"]}', (1, 1, [3, 3, "c4"], None)),
        ('{"id": -7, "fen": "8/8 w"}', (1, -7, "", "8/8 w")),
        ('{"fen": "f", "moves": "e2e4 e7e5"}\r', (1, 1, "e2e4 e7e5", "f")),
        ('\ufeff{"moves": ""}', (1, 1, "", None)),
        ('\n \n{"id": "é", "moves": []}', (3, "é", [], None)),
        ('{"id": 18446744073709551615, "moves": [" : "]}', (1, 2**64 - 1, [" : "], None)),
        ('{"moves": "\\ud83d\\ude00", "fen": "é"}', (1, 1, "\U0001f600", "é")),
    ],
)
def test_json_line_is_parsed(text: str, question: tuple) -> None:
    found = only(json_lines(text.encode() + b"\n"))
    assert found.error is None
    assert found[: len(question)] == question
    assert found.end == len(text.encode()) + 1


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"nonsense", r"not JSON: .* at character 1"),
        (b'{"moves": "1"', r"not JSON: unexpected end of data at character 14"),
        (b"[1, 2]", r"not a JSON object but \[1, 2\]"),
        (b"{}", r"neither moves nor fen is given"),
        (b'{"moves": 3}', r"moves is 3; it must be text or a list of integers and texts"),
        (b'{"moves": [' + b"1" * 5000 + b"]}", r"not JSON: number is infinity .*"),
        (b'{"moves": "\\ud800"}', r"not JSON: no low surrogate in string at character 12"),
        (b'{"fen": ["x"]}', r"fen is \['x'\]; it must be text"),
        (b'{"moves": [], "a": NaN}', r"not JSON: .* at character 20"),
        (b'{"moves": [], "id": 18446744073709551616}', r"the JSON has .* of more than 64 bits; .*"),
        (b'{"moves": [], "a": ' + b"1" * 300 + b"}", r"the JSON has the whole number 1{40}, of .*"),
        (b'{"moves": [], "moves": [1]}', r"the JSON names the field 'moves' twice"),
        (b'{"moves": [], "a": ' + b"[" * 254 + b"]" * 254 + b"}", r"the JSON is nested too .*"),
        (b'{"moves": [], "a": ' + b"[" * 1020 + b"]" * 1020 + b"}", r"the JSON is nested too .*"),
        (b'{"moves": [], "id": 1.5}', r"id is 1\.5; it must be an integer or printable text"),
        (b'{"moves": [], "id": "a\\nb"}', r"id is 'a\\nb'; .*"),
        (
            b'{"mvoes": []}',
            r"neither moves nor fen is given; there is 'mvoes', perhaps you meant moves",
        ),
        (b'{"moves": "\xff"}', r"byte 12 is not UTF-8"),
        (b'{"moves": ' + DEEP.encode(), r"not JSON: depth limit exceeded .*"),
        (b" " * MAX_LINE_LENGTH + b"{}", r"the line is longer than 1048576 bytes"),
    ],
)
def test_invalid_json_line_has_an_error(line: bytes, error: str) -> None:
    bad, good = json_lines(line + b'\n{"moves": [1]}')
    assert bad.error is not None
    assert re.fullmatch(error, bad.error)
    # The id is unknown if the fields cannot be read, or if it is invalid itself.
    is_read = error.startswith(("neither", "moves is", "fen is"))
    assert (bad.line, bad.id) == (1, 1 if is_read else None)
    assert good == Question(2, 2, [1], end=len(line) + 15)


def test_error_keeps_a_readable_id() -> None:
    assert only(json_lines(b'{"id": "x", "moves": 1}')).id == "x"
    assert only(csv_lines(b"id,moves\nx,[1.5]\n")).id == "x"


def test_csv_columns_are_found_by_name() -> None:
    data = b'id,elo,moves,fen\na,1,"3, 4",\n,2,"[3, ""c""]","x y"\n\nb,,,\r\n'
    assert [x[:5] for x in csv_lines(data)] == [
        (2, "a", "3, 4", None, None),
        (3, 3, [3, "c"], "x y", None),
        (5, "b", "", None, None),
    ]
    assert csv_lines(b"\xef\xbb\xbf moves \n1\n")[0].moves == "1"


def test_lines_of_a_long_file_are_counted_with_any_line_end() -> None:
    """The blocks that are read end inside lines, and between the two characters of an end."""
    for end in (b"\n", b"\r", b"\r\n"):
        for length in range(MAX_LINE_LENGTH - 3, MAX_LINE_LENGTH + 3):
            data = b"a" + end + b"x" * length + end + b"b" * 9 + end + end + b"c"
            found = list(read_lines(io.BytesIO(data)))
            assert [x.number for x in found] == [1, 2, 3, 5]
            is_long = length + len(end) > MAX_LINE_LENGTH
            assert [x.error is not None for x in found] == [False, is_long, False, False]
            assert found[3].end == len(data)


def test_names_of_columns_may_be_in_capitals_or_missing() -> None:
    """Spreadsheets write columns without names after the last one."""
    [question] = csv_lines(b'ID,FEN,Moves,value,,\na,f,1,"2, x",,x\n')
    assert question[:5] == (2, "a", "1", "f", None)
    assert question.extra == {"input_value": "2, x"}


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"1,2,3", "3 cells; the header has 2 columns"),
        (b'1,"2', "not CSV: unexpected end of data"),
        (b"1," + b"2" * 200_000, "not CSV: field larger than field limit (131072)"),
        (b"a\x00,1", "id is 'a\\x00'; it must be an integer or printable text"),
    ],
)
def test_invalid_csv_record_has_an_error(line: bytes, error: str) -> None:
    bad, good = csv_lines(b"id,moves\n" + line + b"\n7,1\n")
    assert (bad.line, bad.id, bad.error) == (2, None, error)
    assert (good.line, good.id, good.moves) == (3, "7", "1")


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"id;moves\n1;2\n", "the header has no column moves or fen; it is 'id;moves'"),
        (b"moves,moves\n1,2\n", "the header names a column twice"),
        (b'"moves\n1\n', "line 1, the header: not CSV: unexpected end of data"),
        (b"x" * (MAX_LINE_LENGTH + 1), "line 1, the header: the line is longer than 1048576 bytes"),
    ],
)
def test_invalid_csv_header_raises(data: bytes, error: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
        csv_lines(data)


def test_positions_may_be_missing() -> None:
    assert only(csv_lines(b"id,fen\n1,\n")).error == "neither moves nor fen is given"
    assert json_lines(b"\n \r\n\t") == csv_lines(b"") == csv_lines(b"moves\n") == []


def test_overlong_line_is_skipped_in_bounded_memory(tmp_path: Path) -> None:
    with (tmp_path / "x").open("wb") as file:
        # A hole in the file, which is read as zeros.
        file.seek(100 * 2**20)
        file.write(b'\n{"moves": [1]}\n')
    tracemalloc.start()
    with (tmp_path / "x").open("rb") as file:
        bad, good = read_json_lines(file)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert bad.error == "the line is longer than 1048576 bytes"
    assert (good.line, good.moves) == (2, [1])
    assert peak < 8 * 2**20


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
objects = st.dictionaries(st.sampled_from(["id", "moves", "fen", "x"]), values)
lines = (
    st.binary(max_size=40)
    | objects.map(lambda x: json.dumps(x).encode())
    | st.lists(st.text().map(reprlib.repr), max_size=4).map(lambda x: ",".join(x).encode())
    | st.text().map(lambda x: f'"{x}","'.encode("utf-8", "surrogatepass"))
)


@pytest.mark.slow
@settings(max_examples=50)
@given(st.lists(lines, max_size=5).map(b"\n".join))
@example(b'{"id": "\\ud800", "moves": []}')
@example(b'"\r",')
@example(b"\xef\xbb\xbf")
def test_arbitrary_bytes_give_one_request_per_line(data: bytes) -> None:
    """Covers JSON Lines and CSV; blank lines are skipped, and errors are single lines."""
    for questions, first in ((json_lines(data), 1), (csv_lines(b"id,moves\n" + data), 2)):
        numbered = enumerate(data.splitlines(), start=first)
        assert [x.line for x in questions] == [i for i, line in numbered if is_asked(line)]
        for question in questions:
            if question.error is None:
                assert str(question.id).isprintable()
                assert isinstance(question.moves, str | list)
            else:
                assert question.error.count("\n") == 0


def is_asked(line: bytes) -> bool:
    return bool(line.removeprefix(b"\xef\xbb\xbf").strip(b" \t\r\n\v\f\x1a"))


@pytest.mark.parametrize(
    ("text", "extra"),
    [
        ('{"moves": ""}', None),
        ('{"moves": "", "a": "x:y", "b": 1, "c": null}', {"a": "x:y", "b": 1, "c": None}),
        ('{"moves": "", "value": 1, "line": 2}', {"input_value": 1, "input_line": 2}),
        ('{"moves": 3, "a": 1}', {"a": 1}),
    ],
)
def test_other_json_fields_are_kept(text: str, extra: Any) -> None:
    assert only(json_lines(text.encode())).extra == extra


BOARD = "8/8/1k6/8/4Q3/7K/8/8 w - -"


@pytest.mark.parametrize(
    ("line", "question"),
    [
        (f'{BOARD} bm Qe6+; id "W.1"; c0 "a; b";', ("W.1", "0 1", {"bm": "Qe6+", "c0": "a; b"})),
        (f"{BOARD} 3 40", (1, "3 40", None)),
        (
            f"{BOARD} hmvc 3; fmvn 40; acd 4; pv Qe6+ Kb5;",
            (1, "3 40", {"acd": "4", "input_pv": "Qe6+ Kb5"}),
        ),
        # Programs leave out spaces and semicolons.
        (f"{BOARD};bm Qe6+;", (1, "0 1", {"bm": "Qe6+"})),
        (f"{BOARD} ; bm Qe6+ ;id x;;", ("x", "0 1", {"bm": "Qe6+"})),
        (f"{BOARD} 3 9;bm Qe6+", (1, "3 9", {"bm": "Qe6+"})),
        (f"{BOARD} moves e4;fen f;", (1, "0 1", {"input_moves": "e4", "input_fen": "f"})),
        ("bad", "1 fields; four are needed: board, side to move, castling, en passant"),
        (f'{BOARD} "x"', "'\"x\"' is not an operation of EPD, as bm Nf3;"),
        (f"{BOARD} bm a; bm b;", "the operation bm is there twice; a position has one of each"),
    ],
)
def test_epd_has_a_position_and_operations_or_an_error(line: str, question: Any) -> None:
    found = only(list(read_epd(io.BytesIO(line.encode()))))
    if isinstance(question, str):
        assert found.error == question
    else:
        identity, counts, extra = question
        assert found[:5] == (1, identity, "", f"{BOARD} {counts}", None)
        assert found.extra == extra


def test_equal_names_in_results_raise() -> None:
    with pytest.raises(ValueError, match="value would be input_value in the results"):
        extra_fields({"moves": "", "value": 1, "input_value": 2})


def test_positions_are_echoed() -> None:
    assert only(json_lines(b'{"moves": [3], "a": 1}')).echoed().extra == {"moves": [3], "a": 1}
    assert only(json_lines(b'{"fen": "f"}')).echoed().extra == {"moves": "", "fen": "f"}
    assert only(json_lines(b'{"a": 1}')).echoed().extra == {"a": 1}


def test_unknown_fields_name_the_others() -> None:
    check_fields(["move", "id", "elo", "fen"], ["elo"])
    with pytest.raises(ValueError, match="has valeu, perhaps you meant value; the fields are id, "):
        check_fields(["valeu"], [])
    with pytest.raises(ValueError, match="has id twice"):
        check_fields(["id", "id"], [])


def test_selected_fields_have_their_order_and_keep_errors() -> None:
    row = {"id": 7, "line": 2, "value": -0.5}
    assert list(select(row, ["value", "id", "none"]).items()) == [("value", -0.5), ("id", 7)]
    row = {"error": "bad", "note": "a", "id": 1}
    assert select(row, ["note"]) == {"note": "a", "error": "bad"}
