"""Evaluates requested positions in batches and converts the results to rows."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

import games
from dualmctx.evaluation.batching import digest
from dualmctx.evaluation.evaluations import Evaluations
from dualmctx.evaluation.evaluator import Evaluator
from dualmctx.evaluation.questions import Question
from dualmctx.evaluation.rows import Row, to_rows
from dualmctx.types import Environment

_MAX_ERROR_LENGTH = 300
# Rows are made in pieces of this size, because they take far more memory than their arrays.
_ROWS_AT_ONCE = 1024
_NOTHING: Row = {}
_NOT_FINITE = (
    "the output of the network is NaN or infinite for this position or a position below it in the "
    "search; use another checkpoint or train again"
)


class Answered(NamedTuple):
    """The result rows of consecutive positions of a batch, in order.

    Attributes:
      rows: the evaluation of each position, or an error.
      end: byte offset of the end of the last position in the file.
    """

    rows: list[Row]
    end: int


class _Started(NamedTuple):
    """A batch of at most B questions in progress.

    Attributes:
      questions: the questions.
      opened: their positions.
      found: the `[B]` evaluations, on the device; `None` if there is no valid question.
    """

    questions: list[Question]
    opened: games.OpenedPositions
    found: Evaluations | None


def answer(evaluator: Evaluator, batches: Iterable[list[Question]]) -> Iterator[Answered]:
    """Evaluates batches of positions; the host works on other batches while the device works.

    While the device evaluates a batch, the caller writes the rows of the previous batch, and the
    next batch is read and started. Starting a batch does not wait for the device, except after a
    batch of errors. A batch without a valid position is not evaluated.

    Args:
      evaluator: the network and the search.
      batches: batches of at most the evaluator's batch size. After an empty batch, the batch in
        progress is finished before the next one is requested (see `streams.waiting_batches`).

    Yields:
      The rows of all positions, in the same order, at most 1,024 of a batch at once.
    """
    before, is_bad = None, False
    for batch in batches:
        # After a batch of errors, the next one probably needs no evaluation, either.
        started = _start(evaluator, batch, waits=is_bad) if batch else None
        if before is not None:
            is_bad = True
            for answered in _finish(evaluator, before):
                is_bad = is_bad and all("error" in row for row in answered.rows)
                yield answered
        before = started
    if before is not None:
        yield from _finish(evaluator, before)


def _start(evaluator: Evaluator, questions: list[Question], *, waits: bool = False) -> _Started:
    """Starts a batch, unless all its questions are invalid.

    Args:
      evaluator: the network and the search.
      questions: the questions.
      waits: whether to wait until the device has played the moves, which may be illegal.
    """
    opened = games.open_positions(evaluator.env, questions, evaluator.batch_size)
    errors = opened.errors if waits else opened.parsed.errors
    if len(errors) == len(questions):
        return _Started(questions, opened, None)
    ids: list[Any] = [0 if i in opened.parsed.errors else x.id for i, x in enumerate(questions)]
    digests = np.zeros((evaluator.batch_size, 2), np.uint32)
    digests[: len(ids)] = digest(ids)
    return _Started(questions, opened, evaluator.run(digests, opened.states))


def _finish(evaluator: Evaluator, started: _Started) -> Iterator[Answered]:
    """Waits for a batch and converts its evaluations to rows, a piece of the batch at a time."""
    questions, opened, found = started
    if found is None:
        rows = [error_row(x, opened.errors[i]) for i, x in enumerate(questions)]
        yield Answered(rows, questions[-1].end)
        return
    evaluated = jax.device_get(found), games.move_contexts(evaluator.env, opened.states)
    for begin in range(0, len(questions), _ROWS_AT_ONCE):
        end = begin + _ROWS_AT_ONCE
        errors = {i - begin: error for i, error in opened.errors.items() if begin <= i < end}
        part = jax.tree.map(lambda x, piece=slice(begin, end): x[piece], evaluated)
        yield describe(evaluator.env, questions[begin:end], errors, *part)


def describe(
    env: Environment,
    questions: Sequence[Question],
    errors: dict[int, str],
    evaluations: Evaluations,
    contexts: games.MoveContexts | None,
) -> Answered:
    """Converts the evaluations of S questions to rows.

    Args:
      env: the game.
      questions: S questions.
      errors: the reason why a question is invalid, by the index of the question.
      evaluations: of a batch of positions, the first S of which belong to the questions, as NumPy
        arrays; those of invalid positions have no meaning.
      contexts: the `games.move_contexts` of the positions.
    """
    number, errors = len(questions), dict(errors)
    for place in np.flatnonzero(~evaluations.is_finite[:number]).tolist():
        errors.setdefault(place, _NOT_FINITE)
    places = np.delete(np.arange(number), list(errors))
    found, contexts = jax.tree.map(lambda x: x[places], (evaluations, contexts))
    rows = iter(to_rows(env, contexts, found))
    labelled = [
        error_row(question, errors[place])
        if place in errors
        else {"id": question.id, "line": question.line} | next(rows) | (question.extra or _NOTHING)
        for place, question in enumerate(questions)
    ]
    return Answered(labelled, questions[-1].end)


def error_row(question: Question, error: str) -> Row:
    """Returns the row of a question that has no evaluation."""
    row: Row = {"id": question.id, "line": question.line, "error": shorten(error)}
    return row | (question.extra or _NOTHING)


def shorten(error: str) -> str:
    """Returns an error message as one printable line of limited length."""
    line = " ".join(error.split())
    line = line if line.isprintable() else ascii(line)[1:-1]
    return line if len(line) <= _MAX_ERROR_LENGTH else f"{line[:_MAX_ERROR_LENGTH]} ..."
