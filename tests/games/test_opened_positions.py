"""Positions after lines of moves: states, the sides to move, and errors that name the move."""

import jax
import numpy as np
import pytest

import games
from games import opened_positions

FEN = "rnbqk/ppppp/5/PPPPP/RNBQK b - - 0 1"


def test_a_position_has_the_states_after_and_before_its_last_move():
    env = games.make("connect_four")
    opened = games.open_position(env, [3, 3, 0])
    expected = games.replay(env, np.array([[3, 3, 0], [3, 3, -1]]))
    for found, row in ((opened.state, 0), (opened.before, 1)):
        one = jax.tree.map(lambda x, row=row: x[row], expected)
        np.testing.assert_array_equal(found._x.board, one._x.board)
    assert (opened.side, opened.is_over, opened.actions) == (1, False, [3, 3, 0])


def test_a_position_without_moves_is_its_own_predecessor():
    env = games.make("tic_tac_toe")
    opened = games.open_position(env)
    jax.tree.map(np.testing.assert_array_equal, opened.state, opened.before)
    assert (opened.side, opened.is_over) == (0, False)


@pytest.mark.parametrize(
    ("moves", "message"),
    [
        ([0, 0], "move 2, '1', is illegal; legal moves are 2, 3, 4, 5, 6, 7, 8, 9"),
        ([0, 3, 1, 4, 2, 5], "move 6, '6', comes after the end of the game"),
    ],
)
def test_an_illegal_move_is_refused_with_the_legal_ones(moves, message):
    env = games.make("tic_tac_toe")
    with pytest.raises(ValueError, match=f"^{message}"):
        games.open_position(env, moves)


@pytest.mark.slow
def test_a_batch_has_the_positions_of_its_lines_and_the_errors_of_wrong_ones(monkeypatch):
    """Some lines are longer than one call of the replay takes."""
    monkeypatch.setattr(opened_positions, "MOVES_AT_ONCE", 2)
    env = games.make("tic_tac_toe")
    moves = ["15", [0, 0], "19", "z", "", "142536", "14253"]
    lines = [*map(games.Line, moves), games.Line(error="not JSON")]
    opened = games.open_positions(env, lines)
    problems = {
        1: "move 2, '1', is illegal",
        3: "move 1, 'z', is not a move of tic_tac_toe",
        5: "move 6, '6', comes after the end of the game",
        7: "not JSON",
    }
    assert opened.errors.keys() == problems.keys()
    for row, problem in problems.items():
        assert opened.errors[row].startswith(problem)
    assert opened.is_over.tolist() == [False] * 5 + [True, True, False]
    right = [0, 2, 4, 6]
    assert opened.sides[right].tolist() == [0, 0, 0, 1]
    for row in right:
        alone = games.open_position(env, moves[row])
        assert alone.side == opened.sides[row]
        board = opened.states_on_host._x.board[row]
        np.testing.assert_array_equal(board, alone.state._x.board)


@pytest.mark.slow
def test_lines_with_and_without_a_fen_may_be_mixed():
    env = games.make("gardner_chess")
    lines = [games.Line("b2b3"), games.Line("b4b3", FEN), games.Line("b2b3", FEN)]
    opened = games.open_positions(env, lines)
    assert opened.errors == {2: "move 1, 'b2b3', is illegal"}
    assert opened.sides.tolist() == [1, 0, 1]
    assert len(opened.first_bad) == 8
    alone = games.open_position(env, [], FEN)
    assert (alone.first_player, alone.side) == (0, 1)
