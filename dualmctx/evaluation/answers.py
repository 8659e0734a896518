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

# Number of moves per call of the replay; longer games take several calls.
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
    """A batch in progress; `places` are the indices of its S positions without an error."""

    questions: list[Question]
    errors: dict[int, str]
    places: list[int]
    states: Any
    pending: Pending


def answer(evaluator: Evaluator, batches: Iterable[list[Question]]) -> Iterator[Answered]:
    """Evaluates batches of positions; the host reads the next batch while the device works.

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
    parsed: dict[int, tuple[Any, list[int]]] = {}
    for place, question in enumerate(questions):
        try:
            if question.error is not None:
                raise ValueError(question.error)
            parsed[place] = _parse(env, question)
        except ValueError as error:
            errors[place] = str(error)
    states, first_bad = _replay(evaluator, list(parsed.values()))
    for row, (place, bad) in enumerate(zip(parsed, first_bad.tolist(), strict=True)):
        if bad >= 0:
            over = states.terminated[row] or states.truncated[row]
            errors[place] = _describe_illegal(questions[place], bad, is_over=over)
    states = jax.tree.map(lambda x: x[first_bad < 0], states)
    places = [place for place in parsed if place not in errors]
    ids: list[Any] = [questions[place].id for place in places]
    return _Started(questions, errors, places, states, evaluator.start(states, ids))


def _parse(env: Environment, question: Question) -> tuple[Any, list[int]]:
    """Returns the position of the FEN, or `None` without a FEN, and the moves from there."""
    start = None if question.fen is None else games.read_fen(env, question.fen)
    return start, games.parse_moves(env, question.moves, start)


def _replay(evaluator: Evaluator, parsed: list[tuple[Any, list[int]]]) -> tuple[Any, np.ndarray]:
    """Replays moves; returns `[S]` states and the first illegal move of each, or -1."""
    env, size = evaluator.env, evaluator.batch_size
    states = _make_starts(env, size, [start for start, _ in parsed])
    first_bad, done = np.full(size, -1), 0
    while ((moves := _next_moves(parsed, first_bad, done)) >= 0).any():
        states, bad = games.replay_checked(env, moves, states)
        first_bad = np.where((first_bad < 0) & (bad >= 0), done + np.asarray(bad), first_bad)
        done += _MOVES_AT_ONCE
    return jax.tree.map(lambda x: np.asarray(x)[: len(parsed)], states), first_bad[: len(parsed)]


def _next_moves(
    parsed: list[tuple[Any, list[int]]], first_bad: np.ndarray, done: int
) -> np.ndarray:
    """Returns the next moves of each position, padded with -1; none after an illegal move."""
    table = np.full((len(first_bad), _MOVES_AT_ONCE), -1, np.int32)
    for row, (_, moves) in enumerate(parsed):
        if first_bad[row] < 0:
            chunk = moves[done : done + _MOVES_AT_ONCE]
            table[row, : len(chunk)] = chunk
    return table


def _make_starts(env: Environment, size: int, starts: list[Any]) -> Any:
    """Returns the states in which the moves begin, padded to `size`.

    A start of `None` is the initial state of the game.
    """
    no_moves = np.full((size, _MOVES_AT_ONCE), -1, np.int32)
    states = games.replay_checked(env, no_moves)[0]
    rows = [row for row, start in enumerate(starts) if start is not None]
    if not rows:
        return states
    positions = [starts[row] for row in rows]
    # Padded as well, because each new size would compile.
    padding = positions[:1] * (size - len(positions))
    from_fens = games.set_up(env, positions + padding)

    def replace_rows(array: Any, new: Any) -> np.ndarray:
        array = np.array(array)
        array[rows] = new[: len(rows)]
        return array

    return jax.tree.map(replace_rows, states, from_fens)


def _describe_illegal(question: Question, index: int, *, is_over: bool) -> str:
    problem = "comes after the end of the game" if is_over else "is illegal"
    return f"move {index + 1} of {reprlib.repr(question.moves)} {problem}"


def _finish(evaluator: Evaluator, started: _Started) -> Answered:
    results, places = started.pending.result(), np.array(started.places, int)
    is_finite = results.is_finite
    states, results = jax.tree.map(lambda x: x[is_finite], (started.states, results))
    finite_rows = to_rows(evaluator.env, states, results)
    rows = dict(zip(places[is_finite].tolist(), finite_rows, strict=True))
    errors = started.errors | dict.fromkeys(places[~is_finite].tolist(), _NOT_FINITE)
    rows |= {place: {"error": _shorten(error)} for place, error in errors.items()}
    labelled = [
        {"id": question.id, "line": question.line} | rows[place]
        for place, question in enumerate(started.questions)
    ]
    return Answered(labelled, started.questions[-1].end)


def _shorten(error: str) -> str:
    """Returns an error message as one printable line of limited length."""
    line = " ".join(error.split())
    line = line if line.isprintable() else ascii(line)[1:-1]
    return line if len(line) <= _MAX_ERROR_LENGTH else f"{line[:_MAX_ERROR_LENGTH]} ..."
