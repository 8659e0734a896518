"""Complete trees of small games: all histories, exact values, optimal moves."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import games
from dualmctx.visualization.complete_tree import complete_tree, count_histories, list_histories
from games import exploration

FIGURE = Path(__file__).parents[2] / "docs" / "connect2-tree.svg"


def states_by_steps(env: Any) -> dict[tuple[int, ...], Any]:
    """Returns the state of every history, by the steps of the environment from one start."""
    found = {(): env.init(jax.random.PRNGKey(0))}
    step, waiting = jax.jit(env.step), [()]
    while waiting:
        history = waiting.pop()
        state = found[history]
        if not state.terminated:
            for action in np.flatnonzero(state.legal_action_mask).tolist():
                found[*history, action] = step(state, action)
                waiting.append((*history, action))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "parameters", "number", "finished"),
    [
        ("connect2", {}, 53, 24),
        ("nim", {"pile": 5, "max_take": 2}, 20, 8),
        ("hsr", {"k": 2, "q": 2, "n": 3}, 13, 6),
    ],
)
def test_histories_are_those_of_the_game(
    name: str, parameters: dict[str, int], number: int, finished: int
) -> None:
    env = games.make(name, **parameters)
    histories = list_histories(env, 1000)
    expected = states_by_steps(env)
    assert len(histories) == number == len(expected)
    assert {x.actions for x in histories} == expected.keys()
    assert sum(x.is_over for x in histories) == finished
    solution = games.solve(env)
    code_of = jax.jit(solution.code_fn)
    for node in histories:
        state = expected[node.actions]
        assert node.is_over == bool(state.terminated)
        if node.actions:
            assert histories[node.parent].actions == node.actions[:-1]
        first = int(expected[()].current_player)
        if node.is_over:
            assert node.value == state.rewards[first]
            continue
        code = int(code_of(state))
        value = int(solution.code_values[code])
        assert node.value == (value if state.current_player == first else -value)
        children = [x for x in histories if x.actions[:-1] == node.actions and x.actions]
        optimal = {x.actions[-1] for x in children if x.is_optimal}
        assert optimal == set(np.flatnonzero(solution.code_optimal[code]).tolist())


def test_the_figure_of_the_docs_is_up_to_date() -> None:
    """`dualmctx tree connect2 --complete --out docs/connect2-tree.svg`."""
    drawing = complete_tree(games.make("connect2"))
    assert FIGURE.read_text(encoding="utf-8") == drawing.to_svg()


def test_optimal_moves_have_a_star_and_boards_are_drawn() -> None:
    drawing = complete_tree(games.make("connect2"))
    histories = list_histories(games.make("connect2"), 53)
    optimal = [x.is_optimal for x in histories]
    assert [x.is_best for x in drawing.boxes] == optimal
    assert drawing.to_svg().count("★</text>") == sum(optimal)
    root = drawing.boxes[0]
    assert root.lines == ("+1",)
    assert root.picture is not None
    assert root.picture.rows == ((".",) * 4,)
    plain = complete_tree(games.make("connect2"), boards=False)
    assert all(box.picture is None for box in plain.boxes)
    # The results in the tutorial: the first player wins from either middle cell.
    results = [x.value for x in histories if x.is_over]
    assert [results.count(x) for x in (1, -1, 0)] == [12, 4, 8]
    firsts = {x.actions[0]: x.value for x in histories if len(x.actions) == 1}
    assert firsts == {0: 0, 1: 1, 2: 1, 3: 0}


def test_huge_numbers_of_histories_are_counted_exactly() -> None:
    env = games.make("nim", pile=100, max_take=2)
    graph = exploration.explore(env)
    # T(n) = 1 + T(n - 1) + T(n - 2), as each position has one history for each way to reach it.
    totals = [1, 2]
    for _ in range(99):
        totals.append(1 + totals[-1] + totals[-2])
    assert count_histories(graph) == totals[100]
    # They are refused before they are listed.
    with pytest.raises(ValueError, match="more than max_nodes, 1,000,000,000"):
        list_histories(env, 10**9)
