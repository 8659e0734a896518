"""The example of a game outside the package, against published results and another solver."""

import functools

import jax
import numpy as np
import pytest

import games
from domineering import Domineering

PATH = "domineering:Domineering"
# Who wins on boards of m rows and n columns: the first player to move, the second, the player of
# vertical dominoes or that of horizontal ones. Source: M. Lachmann, C. Moore and I. Rapaport, "Who
# wins Domineering on rectangular boards?", 2002; D. M. Breuker, J. W. H. M. Uiterwijk and
# H. J. van den Herik, "Solving 8 x 8 Domineering", 2000.
WINNERS = {
    (2, 2): "first", (2, 3): "first", (2, 4): "horizontal", (2, 5): "vertical", (2, 6): "first",
    (2, 8): "horizontal", (2, 9): "vertical", (3, 3): "first", (3, 4): "horizontal",
    (4, 4): "first", (4, 5): "vertical", (5, 5): "second",
}  # fmt: skip


@functools.cache
def solver(rows, columns):
    """Returns a function of the occupied cells, as bits, and of who moves: whether they win."""
    at = [[1 << (row * columns + column) for column in range(columns)] for row in range(rows)]
    upright = [at[r][c] | at[r + 1][c] for r in range(rows - 1) for c in range(columns)]
    flat = [at[r][c] | at[r][c + 1] for r in range(rows) for c in range(columns - 1)]

    @functools.cache
    def wins(board, is_horizontal):
        dominoes = flat if is_horizontal else upright
        return any(not wins(board | x, not is_horizontal) for x in dominoes if not board & x)

    return wins


@pytest.mark.parametrize("shape", [shape for shape in WINNERS if shape != (5, 5)])
def test_the_independent_solver_agrees_with_published_results(shape):
    starts = tuple(bool(solver(*shape)(0, side)) for side in (False, True))
    names = {(1, 1): "first", (0, 0): "second", (1, 0): "vertical", (0, 1): "horizontal"}
    assert names[starts] == WINNERS[shape]


@pytest.mark.slow
def test_the_second_player_wins_on_five_by_five():
    test_the_independent_solver_agrees_with_published_results((5, 5))


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(2, 4), (3, 3), (4, 4)])
def test_every_position_has_the_value_of_the_independent_solver(shape):
    env = games.make(PATH, rows=shape[0], columns=shape[1])
    solution, wins = games.solve(env), solver(*shape)
    num_cells = shape[0] * shape[1]
    expected = [
        1 if wins(code % 2**num_cells, bool(code >> num_cells)) else -1
        for code in solution.codes.tolist()
    ]
    assert solution.values.tolist() == expected
    assert len(expected) > 10


def test_moves_rewards_and_names():
    env = Domineering(rows=2, columns=3)
    assert env.move_names() == ["a1a2", "b1b2", "c1c2", "a1b1", "b1c1", "a2b2", "b2c2"]
    state = env.init(jax.random.PRNGKey(0))
    first = int(state.current_player)
    assert state.legal_action_mask.tolist() == [True] * 3 + [False] * 4
    # In the middle: the second player has no room.
    over = env.step(state, 1)
    assert bool(over.terminated)
    assert [float(over.rewards[first]), float(over.rewards[1 - first])] == [1, -1]
    aside = env.step(state, 0)
    assert aside.legal_action_mask.tolist() == [False] * 4 + [True, False, True]
    assert aside.observation[..., 0].tolist() == [[True, False, False]] * 2
    assert bool(aside.observation[..., 1].all())
    text = games.to_text(env.step(aside, 4))
    assert text == "domineering: vertical has no move and has lost\nx o o\nx . ."


def test_four_symmetries_keep_the_game():
    env = Domineering(rows=2, columns=3)
    assert len(games.symmetries(env).action) == 4
    assert games.symmetries(env).action[2].tolist() == [2, 1, 0, 4, 3, 6, 5]
    np.testing.assert_array_equal(env.observation_shape, (2, 3, 2))


@pytest.mark.slow
def test_the_example_has_no_fault():
    assert games.check_game(games.make(PATH, rows=3, columns=4)).faults == []


def test_a_board_of_one_row_is_refused():
    with pytest.raises(ValueError, match=r"raised ValueError: the board has 1 rows and 4 columns"):
        games.make(PATH, rows=1, columns=4)
