"""Value targets, and the replay buffer that holds the latest positions.

Targets of whole games are compared with the twin in test_selfplay_twin.py.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dualmctx.training.batch import TrainingBatch
from dualmctx.training.replay import Replay, make_replay, propagate_rewards

# Per move: reward of the mover, discount, whether the game ends, and the result (None if open).
HAND_MADE = {
    "the last move loses": [(0, -1, 0, 1), (-1, 0, 1, -1)],
    "the winner moves twice at the end": [(0, -1, 0, -1), (0, 1, 0, 1), (1, 0, 1, 1)],
    "the loser moves twice before": [(0, 1, 0, -1), (0, -1, 0, -1), (1, 0, 1, 1)],
    "cut off": [(1, 0, 1, 1), (0, -1, 0, None), (0, -1, 0, None)],
    "two games": [(0, -1, 0, -1), (1, 0, 1, 1), (0, -1, 0, 0), (0, 0, 1, 0)],
    "a reward on the way": [(0, -1, 0, 0.5), (0.5, -1, 0, -0.5), (1, 0, 1, 1)],
}


def test_signs_of_results() -> None:
    """The cases are the columns of a batch; before the shorter ones, another game ends."""
    draw = (0, 0, 1, 0)
    columns = [[draw] * (4 - len(moves)) + moves for moves in HAND_MADE.values()]
    reward, discount, is_end, expected = (
        [[move[field] for move in row] for row in zip(*columns, strict=True)] for field in range(4)
    )
    arrays = (jnp.array(x, jnp.float32) for x in (reward, discount))
    result, remaining_discount = propagate_rewards(*arrays)
    is_known = remaining_discount == 0
    np.testing.assert_array_equal(is_known[-1], is_end[-1])
    wanted = [[np.nan if x is None else x for x in row] for row in expected]
    np.testing.assert_array_equal(jnp.where(is_known, result, jnp.nan), wanted)


def numbers(first: int, num_steps: int, num_games: int) -> TrainingBatch:
    """Returns `[T, B]` ends of games; every field is the step plus 100 times the game."""
    x = first + jnp.arange(num_steps)[:, None] + 100 * jnp.arange(num_games)
    two = jnp.stack([x] * 2, -1)
    return TrainingBatch(x, two, two, x, 0 * x, x < 0, x < 0, x)


def sample_often(replay: Replay, state: Any) -> TrainingBatch:
    """Samples many batches; returns their positions on one axis."""
    keys = jax.random.split(jax.random.PRNGKey(0), 1000)
    found = jax.vmap(lambda key: replay.sample(state, key))(keys)
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), found)


@pytest.mark.slow
@pytest.mark.parametrize(("capacity", "num_games", "num_steps"), [(10, 1, 4), (9, 3, 1)])
def test_replay_holds_the_latest_positions_of_each_game(
    capacity: int, num_games: int, num_steps: int
) -> None:
    replay = make_replay(capacity=capacity, batch_size=4, num_games=num_games, num_steps=num_steps)
    state = replay.init(numbers(0, 1, 1))
    add, sample = jax.jit(replay.add), jax.jit(functools.partial(sample_often, replay))
    for i in range(1, 7):
        state = add(state, numbers(num_steps * i, num_steps, num_games))
        found = sample(state)
        newest = num_steps * (i + 1)
        oldest = max(num_steps, newest - capacity // num_games)
        wanted = {100 * game + t for game in range(num_games) for t in range(oldest, newest)}
        values, counts = np.unique(found.value, return_counts=True)
        assert set(values.tolist()) == wanted
        np.testing.assert_allclose(counts / 4000, 1 / len(wanted), atol=0.03)
        for field in (found.observation, found.legal_action_mask, found.policy):
            np.testing.assert_array_equal(field.reshape(4000, -1)[:, -1], found.value)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ((3, 2, 2, 2), "capacity is 3; it must hold at least the 4"),
        ((8, 9, 1, 4), "batch_size is 9; it must be at most the capacity of 8"),
    ],
)
def test_a_replay_buffer_that_is_too_small_is_an_error(sizes: tuple, words: str) -> None:
    names = ("capacity", "batch_size", "num_games", "num_steps")
    with pytest.raises(ValueError, match=words) as error:
        make_replay(**dict(zip(names, sizes, strict=True)))
    assert "\n" not in str(error.value)
