"""Rows of a review: signs, losses, marks and exact values."""

import json

import numpy as np
import pytest

from dualmctx.evaluation.evaluations import Evaluations, mark
from dualmctx.web import review

NAN = float("nan")


def _evaluations(values, best, qvalues=None, legal=None):
    """Returns evaluations of P positions with the given values and best actions, of 4 actions."""
    size = len(values)
    empty = dict.fromkeys(Evaluations._fields, np.zeros((size, 4), np.float32))
    legal = np.ones((size, 4), bool) if legal is None else np.asarray(legal)
    return Evaluations(**empty)._replace(
        value=np.asarray(values, np.float32),
        action=np.asarray(best, np.int32),
        qvalues=np.full((size, 4), NAN) if qvalues is None else np.asarray(qvalues),
        legal_action_mask=legal,
        is_finite=np.isfinite(values),
    )


def _rows(values, best, actions, sides=None, exact=None, **options):
    exact = [None] * len(values) if exact is None else exact
    sides = [ply % 2 for ply in range(len(values))] if sides is None else sides
    evaluations = _evaluations(values, best, **options)
    return review.make_rows(evaluations, sides, actions, lambda ply, a: f"{ply}:{a}", exact)


def _known(value, **moves):
    return {"value": value, "moves": {f"0:{name[1:]}": x for name, x in moves.items()}}


WITH_Q = {"qvalues": [[NAN, 0.9, NAN, NAN], [NAN] * 4]}
FINISHED = {"legal": [[True] * 4, [False] * 4]}
LOST = {"value": 0, "played_value": -1, "loss": 1, "best": ["0:1", "0:2"]}
BEST = {"best": "0:1", "played": "0:1", "loss": 0.0, "best_value": -0.5, "mark": None}
NOTHING = {name: [..., None] for name in ("played", "played_value", "best_value", "loss")}
# Values, best moves, moves played, options, and expected fields.
ROWS = [
    # Values are in the view of the first side.
    (
        *([0.5, -0.25, 0.0], [1, 2, 3], [1, 2], {}),
        {"value_first": [0.5, 0.25, 0.0], "side": [0, 1, 0]},
    ),
    # The next position seen by the side that moved; the best value without Q is the position's.
    (
        *([0.5, 0.75], [1, 2], [0], {}),
        {"played_value": -0.75, "best_value": 0.5, "loss": 1.25, "mark": "blunder"},
    ),
    # A side that moves twice keeps the sign.
    ([0.5, 0.25], [1, 2], [0], {"sides": [0, 0]}, {"played_value": 0.25, "loss": 0.25}),
    # Q of the best move is the best value.
    ([0.5, 0.0], [1, 2], [0], WITH_Q, {"best_value": 0.9, "loss": pytest.approx(0.9)}),
    # The best move loses nothing; neither does one that is better than the search expected.
    ([0.5, 0.5], [1, 2], [1], {}, BEST),
    ([0.0, -0.5], [1, 2], [0], {}, {"loss": 0.0}),
    # The last position has no move, and a finished game has a result.
    ([0.5, 0.5], [1, 2], [1], {}, NOTHING),
    (
        *([0.5, -1.0], [1, -1], [1], FINISHED),
        {"is_over": [False, True], "best": [..., None], "value_first": [..., 1.0]},
    ),
    # The exact loss decides the mark; an unknown exact value is none.
    (
        *([0.1, -0.1], [1, 2], [0], {"exact": [_known(0, m0=-1, m1=0, m2=0), _known(1)]}),
        {"loss": pytest.approx(0.0, abs=1e-6), "exact": LOST, "mark": "blunder"},
    ),
    (
        *([0.9, 0.9], [1, 2], [0], {"exact": [_known(1, m0=1, m1=1), _known(-1)]}),
        {"loss": pytest.approx(1.8), "mark": None},
    ),
    (
        *([0.0, 0.5], [1, 2], [0], {"exact": [_known(None), _known(1)]}),
        {"exact": [None, ...], "mark": "blunder"},
    ),
]


@pytest.mark.parametrize(("values", "best", "actions", "options", "expected"), ROWS)
def test_rows(values, best, actions, options, expected):
    """A list has the field of each row, `...` for any; another value is that of the first row."""
    rows = _rows(values, best, actions, **options)
    for name, value in expected.items():
        is_list = isinstance(value, list) and len(value) == len(rows)
        for row, one in zip(rows, value if is_list else [value], strict=False):
            assert one is ... or row[name] == one, (name, row)


def test_marks_follow_the_thresholds():
    losses = (None, 0.099, 0.3 - 0.2, 0.1, 0.2, 0.399, 0.7 - 0.3)
    expected = [None, None, "inaccuracy", "inaccuracy", "mistake", "mistake", "blunder"]
    assert [mark(loss) for loss in losses] == expected


def test_undefined_values_are_null_in_json():
    rows = _rows([0.5, NAN, 0.5], [1, 2, 3], [0, 1])
    text = json.dumps(rows, allow_nan=False)
    assert json.loads(text) == rows
    assert rows[1]["value_first"] is None
    assert [row["loss"] for row in rows] == [None] * 3
