"""Exact values of positions and moves, against the solutions and against bitbully."""

import sys
import threading

import jax
import numpy as np
import pytest

import games
from games import exact as module
from games.exact import exact_source, exact_values
from games.exploration import Node, first_player_values


def single(states, row=0):
    return jax.tree.map(lambda leaf: np.asarray(leaf)[row], states)


def after(env, text):
    return single(games.replay(env, np.array([games.parse_moves(env, text)], np.int32)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("hsr", {"k": 2, "q": 3, "n": 6}),
        ("tic_tac_toe", {}),
        ("domineering:Domineering", {"rows": 2, "columns": 3}),
    ],
)
def test_values_of_positions_follow_from_those_after_each_move(name, parameters):
    """The value of a move is that of the next position; of a large game, 200 are checked."""
    env = games.make(name, **parameters)
    solution = games.solve(env)
    states = jax.device_get(games.replay(env, solution.histories))
    step = jax.jit(jax.vmap(env.step, (None, 0)))
    assert exact_source(env) == "solved"
    stride = 1 + len(solution.values) // 200
    for row in range(0, len(solution.values), stride):
        state, value = single(states, row), solution.values[row]
        found = exact_values(env, state)
        assert (found.source, found.value) == ("solved", value)
        legal = np.flatnonzero(solution.legal_actions[row])
        assert list(found.moves) == legal.tolist()
        assert max(found.moves.values()) == value
        best = [action for action, move in found.moves.items() if move == value]
        assert best == np.flatnonzero(solution.optimal_actions[row]).tolist()
        children = jax.device_get(step(state, np.arange(env.num_actions)))
        for action in legal[row // stride % 3 :: 3]:
            child = single(children, action)
            sign = 1 if child.current_player == state.current_player else -1
            assert found.moves[action] == sign * exact_values(env, child).value


def test_finished_games_have_their_result():
    env = games.make("tic_tac_toe")
    over = after(env, "14253")
    for factor in (1, 0.5):
        state = over.replace(rewards=over.rewards * factor)
        assert exact_values(env, state) == ("solved", -1, {})
    assert exact_values(env, after(env, "123547698")).moves == {}


def test_positions_of_no_game_have_no_value():
    env = games.make("connect2")
    state = after(env, "1")
    # Two stones of the second player and none of the first.
    x = state._x._replace(board=np.array([1, -1, 1, -1], np.int32))
    assert exact_values(env, state.replace(_x=x)) is None


def test_other_games_have_no_values():
    for name in ("othello", "chess"):
        assert exact_source(games.make(name)) is None
    assert exact_values(games.make("othello"), None) is None


def test_a_slow_solution_is_found_by_a_later_call(monkeypatch):
    env, release = games.make("nim", pile=11), threading.Event()
    solve = games.solve
    monkeypatch.setattr(
        module.solvers, "solve", lambda env: solve(env) if release.wait(60) else None
    )
    state = env.init(jax.random.PRNGKey(0))
    assert exact_values(env, state, seconds=0.0) is None
    release.set()
    assert exact_values(env, state, seconds=60).moves == {0: -1, 1: -1, 2: 1}


def test_an_error_of_an_own_game_is_raised_again(monkeypatch):
    env = games.make("domineering:Domineering", rows=2, columns=2)
    monkeypatch.setattr(type(env.wrapped), "num_codes", 2)
    with pytest.raises(ValueError, match="cannot be solved"):
        exact_values(env, env.init(jax.random.PRNGKey(0)), seconds=60)


def test_a_game_whose_positions_repeat_cannot_be_solved():
    """Either player may pass or win at once."""
    children = [{0: 2, 1: 1}, {0: 3, 1: 0}, {}, {}]
    movers, results = (0, 1, 1, 0), (None, None, 1, -1)
    parts = zip(range(4), movers, results, [()] * 4, children, strict=True)
    graph = [Node(*part) for part in parts]
    with pytest.raises(ValueError, match="positions repeat within a game, so it cannot be solved"):
        first_player_values(graph)
    children[1].pop(1)
    assert first_player_values(graph) == [1, -1, 1, -1]


@pytest.mark.slow
# The values of the first moves: V. Allis, "A knowledge-based approach of Connect-Four", 1988.
@pytest.mark.parametrize(
    ("moves", "value", "best"),
    [
        ("", 1, [3]),
        ("3", 0, [2, 3, 4, 5]),
        ("4", -1, list(range(7))),
        ("171717", 1, [0, 6]),  # the first wins at once
        ("212131", None, [0]),  # the block against three in a column
    ],
)
def test_connect_four_has_known_values(moves, value, best):
    bitbully = pytest.importorskip("bitbully")
    pytest.importorskip("bitbully_databases")
    env = games.make("connect_four")
    assert exact_source(env) == "bitbully"
    found = exact_values(env, after(env, moves))
    solver = bitbully.BitBully(opening_book="12-ply-dist")
    scores = solver.score_all_moves(bitbully.Board([int(move) - 1 for move in moves]))
    assert found.moves == {x: int(np.sign(score)) for x, score in scores.items()}
    assert found.source == "bitbully"
    assert value in (None, found.value)
    assert [x for x, move in found.moves.items() if move == found.value] == best


def test_connect_four_without_bitbully_has_no_values(monkeypatch):
    env = games.make("connect_four")
    monkeypatch.setitem(sys.modules, "bitbully", None)
    assert exact_source(env) is None
    assert exact_values(env, env.init(jax.random.PRNGKey(0))) is None
