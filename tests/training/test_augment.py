"""Augmentation: values are kept, fields are permuted together, symmetries are uniform."""

import jax
import numpy as np
import pytest

import games
from dualmctx.training.batch import TrainingBatch
from dualmctx.training.learner import make_augment

ENVS = {"tic_tac_toe": games.make("tic_tac_toe"), "hex": games.make("hex", size=3)}
# None of these positions looks the same when it is turned, but the first of each game.
HISTORIES = {
    "tic_tac_toe": [[-1, -1, -1, -1], [0, 1, -1, -1], [4, 5, 0, -1], [2, 3, 6, 7]],
    "hex": [[-1, -1, -1, -1], [1, -1, -1, -1], [1, 9, -1, -1], [0, 1, 3, 2]],
}
COPIES = 300


def make_positions(name: str) -> TrainingBatch:
    """Returns copies of four positions, with distinct weights for the actions."""
    states = jax.device_get(games.replay(ENVS[name], HISTORIES[name]))
    states = jax.tree.map(lambda x: np.repeat(x, COPIES, axis=0), states)
    weights = states.legal_action_mask * (1.0 + np.arange(states.legal_action_mask.shape[1]))
    number = np.arange(len(weights), dtype=np.float32)
    return TrainingBatch(
        observation=states.observation,
        legal_action_mask=states.legal_action_mask,
        policy=(weights / weights.sum(axis=1, keepdims=True)).astype(np.float32),
        value=number,
        remaining_discount=-number,
        is_truncated=number % 5 == 1,
        is_random=number % 3 == 1,
        search_value=number / 8,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ENVS)
def test_symmetries_are_drawn_uniformly_for_each_position(name: str) -> None:
    symmetries, batch = games.symmetries(ENVS[name]), make_positions(name)
    augment, number = jax.jit(make_augment(*symmetries)), len(symmetries.action)
    found, same, other = (jax.device_get(augment(jax.random.key(x), batch)) for x in (0, 0, 1))
    assert all(map(np.array_equal, found, same))
    assert not np.array_equal(found.policy, other.policy)
    for position in range(4):
        i = position * COPIES
        flat = batch.observation[i].ravel()
        images = [
            (flat[entries].tobytes(), *(x[i][actions].tobytes() for x in batch[1:3]))
            for entries, actions in zip(*symmetries, strict=True)
        ]
        assert len(set(images)) == number
        counts = dict.fromkeys(images, 0)
        for j in range(i, i + COPIES):
            counts[tuple(x[j].tobytes() for x in found[:3])] += 1
        np.testing.assert_allclose(list(counts.values()), COPIES / number, atol=0.1 * COPIES)
    # The other fields do not change.
    jax.tree.map(np.testing.assert_array_equal, found[3:], batch[3:])


def test_a_game_without_symmetries_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"^augment is True, but the game has no symm"):
        make_augment(*games.symmetries(games.make("nim")))
