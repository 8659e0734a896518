"""Rows of a review: signs, losses, marks and exact values."""

import json

import jax
import numpy as np
import pytest

import games
from dualmctx.evaluation.evaluations import Evaluations
from dualmctx.web import review

NAN = float("nan")


def _evaluations(values, best, qvalues=None, num_actions=4, legal=None):
    """Returns evaluations of P positions with the given values and best actions."""
    size = len(values)
    empty = dict.fromkeys(Evaluations._fields, np.zeros((size, num_actions), np.float32))
    legal = np.ones((size, num_actions), bool) if legal is None else np.asarray(legal)
    return Evaluations(**empty)._replace(
        value=np.asarray(values, np.float32),
        action=np.asarray(best, np.int32),
        qvalues=np.full((size, num_actions), NAN) if qvalues is None else np.asarray(qvalues),
        legal_action_mask=legal,
        is_finite=np.isfinite(values),
    )


def _rows(values, best, actions, sides=None, **options):
    exact = options.pop("exact", None)
    sides = [ply % 2 for ply in range(len(values))] if sides is None else sides
    evaluations = _evaluations(values, best, **options)
    return review.make_rows(evaluations, sides, actions, lambda ply, a: f"{ply}:{a}", exact)


def test_values_are_in_the_view_of_the_first_side():
    rows = _rows([0.5, -0.25, 0.0], [1, 2, 3], [1, 2])
    assert [row["value_first"] for row in rows] == [0.5, 0.25, 0.0]
    assert [row["side"] for row in rows] == [0, 1, 0]


def test_played_value_is_the_next_position_seen_by_the_side_that_moved():
    rows = _rows([0.5, 0.75, 0.0], [1, 2, 3], [0, 2])
    assert rows[0]["played_value"] == -0.75
    assert rows[0]["best_value"] == 0.5  # no Q: the value of the position
    assert rows[0]["loss"] == 1.25
    assert rows[0]["mark"] == "blunder"


def test_a_side_that_moves_twice_keeps_the_sign():
    rows = _rows([0.5, 0.25], [1, 2], [0], sides=[0, 0])
    assert rows[0]["played_value"] == 0.25
    assert rows[0]["loss"] == 0.25


def test_q_of_the_best_move_is_the_best_value():
    qvalues = [[NAN, 0.9, NAN, NAN], [NAN] * 4]
    row = _rows([0.5, 0.0], [1, 2], [0], qvalues=qvalues)[0]
    assert row["best_value"] == 0.9
    assert row["loss"] == pytest.approx(0.9)


def test_the_best_move_loses_nothing():
    row = _rows([0.5, 0.5], [1, 2], [1])[0]
    assert (row["best"], row["played"]) == ("0:1", "0:1")
    assert (row["loss"], row["best_value"], row["played_value"]) == (0.0, -0.5, -0.5)
    assert row["mark"] is None


def test_a_move_better_than_the_search_expected_loses_nothing():
    assert _rows([0.0, -0.5], [1, 2], [0])[0]["loss"] == 0.0


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (None, None),
        (0.0, None),
        (0.099, None),
        (0.1, "inaccuracy"),
        (0.2, "mistake"),
        (0.399, "mistake"),
        (0.4, "blunder"),
        (2.0, "blunder"),
    ],
)
def test_marks_follow_the_thresholds(loss, expected):
    assert review.mark(loss) == expected


def test_the_last_position_has_no_move():
    row = _rows([0.5, 0.5], [1, 2], [1])[-1]
    fields = ("played", "played_action", "played_value", "best_value", "loss", "mark")
    assert [row[field] for field in fields] == [None] * 6


def test_a_finished_game_has_a_certain_result():
    legal = [[True] * 4, [False] * 4]
    rows = _rows([0.5, -1.0], [1, -1], [1], legal=legal)
    assert rows[1]["is_over"]
    assert rows[1]["best"] is None
    assert rows[1]["value_first"] == 1.0
    assert rows[1]["wdl"] == [1.0, 0.0, 0.0]
    assert rows[0]["wdl"] is None  # the network has no rate of draws


