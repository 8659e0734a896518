"""Result rows of requested positions: evaluations or errors."""

import dataclasses
import json
import math
import re
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dualmctx.evaluation.answers
from dualmctx.evaluation.answers import answer
from dualmctx.evaluation.batches import full_batches
from dualmctx.evaluation.evaluator import Evaluator
from dualmctx.evaluation.factory import make_evaluator
from dualmctx.game_files.questions import Question
from dualmctx.policies import Dual
from dualmctx.runs.journal import to_line
from games import opened_positions
from untrained import make_untrained

BATCH_SIZE = 4


def make(preset: str, policy: Any = None) -> Evaluator:
    trained = make_untrained(preset)
    return make_evaluator(
        trained.env, trained.network, trained.params, policy, batch_size=BATCH_SIZE
    )


@pytest.fixture(scope="module")
def network() -> Evaluator:
    return make("connect-four")


def ask(evaluator: Evaluator, *moves: Any) -> list[dict[str, Any]]:
    questions = [Question(i, f"q{i}", x, end=10 * i) for i, x in enumerate(moves, start=1)]
    answered = list(answer(evaluator, full_batches(questions, BATCH_SIZE)))
    assert [x.end for x in answered] == [x[-1].end for x in full_batches(questions, BATCH_SIZE)]
    rows = [row for x in answered for row in x.rows]
    assert [(row["id"], row["line"]) for row in rows] == [(x.id, x.line) for x in questions]
    return rows


def play(env: Any, moves: list[int]) -> Any:
    step, state = jax.jit(env.step), env.init(jax.random.PRNGKey(0))
    for move in moves:
        state = step(state, move)
    return state


@pytest.mark.slow
@pytest.mark.usefixtures("unpredicted")
def test_rows_match_the_evaluator() -> None:
    """Compares all fields; the batches are partial and contain invalid positions."""
    dual = make("connect-four", Dual(num_simulations=(6, 3), num_rounds=1))
    games_ = ["", "4", "44", "x", "4444444", "1213141", "445566", "111111", "53"]
    good = [x for x in games_ if x not in ("x", "4444444")]
    rows = [row for row in ask(dual, *games_) if "error" not in row]
    assert [row["id"] for row in rows] == [f"q{games_.index(x) + 1}" for x in good]
    states = [play(dual.env, [int(x) - 1 for x in moves]) for moves in good]
    stacked = jax.tree.map(lambda *x: np.stack(x), *states)
    found = dual(stacked, [row["id"] for row in rows])
    near = {"rel": 0, "abs": 1e-6, "nan_ok": True}
    for i, (row, state) in enumerate(zip(rows, states, strict=True)):
        over = bool(state.terminated)
        assert row["value"] == pytest.approx(found.value[i], **near)
        assert row["tree_values"] == pytest.approx(found.tree_values[i].tolist(), **near)
        assert row["network_value"] == (
            [None] * 2 if over else pytest.approx(found.network_value[i], **near)
        )
        assert row["heads_agree"] == found.heads_agree[i]
        assert row["heads_distance"] == (
            None if over else pytest.approx(found.heads_distance[i], **near)
        )
        legal = [] if over else [a for a in range(7) if state.legal_action_mask[a]]
        assert [x["action"] for x in row["legal"]] == legal
        assert row["action"] == (None if over else found.action[i])
        assert row["move"] == (None if over else str(found.action[i] + 1))
        line = [str(a + 1) for a in found.principal_variation[i] if a >= 0]
        assert row["pv"] == line
        assert over or row["pv"][0] == row["move"]
        for x in row["legal"]:
            a = x["action"]
            assert x["move"] == str(a + 1)
            assert x["visits"] == found.visits[i, a]
            q = found.qvalues[i, a]
            assert x["q"] == (None if math.isnan(q) else pytest.approx(q, **near))
            assert x["weight"] == pytest.approx(found.action_weights[i, a], **near)
            assert x["network_policy"] == pytest.approx(found.network_policy[i, :, a], **near)
    values = [row["value"] for row in rows]
    assert values[good.index("1213141")] == -1  # lost by the player to move
    assert len(set(values)) == len(values)


