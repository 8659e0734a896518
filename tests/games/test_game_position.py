"""One position of a game: its states, the side to move, and errors that name the move."""

import jax
import numpy as np
import pytest

import games

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


def test_player_0_has_the_first_side_in_a_position_of_a_fen():
    env = games.make("gardner_chess")
    opened = games.open_position(env, [], FEN)
    assert (opened.first_player, opened.side) == (0, 1)


@pytest.mark.parametrize(
    ("moves", "message"),
    [
        ([0, 0], "move 2, '1', is illegal; legal moves are 2, 3, 4, 5, 6, 7, 8, 9"),
        (["2", "2"], "move 2, '2', is illegal; legal moves are 1, 3"),
        ([0, 3, 1, 4, 2, 5], "move 6, '6', comes after the end of the game"),
    ],
)
def test_an_illegal_move_is_refused_with_the_legal_ones(moves, message):
    env = games.make("tic_tac_toe")
    with pytest.raises(ValueError, match=f"^{message}"):
        games.open_position(env, moves)
