"""Parsing a batch of lines gives the same results as parsing each line alone."""

import functools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import games
from games import parsed_moves
from games.parsed_moves import Line, ParsedMoves, parse_lines

GAMES = ("connect_four", "othello", "hsr", "gardner_chess")
START = "rnbqk/ppppp/5/PPPPP/RNBQK w - - 0 1"
make = functools.cache(games.make)


def parse_alone(env: Any, line: Line) -> tuple[Any, list[int], str | None]:
    """Returns the start, the actions and the error of a position."""
    try:
        if line.error is not None:
            raise ValueError(line.error)
        start = None if line.fen is None else games.read_fen(env, line.fen)
        return start, games.parse_moves(env, line.moves, start), None
    except ValueError as error:
        return None, [], str(error)


def check_batch(env: Any, lines: list[Line]) -> ParsedMoves:
    starts, moves, errors = zip(*(parse_alone(env, x) for x in lines), strict=True)
    found = parse_lines(env, lines)
    assert found.actions.tolist() == [action for row in moves for action in row]
    assert found.lengths.tolist() == list(map(len, moves))
    assert found.errors == {row: error for row, error in enumerate(errors) if error is not None}
    assert tuple(found.starts) == starts
    return found


@pytest.mark.parametrize("name", GAMES)
def test_batch_is_parsed_like_single_positions(name: str) -> None:
    env = make(name)
    text = ["a2a3", "b4b3"] if games.is_chess(env) else games.format_moves(env, None, [0, 2, 1])
    asked: list[Any] = [
        *("", [], text, " ".join(text), ",".join(text), ", ".join(text), " , ".join(text)),
        *([x.upper() for x in text], [x.lower() for x in text], [0, 1, 2], [0, text[0]]),
        *("".join(text), "x", ["x"], [10**30], [-1], "1,,2", "\u0661", "1,no break", ["no  break"]),
        *([True], [1.0], [[3]], [0, np.int64(1)]),
    ]
    lines = [Line(moves) for moves in asked]
    lines += [Line("", START), Line(text, START)]
    lines += [Line("", "no fen"), Line(error="not JSON")]
    check_batch(env, lines)


def test_known_moves_are_not_parsed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[Any] = []

    def parse_moves(env: Any, moves: Any, start: Any) -> list[int]:
        parsed.append(moves)
        return [0]

    monkeypatch.setattr(parsed_moves, "parse_moves", parse_moves)
    asked = ["4453", "4,4", "4 5", [3, "4"], [], "44x"]
    found = parse_lines(make("connect_four"), [Line(moves) for moves in asked])
    assert parsed == ["44x"]
    assert found.lengths.tolist() == [4, 2, 2, 2, 0, 1]


texts = st.text(max_size=6) | st.text("1234567, ", max_size=12)
moves = texts | st.lists(st.integers() | st.integers(0, 8) | texts, max_size=6)


@settings(max_examples=40)
@given(st.lists(st.tuples(moves, st.none() | st.text(max_size=4)), min_size=1, max_size=4))
def test_arbitrary_batches_are_parsed_like_single_positions(asked: list[tuple]) -> None:
    check_batch(make("connect_four"), [Line(*x) for x in asked])


def test_tables_hold_a_range_of_moves() -> None:
    lengths = np.array([3, 0, 5, 1])
    parsed = ParsedMoves(np.arange(9, dtype=np.int32), lengths, [None] * 4, {})
    first, second, third = (parsed.table(done, 6, 2).tolist() for done in (0, 2, 4))
    pad = [-1, -1]
    assert first == [[0, 1], pad, [3, 4], [8, -1], pad, pad]
    assert second == [[2, -1], pad, [5, 6], pad, pad, pad]
    assert third == [pad, pad, [7, -1], pad, pad, pad]
