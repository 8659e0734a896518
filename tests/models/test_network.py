"""The network: heads at any depths, resumable at each, and independent of the batch."""

import functools
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dualmctx import Network, make_network
from dualmctx.models.network import SeparateTrunks

SHAPES = {"conv": (4, 3, 2), "mlp": (5, 2), "transformer": (4, 3, 2)}


@functools.cache
def setup(trunk: Any, head_depths: tuple[int, ...]) -> tuple[Network, Any, Any, Any]:
    """Returns a network, its untrained and random parameters, and observations."""
    network = Network(6, trunk, width=8, num_blocks=head_depths[-1], head_depths=head_depths)
    observation = jax.random.bernoulli(jax.random.key(0), 0.5, (5, *SHAPES[trunk]))
    untrained = network.init(jax.random.key(1), observation)
    draws = np.random.default_rng(2)
    random = jax.tree.map(lambda x: x + draws.normal(0, 0.2, x.shape).astype("f"), untrained)
    return network, untrained, random, observation


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trunk", "head_depths"), [*((trunk, (1, 2, 3)) for trunk in SHAPES), ("mlp", (2,))]
)
def test_begin_and_resume_equal_the_whole_run(trunk: str, head_depths: tuple[int, ...]) -> None:
    network, _, params, observation = setup(trunk, head_depths)
    whole = network.apply(params, observation)
    assert len(whole) == len(head_depths)
    last = len(head_depths) - 1
    for first in range(len(head_depths)):
        kept, output = network.apply(params, observation, first, method="begin")
        jax.tree.map(np.testing.assert_array_equal, output, whole[first])
        for later in range(first, last + 1):
            output = network.apply(params, kept, first, later, method="resume")[1]
            jax.tree.map(np.testing.assert_array_equal, output, whole[later])


@pytest.mark.slow
@pytest.mark.parametrize("trunk", SHAPES)
def test_heads_differ_and_values_are_in_range(trunk: str) -> None:
    network, _, params, observation = setup(trunk, (1, 2, 3))
    outputs = network.apply(params, observation)
    for output in outputs:
        assert output.logits.shape == (5, 6)
        assert output.value.shape == (5,)
        assert (jnp.abs(output.value) < 1).all()
        assert len(np.unique(output.value)) == 5
    for one, other in itertools.combinations(outputs, 2):
        assert (jnp.abs(one.logits - other.logits) > 1e-3).any()


