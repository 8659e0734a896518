"""The example of a game outside the package, against published results."""

import jax
import numpy as np
import pytest

import games
from domineering import Domineering

PATH = "domineering:Domineering"
# Whether the player of vertical dominoes, who begins, wins on boards of m rows and n columns.
# Source: Lachmann, Moore and Rapaport, "Who wins Domineering on rectangular boards?", 2002.
WINS = {(2, 2): 1, (2, 4): -1, (3, 4): -1, (4, 4): 1}


@pytest.mark.slow
@pytest.mark.parametrize("shape", WINS)
def test_solutions_have_the_published_results(shape):
    solution = games.solve(games.make(PATH, rows=shape[0], columns=shape[1]))
    assert solution.values[0] == WINS[shape]


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
    assert games.check_game(games.make(PATH, rows=2, columns=3)).faults == []


def test_a_board_of_one_row_is_refused():
    with pytest.raises(ValueError, match=r"raised ValueError: the board has 1 rows and 4 columns"):
        games.make(PATH, rows=1, columns=4)
