"""Evaluates requested positions in batches and converts the results to rows."""

import reprlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

import games
from dualmctx.evaluation.evaluator import Evaluator, Pending
from dualmctx.evaluation.positions_file import Question
from dualmctx.evaluation.rows import Row, to_rows
from dualmctx.types import Environment

# Moves per call of the replay; longer games take several calls.
_MOVES_AT_ONCE = 64
_MAX_ERROR_LENGTH = 300
_NOT_FINITE = (
    "the output of the network is NaN or infinite for this position or a position below it in the "
    "search; use another checkpoint or train again"
)


class Answered(NamedTuple):
    """The result rows of a batch of positions, in order.

    Attributes:
      rows: the evaluation of each position, or an error.
      end: byte offset of the end of the last position in the file.
    """

    rows: list[Row]
    end: int


class _Started(NamedTuple):
    """A batch being evaluated; `places` are the indices of its S positions without an error."""

    questions: list[Question]
    errors: dict[int, str]
    places: list[int]
    states: Any
    pending: Pending


def answer(evaluator: Evaluator, batches: Iterable[list[Question]]) -> Iterator[Answered]:
    """Evaluates batches of positions; the host reads a batch while the device evaluates another.

    Args:
      evaluator: the network and the search.
      batches: batches of at most the evaluator's batch size. After an empty batch, the batch in
        progress is finished before the next one is requested (see `streams.waiting_batches`).

    Yields:
      The rows of each non-empty batch, in the same order.
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
    """Parses the FEN, or returns `None` without one, and the moves from there."""
    start = None if question.fen is None else games.read_fen(env, question.fen)
    return start, games.parse_moves(env, question.moves, start)


def _replay(evaluator: Evaluator, asked: list[tuple[Any, list[int]]]) -> tuple[Any, np.ndarray]:
    """Replays moves; returns `[S]` states and the first illegal move of each, or -1."""
    env, size = evaluator.env, evaluator.batch_size
    states = _begin(env, size, [start for start, _ in asked])
    first_bad, done = np.full(size, -1), 0
    while ((moves := _cut(asked, first_bad, done)) >= 0).any():
        states, bad = games.replay_checked(env, moves, states)
        first_bad = np.where((first_bad < 0) & (bad >= 0), done + np.asarray(bad), first_bad)
        done += _MOVES_AT_ONCE
    return jax.tree.map(lambda x: np.asarray(x)[: len(asked)], states), first_bad[: len(asked)]


def _cut(asked: list[tuple[Any, list[int]]], first_bad: np.ndarray, done: int) -> np.ndarray:
    """Returns the next moves of each position, padded with -1; none after an illegal move."""
    table = np.full((len(first_bad), _MOVES_AT_ONCE), -1, np.int32)
    for row, (_, moves) in enumerate(asked):
        if first_bad[row] < 0:
            some = moves[done : done + _MOVES_AT_ONCE]
            table[row, : len(some)] = some
    return table


def _begin(env: Environment, size: int, starts: list[Any]) -> Any:
    """Returns initial states, padded to a size; `None` stands for the initial state of the game."""
    no_moves = np.full((size, _MOVES_AT_ONCE), -1, np.int32)
    states = games.replay_checked(env, no_moves)[0]
    rows = [row for row, start in enumerate(starts) if start is not None]
    if not rows:
        return states
    given = [starts[row] for row in rows]
    # Padded as well, because each size would be compiled.
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
    described = to_rows(evaluator.env, states, found)
    rows = dict(zip(places[is_right].tolist(), described, strict=True))
    errors = started.errors | dict.fromkeys(places[~is_right].tolist(), _NOT_FINITE)
    rows |= {place: {"error": _shorten(error)} for place, error in errors.items()}
    named = [
        {"id": question.id, "line": question.line} | rows[place]
        for place, question in enumerate(started.questions)
    ]
    return Answered(named, started.questions[-1].end)


def _shorten(error: str) -> str:
    """Returns an error as one printable line of limited length."""
    line = " ".join(error.split())
    line = line if line.isprintable() else ascii(line)[1:-1]
    return line if len(line) <= _MAX_ERROR_LENGTH else f"{line[:_MAX_ERROR_LENGTH]} ..."