@pytest.mark.slow
@pytest.mark.parametrize("trunk", SHAPES)
def test_an_untrained_network_returns_zeros_at_every_head(trunk: str) -> None:
    network, params, _, observation = setup(trunk, (1, 2, 3))
    for output in network.apply(params, observation):
        assert (output.logits == 0).all()
        assert (output.value == 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("trunk", SHAPES)
def test_evaluation_does_not_depend_on_the_batch(trunk: str) -> None:
    network, _, params, observation = setup(trunk, (1, 2, 3))
    whole = network.apply(params, observation)
    others = jnp.zeros_like(observation).at[2].set(observation[2])
    for batch, place in ((others, 2), (observation[2:3], 0)):
        for one, all_of_them in zip(network.apply(params, batch), whole, strict=True):
            np.testing.assert_allclose(one.logits[place], all_of_them.logits[2], atol=1e-5)
            np.testing.assert_allclose(one.value[place], all_of_them.value[2], atol=1e-5)


def test_an_early_head_does_not_read_later_layers() -> None:
    network, _, params, observation = setup("mlp", (1, 2, 3))
    early = ("stem", "blocks_0", "heads_0")
    later = {name: params["params"][name] for name in early}
    _, without = network.apply({"params": later}, observation, 0, method="begin")
    _, whole = network.apply(params, observation, 0, method="begin")
    np.testing.assert_array_equal(without.logits, whole.logits)


@pytest.mark.slow
@pytest.mark.parametrize("trunk", SHAPES)
def test_separate_trunks_are_networks_that_share_nothing(trunk: Any) -> None:
    pair = SeparateTrunks(6, trunk, 8, (1, 2))
    observation = jax.random.bernoulli(jax.random.key(0), 0.5, (5, *SHAPES[trunk]))
    params = pair.init(jax.random.key(1), observation)
    draws = np.random.default_rng(2)
    params = jax.tree.map(lambda x: x + draws.normal(0, 0.2, x.shape).astype("f"), params)
    for head, whole in enumerate(pair.apply(params, observation)):
        kept, output = pair.apply(params, observation, head, method="begin")
        assert kept is None
        jax.tree.map(np.testing.assert_array_equal, output, whole)
        alone = Network(6, trunk, 8, head + 1, (head + 1,))
        own = {"params": params["params"][f"networks_{head}"]}
        jax.tree.map(np.testing.assert_array_equal, alone.apply(own, observation)[0], whole)


@pytest.mark.parametrize("value_depth", [None, 2])
def test_a_value_trunk_replaces_only_the_value_of_the_final_head(value_depth: int | None) -> None:
    network = SeparateTrunks(6, "mlp", 8, (0, 1), value_depth=value_depth)
    observation = jax.random.bernoulli(jax.random.key(0), 0.5, (5, 4))
    params = network.init(jax.random.key(1), observation)
    draws = np.random.default_rng(2)
    params = jax.tree.map(lambda x: x + draws.normal(0, 0.2, x.shape).astype("f"), params)
    names = ["networks_0", "networks_1"] + ["value_network"] * (value_depth is not None)
    assert sorted(params["params"]) == names

    def alone(depth: int, name: str) -> Any:
        own = {"params": params["params"][name]}
        return Network(6, "mlp", 8, depth, (depth,)).apply(own, observation)[0]

    first, final = network.apply(params, observation)
    jax.tree.map(np.testing.assert_array_equal, first, alone(0, "networks_0"))
    np.testing.assert_array_equal(final.logits, alone(1, "networks_1").logits)
    value = alone(1, "networks_1") if value_depth is None else alone(2, "value_network")
    np.testing.assert_array_equal(final.value, value.value)
    for head in (-1, 1):
        output = network.apply(params, observation, head, method="begin")[1]
        jax.tree.map(np.testing.assert_array_equal, output, final)


def count(params: Any) -> int:
    return sum(x.size for x in jax.tree.leaves(params))


def test_the_default_network_has_the_size_of_the_papers() -> None:
    """Four blocks of width 64 and two heads, on Connect Four: 6 x 7 cells, 2 planes, 7 moves."""
    network = make_network(7, (6, 7, 2))
    assert network == Network(7, "conv", 64, 4, (2, 4))
    shapes = jax.eval_shape(network.init, jax.random.key(0), jnp.zeros((1, 6, 7, 2)))
    width, cells = 64, 42
    stem = 9 * 2 * width + width
    block = 2 * (9 * width * width + width + 2 * width)
    policy = 8 * width + 8 + 8 * cells * 7 + 7
    value = 4 * width + 4 + (4 * cells * 64 + 64) + 64 + 1
    assert count(shapes) == stem + 4 * block + 2 * (2 * width + policy + value) == 325960


@pytest.mark.parametrize(
    ("shape", "options", "expected"),
    [
        ((3, 3, 2), {}, Network(4, "conv", 64, 4, (2, 4))),
        ((20,), {"width": 16, "num_blocks": 3}, Network(4, "mlp", 16, 3, (1, 3))),
        ((2, 2), {"num_blocks": 6, "head_depths": [2, 4, 6]}, Network(4, "mlp", 64, 6, (2, 4, 6))),
        ((20,), {"num_blocks": 1, "head_depths": (1,)}, Network(4, "mlp", 64, 1, (1,))),
        ((20,), {"num_blocks": 1}, Network(4, "mlp", 64, 1, (1,))),
        ((20,), {"num_heads": 3}, Network(4, "mlp", 64, 4, (1, 2, 4))),
        ((20,), {"num_heads": 4}, Network(4, "mlp", 64, 4, (1, 2, 3, 4))),
        ((3, 3, 2), {"separate_trunks": True}, SeparateTrunks(4, "conv", 64, (4, 6))),
        (
            (20,),
            {"separate_trunks": True, "num_heads": 3, "num_blocks": 2},
            SeparateTrunks(4, "mlp", 64, (2, 3, 4)),
        ),
        (
            (20,),
            {"separate_trunks": True, "head_depths": [5, 1]},
            SeparateTrunks(4, "mlp", 64, (5, 1)),
        ),
        (
            (20,),
            {"separate_trunks": True, "head_depths": [0, 2], "value_blocks": 3},
            SeparateTrunks(4, "mlp", 64, (0, 2), "float32", 3),
        ),
    ],
)
def test_make_network_chooses_defaults(shape: Any, options: dict, expected: Network) -> None:
    assert make_network(4, shape, **options) == expected


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"width": 0}, "width is 0; it must be at least 1"),
        ({"num_blocks": 0}, "num_blocks is 0; it must be at least 1"),
        ({"num_blocks": 2.5}, "num_blocks is 2.5; it must be a whole number, at least 1"),
        ({"width": float("inf")}, "width is inf; it must be a whole number, at least 1"),
        ({"head_depths": (1.5, 4)}, "head_depths is"),
        ({"separate_trunks": True, "head_depths": (1.5, 4)}, "the blocks of each network"),
        ({"trunk": "resnet"}, "trunk is resnet; it must be one of auto, conv, mlp, transformer"),
        ({"head_depths": (0, 4)}, "head_depths is"),
        ({"head_depths": (4, 2)}, "must increase"),
        ({"head_depths": (2, 3)}, "num_blocks=4"),
        ({"head_depths": ()}, "head_depths is"),
        ({"head_depths": (2, 4), "num_heads": 3}, "must name at least 3 depths"),
        ({"num_blocks": 2, "num_heads": 3}, "num_blocks is 2; it must be at least 3"),
        ({"separate_trunks": True, "head_depths": (4, 0)}, "the blocks of each network"),
        ({"separate_trunks": True, "head_depths": (0,)}, "the blocks of each network"),
        ({"separate_trunks": True, "head_depths": (4,), "num_heads": 2}, "at least 2 depths"),
        ({"separate_trunks": True, "value_blocks": 0}, "value_blocks is 0; it must be at least 1"),
        ({"separate_trunks": True, "value_blocks": 1.5}, "value_blocks is 1.5; .* a whole number"),
        ({"value_blocks": 2}, "value_blocks is 2; .*add --network.separate-trunks True"),
    ],
)
def test_make_network_refuses_bad_options(options: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words) as info:
        make_network(4, (3, 3, 2), **options)
    assert "\n" not in str(info.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_blocks": 3, "head_depths": (2, 4)}, r"head_depths is \(2, 4\); .* num_blocks=3"),
        ({"trunk": "resnet"}, "trunk is resnet; it must be one of conv, mlp, transformer"),
    ],
)
def test_init_refuses_inconsistent_fields(options: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words) as info:
        Network(4, **options).init(jax.random.key(0), jnp.zeros((1, 3, 3, 2)))
    assert "\n" not in str(info.value)
