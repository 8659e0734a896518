"""Complete trees of small games: all histories, exact values, optimal moves."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import games
from dualmctx.visualization.complete_tree import (
    complete_tree,
    count_histories,
    list_histories,
)
from games import retrograde, solvers

FIGURE = Path(__file__).parents[2] / "docs" / "connect2-tree.svg"


def histories_by_steps(env: Any) -> dict[tuple[int, ...], Any]:
    """Returns the state of every history, by the steps of the environment from one start."""
    start = jax.device_get(env.init(jax.random.PRNGKey(0)))
    found: dict[tuple[int, ...], Any] = {}
    level: list[tuple[int, ...]] = [()]
    while level:
        padded = np.full((len(level), max(1, len(level[0]))), -1, np.int32)
        for row, history in enumerate(level):
            padded[row, : len(history)] = history
        number = len(level)
        starts = jax.tree.map(lambda x, n=number: np.stack([x] * n), start)
        states = jax.device_get(games.replay_checked(env, padded, starts)[0])
        below = []
        for row, history in enumerate(level):
            state = found[history] = jax.tree.map(lambda x, i=row: x[i], states)
            if not state.terminated:
                below += [(*history, int(a)) for a in np.flatnonzero(state.legal_action_mask)]
        level = below
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
    expected = histories_by_steps(env)
    assert len(histories) == number == len(expected)
    assert {x.actions for x in histories} == expected.keys()
    assert sum(x.is_over for x in histories) == finished
    solution = games.solve(env)
    for node in histories:
        state = expected[node.actions]
        assert node.is_over == bool(state.terminated)
        if node.actions:
            assert histories[node.parent].actions == node.actions[:-1]
        first = int(expected[()].current_player)
        if node.is_over:
            assert node.value == state.rewards[first]
            continue
        code = int(solution.code_fn(state))
        value = int(solution.code_values[code])
        assert node.value == (value if state.current_player == first else -value)
        children = [x for x in histories if x.actions[:-1] == node.actions and x.actions]
        optimal = {x.actions[-1] for x in children if x.is_optimal}
        assert optimal == set(np.flatnonzero(solution.code_optimal[code]).tolist())


def test_connect2_has_the_results_of_the_tutorial() -> None:
    """It counts 53 histories, 24 of them finished; the results follow from the rules."""
    histories = list_histories(games.make("connect2"), 53)
    assert len(histories) == 53
    results = [x.value for x in histories if x.is_over]
    assert [results.count(x) for x in (1, -1, 0)] == [12, 4, 8]
    # The first player wins from either middle cell; an edge cell draws.
    assert {x.actions[0]: x.value for x in histories if len(x.actions) == 1} == {
        **{0: 0, 3: 0},
        **{1: 1, 2: 1},
    }


def test_the_figure_of_the_docs_is_up_to_date() -> None:
    """`dualmctx tree connect2 --complete --out docs/connect2-tree.svg`."""
    drawing = complete_tree(games.make("connect2"))
    assert FIGURE.read_text(encoding="utf-8") == drawing.to_svg()


def test_optimal_moves_have_a_star_and_boards_are_drawn() -> None:
    drawing = complete_tree(games.make("connect2"))
    optimal = [x.is_optimal for x in list_histories(games.make("connect2"), 53)]
    assert [x.is_best for x in drawing.diagram.boxes] == optimal
    assert drawing.to_svg().count("★</text>") == sum(optimal)
    root = drawing.diagram.boxes[0]
    assert root.lines == ("+1",)
    assert root.picture is not None
    assert root.picture.rows == ((".",) * 4,)
    plain = complete_tree(games.make("connect2"), boards=False)
    assert all(box.picture is None for box in plain.diagram.boxes)


def test_large_games_are_refused_with_the_number_of_nodes() -> None:
    with pytest.raises(ValueError, match=r"tic_tac_toe has 549,946 nodes, more than max_nodes"):
        complete_tree(games.make("tic_tac_toe"))
    with pytest.raises(ValueError, match="connect2 has 53 nodes, more than max_nodes, 52"):
        complete_tree(games.make("connect2"), max_nodes=52)
    with pytest.raises(ValueError, match="no solver for 'connect_four'"):
        complete_tree(games.make("connect_four"))


def test_huge_numbers_of_histories_are_counted_exactly() -> None:
    env = games.make("nim", pile=100, max_take=2)
    graph = retrograde.explore(solvers.rules_of(env))  # pyright: ignore[reportArgumentType]
    # T(n) = 1 + T(n - 1) + T(n - 2), as each position has one history for each way to reach it.
    totals = [1, 2]
    for _ in range(99):
        totals.append(1 + totals[-1] + totals[-2])
    assert count_histories(graph) == totals[100]
