"""Evaluates requested positions in batches and converts the results to rows."""

import reprlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

import games
from dualmctx.evaluation.batching import digest
from dualmctx.evaluation.evaluations import Evaluations
from dualmctx.evaluation.evaluator import Evaluator
from dualmctx.evaluation.game_check import describe_bad_move
from dualmctx.evaluation.move_parser import parse_batch
from dualmctx.evaluation.questions import Question
from dualmctx.evaluation.replay import Replayed, replay
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
      errors: the reason why a question is invalid, by the index of the question.
      running: the positions and their `[B]` evaluations, on the device; `None` if there is no
        valid question.
    """

    questions: list[Question]
    errors: dict[int, str]
    running: tuple[Replayed, Evaluations] | None


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
    parsed = parse_batch(evaluator.env, questions)
    if len(parsed.errors) == len(questions):
        return _Started(questions, parsed.errors, None)
    replayed = replay(evaluator.env, parsed, evaluator.batch_size)
    if waits:
        states, first_bad = replayed
        # NumPy, because JAX would compile a program.
        first_bad, *ends = jax.device_get((first_bad, states.terminated, states.truncated))
        errors = _illegal_moves(evaluator.env, questions, first_bad, np.logical_or(*ends))
        errors |= parsed.errors
        if len(errors) == len(questions):
            return _Started(questions, errors, None)
    ids: list[Any] = [0 if i in parsed.errors else x.id for i, x in enumerate(questions)]
    digests = np.zeros((evaluator.batch_size, 2), np.uint32)
    digests[: len(ids)] = digest(ids)
    found = evaluator.run(digests, replayed.states)
    return _Started(questions, parsed.errors, (replayed, found))


class Outcome(NamedTuple):
    """The results of the device for a batch of B positions, as NumPy arrays.

    Attributes:
      evaluations: the evaluations; those of invalid positions have no meaning.
      first_bad: as in `Replayed`.
      is_over: `[B]` bool, whether the game is over.
      contexts: the `games.move_contexts` of the positions.
    """

    evaluations: Evaluations
    first_bad: np.ndarray
    is_over: np.ndarray
    contexts: games.MoveContexts | None


def _finish(evaluator: Evaluator, started: _Started) -> Iterator[Answered]:
    """Waits for a batch and converts its evaluations to rows, a piece of the batch at a time."""
    if started.running is None:
        rows = [error_row(x, started.errors[i]) for i, x in enumerate(started.questions)]
        yield Answered(rows, started.questions[-1].end)
        return
    (states, first_bad), found = started.running
    evaluations, first_bad, *ends = jax.device_get(
        (found, first_bad, states.terminated, states.truncated)
    )
    contexts = games.move_contexts(evaluator.env, states)
    outcome = Outcome(evaluations, first_bad, np.logical_or(*ends), contexts)
    for begin in range(0, len(started.questions), _ROWS_AT_ONCE):
        end = begin + _ROWS_AT_ONCE
        errors = {i - begin: error for i, error in started.errors.items() if begin <= i < end}
        part = jax.tree.map(lambda x, piece=slice(begin, end): x[piece], outcome)
        yield describe(evaluator.env, started.questions[begin:end], errors, part)


def describe(
    env: Environment, questions: Sequence[Question], errors: dict[int, str], outcome: Outcome
) -> Answered:
    """Converts the evaluations of S questions to rows.

    Args:
      env: the game.
      questions: S questions.
      errors: the reason why a question is invalid, by the index of the question.
      outcome: of a batch of B positions, the first S of which belong to the questions.
    """
    evaluations, first_bad, is_over, contexts = outcome
    number = len(questions)
    errors = errors | _illegal_moves(env, questions, first_bad, is_over)
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


def _illegal_moves(
    env: Environment, questions: Sequence[Question], first_bad: np.ndarray, is_over: np.ndarray
) -> dict[int, str]:
    """Returns the errors of questions with a move that is not legal, by their indices."""
    errors = {}
    for place in np.flatnonzero(first_bad[: len(questions)] >= 0).tolist():
        question, index = questions[place], int(first_bad[place])
        problem = describe_bad_move(env, question, index, is_over=bool(is_over[place]))
        errors[place] = f"move {index + 1} of {reprlib.repr(question.moves)} {problem}"
    return errors


def error_row(question: Question, error: str) -> Row:
    """Returns the row of a question that has no evaluation."""
    row: Row = {"id": question.id, "line": question.line, "error": shorten(error)}
    return row | (question.extra or _NOTHING)


def shorten(error: str) -> str:
    """Returns an error message as one printable line of limited length."""
    line = " ".join(error.split())
    line = line if line.isprintable() else ascii(line)[1:-1]
    return line if len(line) <= _MAX_ERROR_LENGTH else f"{line[:_MAX_ERROR_LENGTH]} ..."
