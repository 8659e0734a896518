import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
from compilations import recorded_compilations
from games import histories

_MOVES = [4, 0, 8, 2, 6]


@pytest.fixture(scope="module")
def env():
    return games.make("tic-tac-toe")


def assert_equal(found, expected):
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for left, right in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert isinstance(left, jax.Array)
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)


def test_other_lengths_and_similar_sizes_do_not_compile(env):
    games.replay(env, [_MOVES])
    games.replay_checked(env, [_MOVES] * 8)
    with recorded_compilations() as events:
        for length in range(len(_MOVES) + 1):
            games.replay(env, np.array([_MOVES[:length]], np.int64).reshape(1, -1))
        for number in range(5, 8):
            games.replay_checked(env, [_MOVES] * number)
        assert events == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 3])
def test_padding_changes_no_result(env, number):
    rows = [[4, 0, 8], [4, 4, -1], [-1, 0, 1], [9, 0, 1]]
    moves = np.array(rows[:number], np.int32).reshape(-1, 3)
    states, first_bad = games.replay_checked(env, moves)
    assert_equal((states, first_bad), histories.replay_unpadded(env, moves))
    assert first_bad.tolist() == [-1, 1, -1, 0][:number]
    assert_equal(games.replay(env, moves), states)


@pytest.mark.slow
def test_the_key_decides_who_moves_first(env):
    keys = jax.random.split(jax.random.PRNGKey(1), 8)
    first = {int(games.replay(env, [[0]], key).current_player[0]) for key in keys}
    assert first == {0, 1}


@pytest.mark.parametrize(
    ("kind", "array"),
    [(np.int64, np.array), (np.uint64, np.array), (np.uint32, jnp.array), (np.uint8, jnp.array)],
)
def test_numbers_that_int32_lacks_are_no_actions(env, kind, array):
    moves = np.array([[2**32 + 3], [2**31 + 3], [2**63 - 1], [3]])
    moves = array(np.minimum(moves, min(np.iinfo(kind).max, 2**63 - 1)).astype(kind))
    assert games.replay_checked(env, moves)[1].tolist() == [0, 0, 0, -1]
