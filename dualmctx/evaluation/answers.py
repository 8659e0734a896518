"""Answers: from positions as lines ask for them, through the device, to rows of results."""

import reprlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

import games
from dualmctx.evaluation.evaluator import Evaluator, Pending
from dualmctx.evaluation.positions_file import Question
from dualmctx.evaluation.rows import Row, describe
from dualmctx.types import Environment

# Moves that are played in one call; longer games take several.
_MOVES_AT_ONCE = 64
_LONGEST_ERROR = 300
_NOT_FINITE = (
    "the network's output is NaN or infinite, in this position or below it in the search; use "
    "another checkpoint, or train again"
)


class Answered(NamedTuple):
    """The rows of a batch of positions, in their order.

    Attributes:
      rows: what was said of each, or what is wrong with it.
      end: where the last position ends in the file, in bytes.
    """

    rows: list[Row]
    end: int


class _Started(NamedTuple):
    """A batch on the device; `places` are those of its S positions that have no error."""

    questions: list[Question]
    errors: dict[int, str]
    places: list[int]
    states: Any
    pending: Pending


def answer(evaluator: Evaluator, batches: Iterable[list[Question]]) -> Iterator[Answered]:
    """Answers batches of positions; the host reads the next batch while the device works on one.

    Args:
      evaluator: the network and the search.
      batches: of at most the evaluator's batch size. After an empty one what has been started is
        finished before the next is asked for (`streams.waiting_batches`).

    Yields:
      The rows of each batch that is not empty, in the same order.
    """
    before = None
    for batch in batches:
        started = _start(evaluator, batch) if batch else None
        if before is not None:
            yield _finish(evaluator, before)
        before = started
    if before is not None:
        yield _finish(evaluator, before)


def _start(evaluator: Evaluator, questions: list[Question]) -> _Started:
    env, errors = evaluator.env, {}
    asked: dict[int, tuple[Any, list[int]]] = {}
    for place, question in enumerate(questions):
        try:
            if question.error is not None:
                raise ValueError(question.error)
            asked[place] = _read(env, question)
        except ValueError as error:
            errors[place] = str(error)
    states, first_bad = _replay(evaluator, list(asked.values()))
    for row, (place, bad) in enumerate(zip(asked, first_bad.tolist(), strict=True)):
        if bad >= 0:
            over = states.terminated[row] or states.truncated[row]
            errors[place] = _describe_bad(questions[place], bad, over=over)
    states = jax.tree.map(lambda x: x[first_bad < 0], states)
    places = [place for place in asked if place not in errors]
    ids: list[Any] = [questions[place].id for place in places]
    return _Started(questions, errors, places, states, evaluator.start(states, ids))


def _read(env: Environment, question: Question) -> tuple[Any, list[int]]:
    """Reads where a position's game begins, `None` at its start, and the moves from there."""
    start = None if question.fen is None else games.read_fen(env, question.fen)
    return start, games.parse_moves(env, question.moves, start)


def _replay(evaluator: Evaluator, asked: list[tuple[Any, list[int]]]) -> tuple[Any, np.ndarray]:
    """Plays moves; returns `[S]` states and the first bad move of each, -1 if all are right."""
    env, size = evaluator.env, evaluator.batch_size
    states = _begin(env, size, [start for start, _ in asked])
    first_bad, done = np.full(size, -1), 0
    while ((moves := _cut(asked, first_bad, done)) >= 0).any():
        states, bad = games.replay_checked(env, moves, states)
        first_bad = np.where((first_bad < 0) & (bad >= 0), done + np.asarray(bad), first_bad)
        done += _MOVES_AT_ONCE
    return jax.tree.map(lambda x: np.asarray(x)[: len(asked)], states), first_bad[: len(asked)]


def _cut(asked: list[tuple[Any, list[int]]], first_bad: np.ndarray, done: int) -> np.ndarray:
    """Returns the next moves of each position, filled up with -1; none after a bad one."""
    table = np.full((len(first_bad), _MOVES_AT_ONCE), -1, np.int32)
    for row, (_, moves) in enumerate(asked):
        if first_bad[row] < 0:
            some = moves[done : done + _MOVES_AT_ONCE]
            table[row, : len(some)] = some
    return table


def _begin(env: Environment, size: int, starts: list[Any]) -> Any:
    """Returns states to begin with, filled up to a size; `None` is the start of a game."""
    no_moves = np.full((size, _MOVES_AT_ONCE), -1, np.int32)
    states = games.replay_checked(env, no_moves)[0]
    rows = [row for row, start in enumerate(starts) if start is not None]
    if not rows:
        return states
    given = [starts[row] for row in rows]
    # Filled up too, as each size would be compiled.
    given = games.set_up(env, given + given[:1] * (size - len(given)))

    def put(ours: Any, theirs: Any) -> np.ndarray:
        ours = np.array(ours)
        ours[rows] = theirs[: len(rows)]
        return ours

    return jax.tree.map(put, states, given)


def _describe_bad(question: Question, bad: int, *, over: bool) -> str:
    why = "comes after the end of the game" if over else "is illegal"
    return f"move {bad + 1} of {reprlib.repr(question.moves)} {why}"


def _finish(evaluator: Evaluator, started: _Started) -> Answered:
    found, places = started.pending.result(), np.array(started.places, int)
    is_right = found.is_finite
    states, found = jax.tree.map(lambda x: x[is_right], (started.states, found))
    described = describe(evaluator.env, states, found)
    rows = dict(zip(places[is_right].tolist(), described, strict=True))
    errors = started.errors | dict.fromkeys(places[~is_right].tolist(), _NOT_FINITE)
    rows |= {place: {"error": _shorten(error)} for place, error in errors.items()}
    named = [
        {"id": question.id, "line": question.line} | rows[place]
        for place, question in enumerate(started.questions)
    ]
    return Answered(named, started.questions[-1].end)


def _shorten(error: str) -> str:
    """Returns an error as one line of text that any file can hold."""
    line = " ".join(error.split())
    line = line if line.isprintable() else ascii(line)[1:-1]
    return line if len(line) <= _LONGEST_ERROR else f"{line[:_LONGEST_ERROR]} ..."
