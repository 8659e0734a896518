"""Compares the JAX rules of the test game with its Python rules, turn by turn."""

import itertools

import jax
import pytest
from double_move import DoubleMoveNim, solve_double_move

import games


def _turns(pile, actions):
    """Players to move (0 moves first) before and after each action, and player 0's result."""
    mover, movers = 0, [0]
    for action in actions:
        pile -= action + 1
        if pile == 0:
            return [*movers, 1 - mover], 1 if mover == 0 else -1
        mover = mover if pile % 3 == 0 else 1 - mover
        movers.append(mover)
    return movers, 0


def test_jax_rules_match_python_rules_for_pile_seven():
    env = DoubleMoveNim(pile=7)
    init, step = jax.jit(env.init), jax.jit(env.step)
    repeated = 0
    for actions in itertools.product((0, 1), repeat=7):
        length = next(i for i in range(8) if sum(actions[:i]) + i >= 7 or i == 7)
        if sum(actions[:length]) + length != 7:
            continue
        movers, result = _turns(7, actions[:length])
        state = init(jax.random.PRNGKey(length))
        first = int(state.current_player)
        for action, before, after in zip(actions, movers[:-1], movers[1:], strict=False):
            assert not state.terminated
            assert int(state.current_player) == first ^ before
            state = step(state, action)
            repeated += before == after
        assert state.terminated
        assert float(state.rewards[first]) == result
        assert float(state.rewards.sum()) == 0
    assert repeated > 0


def test_solution_differs_from_nim_where_a_player_moves_twice():
    solved = solve_double_move(12)
    lost = {pile for pile, (value, _) in solved.items() if value == -1}
    assert lost == {3, 4, 9, 10}
    assert solved[7] == (1, frozenset({0}))  # take one, leave six, move again
    assert solved[3] == (-1, frozenset({0, 1}))


def test_invalid_pile_raises():
    with pytest.raises(ValueError, match="pile=0"):
        DoubleMoveNim(pile=0)


def test_unknown_game_cannot_be_rendered():
    state = DoubleMoveNim().init(jax.random.PRNGKey(0))
    with pytest.raises(ValueError, match="no drawing for states of 'double_move'"):
        games.to_text(state)
