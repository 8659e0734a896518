"""Requests of other programs: every wrong value is answered by one message."""

import io

import pytest

from dualmctx.console import printable
from dualmctx.evaluation.answers import error_row
from dualmctx.evaluation.questions import POSITION_FIELDS
from dualmctx.evaluation.requests import read_requests
from dualmctx.runs.journal import to_line

# JSON, and what other programs write in place of it.
VALUES = [
    *("NaN", "Infinity", "-Infinity", "1e999", "-1", "0", "1.5", "true", "null", "undefined"),
    *(
        "9" * 30,
        "9" * 5000,
        "-" + "9" * 30,
        "[" * 3000 + "]" * 3000,
        '{"a":' * 3000 + "1" + "}" * 3000,
    ),
    *("[]", "{}", '[1, "a"]', '[["a"]]', '{"a": 1}', "[NaN]", "[1e400]", "[-1]", "[true]"),
    *('""', '" "', '"a"', '"\\u0000"', '"\\ud800"', '"\\u009b"', f'"{"x" * 5000}"', '"\x01"'),
]
FIELDS = (
    *POSITION_FIELDS,
    *("variant", "simulations", "max_time", "report_every", "reuse", "is_maximum", "priority"),
    *("command", "target", "x", "varian"),
)


@pytest.mark.parametrize("field", FIELDS)
def test_a_wrong_value_gives_one_message(field: str) -> None:
    for value in VALUES:
        for rest in (
            '"moves": ""',
            '"id": 7, "moves": "1"',
            '"command": "cancel"',
            '"moves": null',
        ):
            line = f'{{{rest}, "{field}": {value}}}\n'.encode()
            [request] = read_requests(io.BytesIO(line))
            error = request.question.error
            if error is not None:
                row = error_row(request.question, error)
                assert printable(row["error"]) == row["error"], value
                assert len(row["error"]) <= 304, value
                assert to_line(row).count(b"\n") == 1


@pytest.mark.parametrize(
    "data", [b"\xff", b"\x00", b"{", b"[", b"[1]", b"1", b'"a"', b"nul", b"{}x"]
)
def test_a_line_that_is_no_object_gives_one_message(data: bytes) -> None:
    [request] = read_requests(io.BytesIO(data + b"\n"))
    assert request.question.error
