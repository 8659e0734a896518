"""Messages of a page are validated before anything is done for them."""

import json
import re
from typing import Any

import pytest

from dualmctx.web.protocol import (
    MAX_MESSAGE_BYTES,
    MAX_MOVES,
    TYPES,
    Message,
    Refusal,
    read_message,
    to_json,
)

POSITION = {"checkpoint": "hsr", "moves": ["a", 3], "fen": None}


def read(**fields: Any) -> Message | Refusal:
    return read_message(json.dumps(fields))


def test_position_is_read():
    message = read(type="search", id=7, variant="dual", simulations=[5, 3], **POSITION)
    assert message == Message(
        "search", 7, "hsr", ("a", 3), variant="dual", simulations=(5, 3), temperature=0.0
    )
    question = message.question("x")
    assert (question.id, question.moves, question.fen) == ("x", ["a", 3], None)


def test_null_is_the_same_as_no_field():
    fields = {"variant": None, "simulations": None, "moves": None, "id": None}
    assert read(type="search", checkpoint="hsr", **fields) == Message("search", None, "hsr")


@pytest.mark.parametrize("kind", TYPES)
def test_message_without_a_required_field_is_refused(kind):
    for name in TYPES[kind]:
        refused = read(type=kind, id="x", **{x: "text" for x in TYPES[kind] if x != name})
        assert refused == Refusal("x", f"{name} is missing; a message of type {kind} needs it")


LONG = "x" * 301
HOSTILE_FIELDS = [
    *(({"id": x}, "id is") for x in ([1], True, 1.5, 2**60, "x" * 101)),
    *(({"checkpoint": x}, "checkpoint is") for x in (3, " ", LONG)),
    *(({"moves": x}, "moves is") for x in ("123", [True], [2**31], [-1], [1.0], [""], [LONG])),
    ({"moves": [0] * (MAX_MOVES + 1)}, "it must be a list of at most 1,000"),
    *(({"fen": x}, "fen is") for x in (7, LONG)),
    ({"variant": ["dual"]}, "variant is"),
    *(({"simulations": x}, "simulations is") for x in (0, 2**31, 1.5, True, [], [1] * 301)),
    *(({"temperature": x}, "temperature is .* from 0 to 10") for x in (-1, 11, True)),
    ({"compare": 1}, "compare is 1"),
    ({"text": 5}, "text is 5"),
    *(({"headers": x}, "headers is") for x in (["a"], {"a": 1})),
    ({"target": {}}, "target is"),
    ({"moves ": []}, "perhaps you meant moves"),
    ({"path": "/etc/passwd"}, "there is no field 'path'"),
]


@pytest.mark.parametrize(("fields", "reason"), HOSTILE_FIELDS, ids=lambda x: str(x)[:30])
def test_invalid_field_is_refused_with_its_value(fields, reason):
    refused = read(**({"type": "search"} | POSITION | fields))
    assert isinstance(refused, Refusal)
    assert re.search(reason, refused.reason)
    assert len(refused.reason) < 400


UNREADABLE = [
    (b"\x00\x01", "the message is binary"),
    ("", "not valid JSON"),
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
]


@pytest.mark.parametrize(("data", "reason"), UNREADABLE, ids=lambda x: str(x)[:20])
def test_unreadable_message_is_refused(data, reason):
    refused = read_message(data)
    assert isinstance(refused, Refusal)
    assert re.search(reason, refused.reason)


def test_refusal_repeats_the_id_if_it_can_be_read():
    assert read(id=5, type="x").id == 5
    assert read(id={}, type="hello").id is None


def test_numbers_that_are_not_finite_become_null():
    assert to_json({"a": float("nan"), "b": [float("inf")]}) == '{"a":null,"b":[null]}'
