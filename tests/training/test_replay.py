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
    "the second player wins": [(0, -1, 0, -1), (0, -1, 0, 1), (0, -1, 0, -1), (1, 0, 1, 1)],
    "the last move loses": [(0, -1, 0, 1), (-1, 0, 1, -1)],
    "a draw": [(0, -1, 0, 0), (0, -1, 0, 0), (0, 0, 1, 0)],
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


def sample_often(replay: Replay, state: Any, num_samples: int = 100) -> TrainingBatch:
    """Samples many batches; returns their positions on one axis."""
    keys = jax.random.split(jax.random.PRNGKey(0), num_samples)
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
        # 400 samples of at most 20 numbers miss one of them with probability 10^-7.
        wanted = {100 * game + t for game in range(num_games) for t in range(oldest, newest)}
        assert set(found.value.tolist()) == wanted
        for field in (found.observation, found.legal_action_mask, found.policy):
            np.testing.assert_array_equal(field.reshape(400, -1)[:, -1], found.value)


@pytest.mark.slow
def test_replay_samples_uniformly_and_by_its_key() -> None:
    replay = make_replay(capacity=8, batch_size=8, num_games=2, num_steps=4)
    state = replay.add(replay.init(numbers(0, 1, 1)), numbers(0, 4, 2))
    one, two, three = (replay.sample(state, jax.random.PRNGKey(i)).value for i in (0, 0, 1))
    np.testing.assert_array_equal(one, two)
    assert (one != three).any()
    found = sample_often(replay, state, 1000).value
    share = [np.mean(found == 100 * game + t) for game in range(2) for t in range(4)]
    np.testing.assert_allclose(share, [1 / 8] * 8, atol=0.02)


@pytest.mark.slow
def test_outcomes_reach_older_positions_in_the_buffer() -> None:
    """Adding games in pieces gives the same rows as adding them at once."""
    num_steps = 3
    draws = np.random.default_rng(7)
    is_end = draws.random((12, 5)) < 0.2
    discount = np.where(is_end, 0.0, draws.choice([-1.0, 1.0], (12, 5)))
    reward = np.where(is_end, draws.choice([-1.0, 0.0, 1.0], (12, 5)), 0.0)
    reward[4, 1] = 0.5
    stop = is_end & (draws.random((12, 5)) < 0.4)

    def batch(reward: np.ndarray, discount: np.ndarray, stop: np.ndarray) -> TrainingBatch:
        reward, discount, stop = (jnp.asarray(x, jnp.float32) for x in (reward, discount, stop))
        value, remaining_discount = propagate_rewards(reward, discount)
        is_truncated = propagate_rewards(stop, abs(discount))[0] > 0
        shape = numbers(0, *reward.shape)
        return shape._replace(
            value=value, remaining_discount=remaining_discount, is_truncated=is_truncated
        )

    whole = batch(reward, discount, stop)
    replay = make_replay(capacity=60, batch_size=4, num_games=5, num_steps=num_steps)
    state = replay.init(whole)
    for t in range(0, 12, num_steps):
        piece = (x[t : t + num_steps] for x in (reward, discount, stop))
        state = replay.add(state, batch(*piece))
    for field in ("value", "remaining_discount", "is_truncated"):
        found = getattr(state.experience, field)
        np.testing.assert_array_equal(found, np.asarray(getattr(whole, field)).T)
    # Some games span several pieces, and some are unfinished.
    assert (is_end[num_steps - 1 : -1 : num_steps]).mean() < 0.9
    assert (whole.remaining_discount != 0).any()
    assert 0.1 < whole.is_truncated.mean() < 0.9


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
