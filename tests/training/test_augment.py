"""Augmentation: values are kept, fields are permuted together, symmetries are uniform."""

import functools
from typing import Any

import jax
import numpy as np
import pytest

import games
from dualmctx.training.batch import TrainingBatch
from dualmctx.training.learner import make_augment

ENVS = {"tic_tac_toe": games.make("tic_tac_toe"), "hex": games.make("hex", size=3)}
# From the empty board to late positions; none of them looks the same when it is turned, but the
# first of each game.
HISTORIES = {
    "tic_tac_toe": [[-1, -1, -1, -1], [0, 1, -1, -1], [4, 5, 0, -1], [2, 3, 6, 7]],
    "hex": [[-1, -1, -1, -1], [1, -1, -1, -1], [1, 9, -1, -1], [0, 1, 3, 2]],
}


def make_positions(name: str, num_copies: int = 1) -> TrainingBatch:
    """Returns copies of four positions, with distinct weights for the actions."""
    states = jax.device_get(games.replay(ENVS[name], HISTORIES[name]))
    states = jax.tree.map(lambda x: np.repeat(x, num_copies, axis=0), states)
    weights = states.legal_action_mask * (1.0 + np.arange(states.legal_action_mask.shape[1]))
    draws = np.random.default_rng(0)
    number = len(weights)
    return TrainingBatch(
        observation=states.observation,
        legal_action_mask=states.legal_action_mask,
        policy=(weights / weights.sum(axis=1, keepdims=True)).astype(np.float32),
        value=draws.choice([-1.0, 0.0, 1.0], number).astype(np.float32),
        remaining_discount=draws.choice([-1.0, 0.0, 1.0], number).astype(np.float32),
        is_truncated=np.arange(number) % 5 == 1,
        is_random=draws.random(number) < 0.3,
        search_value=draws.uniform(-1, 1, number).astype(np.float32),
    )


def augment(name: str, batch: TrainingBatch, seed: int = 0) -> TrainingBatch:
    return jax.device_get(augment_fn(name)(jax.random.key(seed), batch))


@functools.cache
def augment_fn(name: str) -> Any:
    return jax.jit(make_augment(*games.symmetries(ENVS[name])))


def one(batch: TrainingBatch, i: int) -> tuple[bytes, ...]:
    """Returns the three fields of a position that symmetries permute."""
    return tuple(x[i].tobytes() for x in batch[:3])


@pytest.mark.slow
@pytest.mark.parametrize("name", ENVS)
def test_symmetries_are_drawn_uniformly_for_each_position(name: str) -> None:
    symmetries, copies = games.symmetries(ENVS[name]), 300
    number = len(symmetries.action)
    batch = make_positions(name, copies)
    found = augment(name, batch)
    for position in range(4):
        i = position * copies
        flat = batch.observation[i].ravel()
        images = [
            (flat[entries].tobytes(), *(x[i][actions].tobytes() for x in batch[1:3]))
            for entries, actions in zip(*symmetries, strict=True)
        ]
        assert len(set(images)) == number
        counts = dict.fromkeys(images, 0)
        for j in range(i, i + copies):
            counts[one(found, j)] += 1  # A KeyError for any other image.
        np.testing.assert_allclose(list(counts.values()), copies / number, atol=0.1 * copies)
    # The other fields do not change.
    for before, after in zip(batch[3:], found[3:], strict=True):
        np.testing.assert_array_equal(after, before)


def test_the_key_determines_the_symmetries() -> None:
    batch = make_positions("tic_tac_toe", 5)
    first, same, other = (augment("tic_tac_toe", batch, seed) for seed in (0, 0, 1))
    assert all(map(np.array_equal, first, same))
    assert not np.array_equal(first.policy, other.policy)


@pytest.mark.parametrize("name", ["nim", "hsr"])
def test_a_game_without_symmetries_is_an_error(name: str) -> None:
    with pytest.raises(ValueError, match=r"^augment is True, but the game has no symm"):
        make_augment(*games.symmetries(games.make(name)))
