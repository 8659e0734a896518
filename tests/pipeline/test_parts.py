"""The parts of AlphaGo's network: the outputs and the parameters of each trunk."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
from dualmctx import Network
from dualmctx.models.network import SeparateTrunks
from dualmctx.pipeline.parts import (
    POLICY,
    ROLLOUT,
    VALUE,
    alphago_network,
    alphago_options,
    check_parts,
    get_part,
    make_logits_fn,
    make_value_fn,
    with_part,
)
from dualmctx.training.config import NetworkOptions
from untrained import random_params

NETWORK = SeparateTrunks(6, "mlp", 8, (0, 1), value_depth=2)
OBSERVATION = jax.random.bernoulli(jax.random.key(0), 0.5, (5, 4))
PARAMS = random_params(NETWORK, (4,))
DEPTHS = {ROLLOUT: 0, POLICY: 1, VALUE: 2}


@pytest.mark.slow
def test_each_part_is_a_network_of_its_own() -> None:
    rollout, final = NETWORK.apply(PARAMS, OBSERVATION)
    alone = {}
    for part, depth in DEPTHS.items():
        network = Network(6, "mlp", 8, depth, (depth,))
        alone[part] = network.apply(get_part(PARAMS, part), OBSERVATION)[0]
    equal = np.testing.assert_array_equal
    equal(rollout.logits, alone[ROLLOUT].logits)
    equal(rollout.value, alone[ROLLOUT].value)
    equal(final.logits, alone[POLICY].logits)
    equal(final.value, alone[VALUE].value)
    assert (final.value != alone[POLICY].value).all()
    for part, expected in ((ROLLOUT, rollout), (POLICY, final)):
        logits = make_logits_fn(NETWORK, part)(get_part(PARAMS, part), OBSERVATION)
        equal(logits, expected.logits)
    equal(make_value_fn(NETWORK)(get_part(PARAMS, VALUE), OBSERVATION), final.value)


@pytest.mark.parametrize("part", DEPTHS)
def test_a_part_is_replaced_without_the_others(part: str) -> None:
    before = jax.tree.map(np.array, PARAMS)
    zeros = jax.tree.map(jnp.zeros_like, get_part(PARAMS, part))
    changed = with_part(PARAMS, part, zeros)
    assert jax.tree.structure(changed) == jax.tree.structure(PARAMS)
    for name in DEPTHS:
        expected = zeros if name == part else get_part(PARAMS, name)
        jax.tree.map(np.testing.assert_array_equal, get_part(changed, name), expected)
    jax.tree.map(np.testing.assert_array_equal, PARAMS, before)


def test_an_unknown_part_is_refused() -> None:
    words = "part is heads; it must be one of rollout, policy, value"
    with pytest.raises(ValueError, match=words):
        get_part(PARAMS, "heads")
    with pytest.raises(ValueError, match=words):
        make_logits_fn(NETWORK, "heads")


def test_the_default_network_has_a_rollout_policy_without_blocks() -> None:
    env = games.make("tic_tac_toe")
    network = alphago_network(env, NetworkOptions(width=8, num_blocks=3))
    assert network == SeparateTrunks(9, "conv", 8, (0, 3), value_depth=3)
    options = NetworkOptions(trunk="mlp", head_depths=(1, 2), value_blocks=4, dtype="bfloat16")
    assert alphago_network(env, options) == SeparateTrunks(9, "mlp", 64, (1, 2), "bfloat16", 4)
    complete = alphago_options(options)
    assert alphago_options(complete) == complete


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"separate_trunks": False}, "network.separate_trunks is False; it must be True, or left"),
        ({"head_depths": (4,)}, "network.head_depths is 4; it must be two numbers"),
        ({"head_depths": (1, 2, 3)}, "network.head_depths is 1 2 3; it must be two numbers"),
        ({"head_depths": (4, 0)}, "must be the blocks of each network"),
        ({"value_blocks": 0}, "value_blocks is 0; it must be at least 1"),
        ({"num_blocks": 0}, "num_blocks is 0; it must be at least 1"),
        ({"factory": "own:make"}, "network is own:make; it must be left out"),
    ],
)
def test_options_of_other_networks_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words) as error:
        alphago_network(games.make("tic_tac_toe"), NetworkOptions(**options))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "network",
    [
        Network(6),
        SeparateTrunks(6, "mlp", 8, (1, 2)),
        SeparateTrunks(6, "mlp", 8, (2,), value_depth=2),
        SeparateTrunks(6, "mlp", 8, (1, 2, 3), value_depth=2),
    ],
)
def test_networks_without_the_parts_are_refused(network: Any) -> None:
    with pytest.raises(ValueError, match="the pipeline needs a rollout policy, a policy network"):
        check_parts(network)
