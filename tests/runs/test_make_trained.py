"""Networks trained in Python are saved as those of runs."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dualmctx
import games
from dualmctx import training
from dualmctx.policies import REGISTRY
from dualmctx.runs.saved_policy import build_policy


def make_parts(**options: Any) -> tuple[Any, Any]:
    env = games.make("nim", pile=9)
    sizes = {"width": 4, "num_blocks": 3, **options}
    network = dualmctx.make_network(env.num_actions, env.observation_shape, **sizes)
    observation = jnp.zeros((1, *env.observation_shape))
    shapes = jax.eval_shape(network.init, jax.random.PRNGKey(0), observation)
    draws = np.random.default_rng(0)
    return network, jax.tree.map(lambda x: jnp.asarray(draws.normal(size=x.shape), "f"), shapes)


@pytest.mark.parametrize("variant", REGISTRY)
def test_network_is_loaded_as_it_was_saved(variant: str, tmp_path: Path) -> None:
    policy = REGISTRY[variant].policy()
    network, params = make_parts(
        dtype="bfloat16",
        num_heads=len(policy.heads),
        separate_trunks=policy.traits.separate_trunks,
    )
    pile = {"pile": 9}
    made = dualmctx.make_trained("nim", network, params, policy, game_parameters=pile, iteration=4)
    dualmctx.export_trained(made, tmp_path / "nim.safetensors")
    found = dualmctx.load_trained(tmp_path / "nim.safetensors")
    assert (found.network, found.iteration) == (network, 4)
    assert found.env.observation_shape == made.env.observation_shape == (10,)
    jax.tree.map(np.testing.assert_array_equal, found.params, params)
    assert build_policy(found.record) == policy


def test_what_cannot_be_saved_is_refused() -> None:
    network, params = make_parts()
    policy = dualmctx.AlphaZero(4)
    with pytest.raises(ValueError, match="the network's num_actions is 3; it must be 4, those of"):
        dualmctx.make_trained("connect2", network, params, policy)
    with pytest.raises(ValueError, match="no game 'nym'"):
        dualmctx.make_trained("nym", network, params, policy)
    own: Any = type("Own", (), {})()
    with pytest.raises(ValueError, match="policy is of type Own; it must be of one of the types"):
        dualmctx.make_trained("nim", network, params, own, game_parameters={"pile": 9})


def test_trainer_needs_a_schedule_or_an_optimizer() -> None:
    network, _ = make_parts()
    parts = (games.make("nim", pile=9), network, dualmctx.AlphaZero(4))
    options = training.SelfPlay(num_games=4, num_steps=4), training.Learner(batch_size=4)
    with pytest.raises(ValueError, match="num_iterations is None; it must be a whole number"):
        training.make_trainer(*parts, *options)
    trainer = training.make_trainer(*parts, *options, optimizer=optax.sgd(0.1))
    state = jax.eval_shape(lambda: trainer.init(0))
    # Plain gradient descent has no state.
    assert jax.tree.leaves(state.opt_state) == []