def test_network_only_rows_have_no_trees(network: Evaluator) -> None:
    [row] = ask(network, "4")
    assert row["tree_values"] == []
    assert [(x["visits"], x["q"]) for x in row["legal"]] == [(None, None)] * 7
    weights = [x["weight"] for x in row["legal"]]
    assert weights == [x["network_policy"][-1] for x in row["legal"]]
    assert row["action"] == int(np.argmax(weights))


@pytest.mark.parametrize(
    ("moves", "error"),
    [
        ("8", r"move 1, '8', "),
        ("e2e4", r"move 1, 'e2e4', "),
        ([7], r"move 1, 7, "),
        ([10**30], r"move 1, 10+\.*0*, "),
        (["1" * 5000], r"move 1, '1+\.\.\.1+', "),
        ("4444444", r"move 7, '4', is illegal$"),
        ("12131415", r"move 8, '5', comes after the end of the game$"),
        ("1" * 100_000, r"move 7, '1', is illegal$"),
    ],
)
def test_invalid_position_gives_an_error_row(network: Evaluator, moves: Any, error: str) -> None:
    first, row, last = ask(network, "4", moves, "4")
    assert re.search(error, row["error"])
    assert set(row) == {"id", "line", "error"}
    assert {**first, "id": 0, "line": 0} == {**last, "id": 0, "line": 0}


def test_only_non_finite_positions_are_errors(network: Evaluator) -> None:
    def run(digests: Any, states: Any) -> Any:
        found = jax.device_get(network.run(digests, states))
        return found._replace(is_finite=np.array([True, False, True, True]))

    asked = ("4", "44", "x", "445")
    rows, expected = (ask(x, *asked) for x in (dataclasses.replace(network, run=run), network))
    assert "NaN or infinite for this position" in rows[1]["error"]
    assert [i for i, row in enumerate(rows) if "error" in row] == [1, 2]
    assert [rows[i] for i in (0, 2, 3)] == [expected[i] for i in (0, 2, 3)]


def test_moves_after_an_illegal_move_are_ignored(network: Evaluator, monkeypatch: Any) -> None:
    """Also in later pieces of a long game, even if they would end the game."""
    monkeypatch.setattr(opened_positions, "MOVES_AT_ONCE", 4)
    [row] = ask(network, "4444" + "4441" + "71717")
    assert row["error"] == "move 7, '4', is illegal"
    monkeypatch.setattr(opened_positions, "_CALLS_WITHOUT_WAITING", 2)
    calls: list[Any] = []
    replay = opened_positions.replay_unpadded

    def counted(*arguments: Any) -> Any:
        calls.append(arguments)
        return replay(*arguments)

    monkeypatch.setattr(opened_positions, "replay_unpadded", counted)
    [row] = ask(network, "1" * 4000)
    assert row["error"].startswith("move 7, ")
    assert 2 <= len(calls) <= 3


def test_starting_a_batch_does_not_wait(network: Evaluator, monkeypatch: Any) -> None:
    """While JAX traces, arrays have no values, so that fetching one would raise an error."""
    monkeypatch.setattr(opened_positions, "MOVES_AT_ONCE", 4)
    evaluator = dataclasses.replace(network, run=lambda digests, states: states)
    questions = [Question(i, i, moves) for i, moves in enumerate(("445566", "x", "4444444", ""))]
    shapes = jax.eval_shape(
        lambda: dualmctx.evaluation.answers._start(evaluator, questions).found.observation
    )
    assert shapes.shape == (BATCH_SIZE, *network.env.observation_shape)