def test_the_exact_loss_decides_the_mark():
    exact = [{"value": 0, "moves": {"0:0": -1, "0:1": 0, "0:2": 0}}, {"value": 1, "moves": {}}]
    row = _rows([0.1, -0.1], [1, 2], [0], exact=exact)[0]
    assert row["loss"] == pytest.approx(0.0, abs=1e-6)
    assert row["exact"] == {"value": 0, "played_value": -1, "loss": 1, "best": ["0:1", "0:2"]}
    assert row["mark"] == "blunder"


def test_an_exact_best_move_is_not_marked_for_a_loss_of_the_search():
    exact = [{"value": 1, "moves": {"0:0": 1, "0:1": 1}}, {"value": -1, "moves": {}}]
    row = _rows([0.9, 0.9], [1, 2], [0], exact=exact)[0]
    assert row["loss"] > 1
    assert row["mark"] is None
    assert row["wdl"] == [1.0, 0.0, 0.0]


def test_exact_values_of_the_second_side_are_turned_for_the_curve():
    exact = [{"value": None, "moves": {}}, {"value": 1, "moves": {}}]
    rows = _rows([0.0, 0.5], [1, 2], [0], exact=exact)
    assert rows[0]["exact"] is None
    assert rows[0]["wdl"] is None
    assert rows[1]["wdl"] == [0.0, 0.0, 1.0]


def test_undefined_values_are_null_in_json():
    rows = _rows([0.5, NAN, 0.5], [1, 2, 3], [0, 1])
    text = json.dumps(rows, allow_nan=False)
    assert json.loads(text) == rows
    assert rows[1]["value_first"] is None
    assert rows[0]["loss"] is None
    assert rows[1]["loss"] is None


def test_lengths_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="3 sides do not fit 2 evaluated positions"):
        _rows([0.5, 0.5], [1, 1], [0], sides=[0, 1, 0])
    with pytest.raises(ValueError, match="4 actions and the last position"):
        _rows([0.5, 0.5], [1, 1], [0, 1, 2])
    with pytest.raises(ValueError, match="1 exact values"):
        _rows([0.5, 0.5], [1, 1], [0], exact=[None])


def _solved(solution, step, state):
    """Returns the exact values of a position and of its moves, as in the message `exact`."""

    def value_of(state):
        return int(solution.code_values[int(solution.code_fn(state))])

    if state.terminated:
        return {"value": value_of(state), "moves": {}}
    moves = {str(a): -value_of(step(state, a)) for a in np.flatnonzero(state.legal_action_mask)}
    return {"value": value_of(state), "moves": moves}


def test_the_known_blunder_of_tic_tac_toe_is_marked():
    # After the corner, only the centre holds the draw; X then wins by a double threat.
    env, moves = games.make("tic_tac_toe"), [0, 1, 4, 8, 3, 6, 5]
    solution, step = games.solve(env), jax.jit(env.step)
    states = [env.init(jax.random.PRNGKey(0))]
    for move in moves:
        states.append(step(states[-1], move))
    exact = [_solved(solution, step, state) for state in states]
    legal = np.stack([state.legal_action_mask for state in states])
    legal[-1] = False
    best = [int(np.flatnonzero(mask)[0]) if mask.any() else -1 for mask in legal]
    evaluations = _evaluations([0.0] * 8, best, num_actions=9, legal=legal)
    sides = [ply % 2 for ply in range(8)]
    rows = review.make_rows(evaluations, sides, moves, lambda _, action: str(action), exact)
    assert rows[1]["exact"]["best"] == ["4"]
    assert [row["mark"] for row in rows] == [None, "blunder"] + [None] * 6
    assert rows[0]["wdl"] == [0.0, 1.0, 0.0]
    assert all(row["wdl"] == [1.0, 0.0, 0.0] for row in rows[2:])
