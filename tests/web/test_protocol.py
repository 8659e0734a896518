"""Messages of a page are validated before anything is done for them."""

import json
import re
from typing import Any

import pytest

from dualmctx.web.limits import MAX_MESSAGE_BYTES, MAX_MOVES, Rate
from dualmctx.web.protocol import TYPES, Message, Refusal, read_message, to_json

POSITION = {"checkpoint": "hsr", "moves": ["a", 3], "fen": None}


def read(**fields: Any) -> Message | Refusal:
    return read_message(json.dumps(fields))


def test_position_is_read() -> None:
    message = read(type="search", id=7, variant="dual", simulations=[5, 3], **POSITION)
    assert message == Message(
        "search", 7, "hsr", ("a", 3), variant="dual", simulations=(5, 3), temperature=0.0
    )
    question = message.question("x")
    assert (question.id, question.moves, question.fen) == ("x", ["a", 3], None)


def test_null_is_the_same_as_no_field() -> None:
    fields = {"variant": None, "simulations": None, "moves": None, "id": None}
    assert read(type="search", checkpoint="hsr", **fields) == Message("search", None, "hsr")


@pytest.mark.parametrize("kind", TYPES)
def test_message_without_a_required_field_is_refused(kind: str) -> None:
    for name in TYPES[kind]:
        refused = read(type=kind, id="x", **{x: "text" for x in TYPES[kind] if x != name})
        assert refused == Refusal("x", f"{name} is missing; a message of type {kind} needs it")


HOSTILE_FIELDS = [
    ({"id": [1]}, "id is"),
    ({"id": True}, "id is true"),
    ({"id": 1.5}, "id is 1.5"),
    ({"id": 2**60}, "id is"),
    ({"id": "x" * 101}, "id is"),
    ({"checkpoint": 3}, "checkpoint is 3"),
    ({"checkpoint": " "}, "checkpoint is"),
    ({"checkpoint": "x" * 301}, "checkpoint is"),
    ({"moves": "123"}, "moves is '123'"),
    ({"moves": {"a": 1}}, "moves is"),
    ({"moves": [True]}, "moves is"),
    ({"moves": [-1]}, r"moves is \[-1\]"),
    ({"moves": [1.0]}, r"moves is \[1.0\]"),
    ({"moves": [2**31]}, "moves is"),
    ({"moves": [""]}, r"moves is \[''\]"),
    ({"moves": ["x" * 301]}, "moves is"),
    ({"moves": [[]]}, r"moves is \[\[\]\]"),
    ({"moves": [0] * (MAX_MOVES + 1)}, "it must be a list of at most 1,000"),
    ({"fen": 7}, "fen is 7"),
    ({"fen": "x" * 301}, "fen is"),
    ({"variant": ["dual"]}, "variant is"),
    ({"simulations": 0}, "simulations is 0"),
    ({"simulations": -5}, "simulations is -5"),
    ({"simulations": 2**31}, "simulations is"),
    ({"simulations": True}, "simulations is true"),
    ({"simulations": 1.5}, "simulations is 1.5"),
    ({"simulations": "9"}, "simulations is '9'"),
    ({"simulations": []}, r"simulations is \[\]"),
    ({"simulations": [1] * 301}, "simulations is"),
    ({"temperature": -1}, "temperature is -1"),
    ({"temperature": 11}, "from 0 to 10"),
    ({"temperature": True}, "temperature is true"),
    ({"compare": 1}, "compare is 1"),
    ({"text": 5}, "text is 5"),
    ({"headers": ["a"]}, "headers is"),
    ({"headers": {"a": 1}}, "headers is"),
    ({"target": {}}, "target is"),
    ({"moves ": []}, "perhaps you meant moves"),
    ({"path": "/etc/passwd"}, "there is no field 'path'"),
]


@pytest.mark.parametrize(("fields", "reason"), HOSTILE_FIELDS, ids=lambda x: str(x)[:30])
def test_invalid_field_is_refused_with_its_value(fields: dict[str, Any], reason: str) -> None:
    refused = read(**({"type": "search"} | POSITION | fields))
    assert isinstance(refused, Refusal)
    assert re.search(reason, refused.reason)
    assert len(refused.reason) < 400


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x00\x01", "the message is binary"),
        ("", "not valid JSON"),
        ("{", "not valid JSON"),
        ("NaN", "not valid JSON"),
        ('{"type": "search", "temperature": NaN}', "not valid JSON"),
        ('{"type": "search", "temperature": 1e999}', "JSON|temperature"),
        ('{"type": "\\ud800"}', "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ('{"a":' * 50_000, "not valid JSON"),
        ("[1]", "send a JSON object"),
        ("null", "send a JSON object"),
        ("{}", "type is None"),
        ('{"type": []}', "type is"),
        ('{"type": "serach"}', "perhaps you meant search"),
        ("é" * (MAX_MESSAGE_BYTES // 2 + 1), "262,146 bytes"),
    ],
    ids=lambda x: str(x)[:20],
)
def test_unreadable_message_is_refused(data: str | bytes, reason: str) -> None:
    refused = read_message(data)
    assert isinstance(refused, Refusal)
    assert re.search(reason, refused.reason)


def test_refusal_repeats_the_id_if_it_can_be_read() -> None:
    assert read(id=5, type="x").id == 5
    assert read(id={}, type="hello").id is None


def test_numbers_that_are_not_finite_become_null() -> None:
    assert to_json({"a": float("nan"), "b": [float("inf")]}) == '{"a":null,"b":[null]}'


def test_rate_limits_the_messages_per_second() -> None:
    clock = [0.0]
    rate = Rate(per_second=10, burst=3, now=lambda: clock[0])
    assert [rate.take() for _ in range(3)] == [0, 0, 0]
    assert rate.take() == pytest.approx(0.1)
    assert rate.take() == pytest.approx(0.2)
    clock[0] = 10.0
    assert [rate.take() for _ in range(4)] == [0, 0, 0, pytest.approx(0.1)]