@pytest.mark.parametrize(
    ("asked", "num_calls"),
    [
        (["x"] * 9, 0),
        ([*"xxxx", "", "x", "4"], 1),
        # The first two batches start before it is known that their moves are illegal.
        (["4444444", "x"] * 10, 2),
        (["4444444"] * 20 + ["4"], 3),
        ([""] * 9, 3),
    ],
)
def test_batches_without_a_valid_position_are_not_evaluated(
    network: Evaluator, asked: list[str], num_calls: int
) -> None:
    calls: list[int] = []

    def run(digests: Any, states: Any) -> Any:
        calls.append(len(digests))
        return network.run(digests, states)

    rows = ask(dataclasses.replace(network, run=run), *asked)
    assert len(calls) == num_calls
    # Each alone in its batch, or with valid positions.
    expected = {x: ask(network, "", x)[1] for x in set(asked)}
    keys = ("error", "value", "move")
    for row, moves in zip(rows, asked, strict=True):
        assert [row.get(x) for x in keys] == [expected[moves].get(x) for x in keys]


def test_rows_of_a_large_batch_come_in_pieces(network: Evaluator, monkeypatch: Any) -> None:
    """The errors of each kind stay with their positions."""
    asked = [Question(i, i, moves, end=i) for i, moves in enumerate(("x", "4", "4444444", "44"), 1)]
    [whole] = answer(network, [asked])
    monkeypatch.setattr(dualmctx.evaluation.answers, "_ROWS_AT_ONCE", 3)
    first, second = answer(network, [asked])
    assert [first.end, second.end] == [3, 4]
    assert [len(first.rows), len(second.rows)] == [3, 1]
    assert first.rows + second.rows == whole.rows
    assert ["error" in row for row in whole.rows] == [True, False, True, False]


def test_rows_round_numbers_and_replace_missing_ones(network: Evaluator) -> None:
    def run(digests: Any, states: Any) -> Any:
        found = jax.device_get(network.run(digests, states))
        value = np.array([-1e-9, 0.12345678, -1 / 3, 1e-6], np.float32)
        qvalues = np.full_like(found.qvalues, np.nan)
        qvalues[1, 2] = np.inf
        return found._replace(value=value, qvalues=qvalues)

    rows = ask(dataclasses.replace(network, run=run), "", "4", "44", "445")
    assert [row["value"] for row in rows] == [0.0, 0.123457, -0.333333, 1e-6]
    assert math.copysign(1, rows[0]["value"]) == 1
    assert all(move["q"] is None for row in rows for move in row["legal"])


def test_next_batch_starts_before_the_previous_is_finished(network: Evaluator) -> None:
    said: list[str] = []

    def run(digests: Any, states: Any) -> Any:
        said.append("start")
        return network.run(digests, states)

    def batches() -> Iterator[list[Question]]:
        for line in (1, 2, 0, 3, 0, 4):
            said.append(f"read {line}")
            yield [Question(line, line)] if line else []

    for answered in answer(dataclasses.replace(network, run=run), batches()):
        said.append(f"finish {answered.rows[0]['line']}")
    assert said == [
        *("read 1", "start", "read 2", "start", "finish 1", "read 0", "finish 2"),
        *("read 3", "start", "read 0", "finish 3", "read 4", "start", "finish 4"),
    ]


moves = st.text(max_size=12) | st.text("1234567, ", max_size=30)
moves |= st.lists(st.integers() | st.text(max_size=3) | st.integers(0, 6), max_size=12)


@pytest.mark.slow
@settings(max_examples=10)
@given(st.lists(st.tuples(moves, st.none() | st.text(max_size=9)), min_size=1, max_size=4))
def test_arbitrary_requests_give_one_row_each(network: Evaluator, asked: list[tuple]) -> None:
    questions = [Question(i, i, *x) for i, x in enumerate(asked, start=1)]
    [answered] = answer(network, [questions])
    assert [row["line"] for row in answered.rows] == [x.line for x in questions]
    for row in answered.rows:
        assert json.loads(to_line(row)) == row
        assert row.get("error", "x").isprintable()
        assert len(row.get("error", "")) < 400
