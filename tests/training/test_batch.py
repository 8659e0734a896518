"""A field added to `TrainingBatch` alone reaches the replay buffer, augmentation and the loss."""

from typing import Annotated, Any, NamedTuple, get_type_hints

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
from dualmctx import AlphaZero, make_network
from dualmctx.training import batch as batch_module
from dualmctx.training.batch import Stored, TrainingBatch, stored_fields
from dualmctx.training.learner import Learner, make_augment
from dualmctx.training.selfplay import SelfPlay
from dualmctx.training.trainer import make_trainer

VISITS = Stored(lambda move: move.output.search_tree.summary().visit_counts, symmetry="action")


def with_visits() -> Any:
    """Returns `TrainingBatch` with one more declaration: the visits of the root's children."""
    declared = get_type_hints(TrainingBatch, include_extras=True)
    declared["visits"] = Annotated[chex.Array, VISITS]
    extended: Any = NamedTuple("Extended", list(declared.items()))
    extended.has_value = TrainingBatch.has_value
    extended.value_target = TrainingBatch.value_target
    return extended


def test_the_replay_buffer_has_a_field_that_is_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_module, "TrainingBatch", with_visits())
    env = games.make("tic_tac_toe")
    network = make_network(env.num_actions, env.observation_shape, width=4, num_blocks=1)
    options = SelfPlay(num_games=4, num_steps=3), Learner(batch_size=8, capacity=12)
    trainer = make_trainer(env, network, AlphaZero(4), *options, num_iterations=1)
    stored: Any = jax.eval_shape(lambda: trainer.init(0)).buffer_state.experience
    assert stored.visits.shape == (4, 3, env.num_actions)


def test_symmetries_permute_the_fields_that_depend_on_the_board() -> None:
    declared = {name: x.symmetry for name, x in stored_fields(TrainingBatch).items() if x.symmetry}
    assert declared == {
        "observation": "observation",
        "legal_action_mask": "action",
        "policy": "action",
    }
    # Checkpoints store the fields in this order.
    assert tuple(stored_fields(TrainingBatch)) == TrainingBatch._fields


@pytest.mark.slow
def test_a_symmetry_permutes_a_new_field_with_the_policy() -> None:
    env, number = games.make("tic_tac_toe"), 32
    draws = np.random.default_rng(0)
    numbers = jnp.asarray(draws.random((number, 9)), jnp.float32)
    zeros = jnp.zeros(number)
    batch = with_visits()(
        observation=jnp.zeros((number, *env.observation_shape)),
        legal_action_mask=numbers > 0.5,
        policy=numbers,
        value=zeros,
        remaining_discount=zeros,
        is_truncated=zeros > 0,
        is_random=zeros > 0,
        search_value=zeros,
        visits=numbers + 1,
    )
    found = make_augment(*games.symmetries(env))(jax.random.key(0), batch)
    assert (found.policy != batch.policy).any()
    np.testing.assert_array_equal(found.visits, found.policy + 1)
