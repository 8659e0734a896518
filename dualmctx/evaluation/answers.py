"""Evaluates requested positions in batches and converts the results to rows."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

import games
from dualmctx.evaluation.evaluations import Evaluations, digest
from dualmctx.evaluation.evaluator import Evaluator
from dualmctx.game_files.questions import RESULT_FIELDS, Question, Row, restrict
from dualmctx.types import Environment

# Number of decimal places; further digits would only show rounding errors.
_DIGITS = 6
# The other fields of results are those of the question.
_FIELDS = RESULT_FIELDS[RESULT_FIELDS.index("action") :]
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
    """At most B questions in progress; `found` is `None` if none of them is valid."""

    questions: list[Question]
    opened: games.OpenedPositions
    found: Evaluations | None


def answer(evaluator: Evaluator, batches: Iterable[list[Question]]) -> Iterator[Answered]:
    """Evaluates batches of positions; the host works on other batches while the device works.

    While the device evaluates a batch, the caller writes the rows of the previous batch, and the
    next batch is read and started. Starting a batch does not wait for the device, except after a
    batch of errors. A batch without a valid position is not evaluated. After an empty batch, the
    one in progress is finished before the next one is requested (see `batches.waiting_batches`).

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

    With `waits`, it first waits until the device has played the moves, which may be illegal.
    """
    opened = games.open_positions(evaluator.env, questions, evaluator.batch_size)
    errors = opened.errors if waits else opened.parsed.errors
    if len(errors) == len(questions):
        return _Started(questions, opened, None)
    ids: list[Any] = [0 if i in opened.parsed.errors else x.id for i, x in enumerate(questions)]
    digests = np.zeros((evaluator.batch_size, 2), np.uint32)
    digests[: len(ids)] = digest(ids)
    return _Started(questions, opened, evaluator.run(digests, restrict(opened.states, questions)))


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


def to_rows(
    env: Environment, contexts: games.MoveContexts | None, evaluations: Evaluations
) -> list[Row]:
    """Converts evaluations of `[S]` positions to rows of JSON values, with array operations.

    docs/evaluate.md describes the fields. NaN and infinity become `None`.
    """
    x = evaluations
    lines = games.format_lines(env, contexts, x.principal_variation)
    columns = (
        _with_none(x.action, x.action >= 0),
        [line[0] if line else None for line in lines],
        _numbers(x.value),
        _numbers(x.network_value),
        _numbers(x.tree_values),
        lines,
        x.heads_agree.tolist(),
        _numbers(x.heads_distance),
        _to_move_rows(env, contexts, x),
    )
    return [dict(zip(_FIELDS, row, strict=True)) for row in zip(*columns, strict=True)]


def _to_move_rows(
    env: Environment, contexts: games.MoveContexts | None, x: Evaluations
) -> list[list[Row]]:
    """Returns the rows of the legal moves of each position."""
    rows, actions = np.nonzero(x.legal_action_mask)
    visits = x.visits[rows, actions]
    columns = (
        actions.tolist(),
        games.format_actions(env, contexts, rows, actions),
        _numbers(x.network_policy[rows, :, actions]),
        _numbers(x.action_weights[rows, actions]),
        visits.tolist() if x.tree_values.size else [None] * len(visits),
        _numbers(x.qvalues[rows, actions]),
    )
    names = ("action", "move", "network_policy", "weight", "visits", "q")
    moves: Iterator[Row] = (dict(zip(names, y, strict=True)) for y in zip(*columns, strict=True))
    return [
        list(itertools.islice(moves, number)) for number in x.legal_action_mask.sum(axis=1).tolist()
    ]


def _numbers(array: np.ndarray) -> list[Any]:
    """Rounds numbers and converts them to nested lists."""
    # Adding 0 converts -0 to 0.
    rounded = np.round(array.astype(np.float64), _DIGITS) + 0.0
    return _with_none(rounded, np.isfinite(rounded))


def _with_none(array: np.ndarray, is_present: np.ndarray) -> list[Any]:
    """Converts an array to nested lists, with `None` for absent elements."""
    if is_present.all():
        return array.tolist()
    values = array.astype(object)
    values[~is_present] = None
    return values.tolist()
