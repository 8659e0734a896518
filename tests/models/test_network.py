"""The network: heads at any depths, resumable at each, and independent of the batch."""

import functools
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from dualmctx import Network, make_network
from dualmctx.models.network import SeparateTrunks
from dualmctx.models.trunks import TRUNKS, Trunk, choose_trunk
from untrained import parse_train

SHAPES = {"conv": (4, 3, 2), "mlp": (5, 2), "transformer": (4, 3, 2)}


def random_params(network: Any, observation: Any) -> Any:
    """Returns random parameters; the heads of a new network are zero."""
    shapes = jax.eval_shape(network.init, jax.random.key(1), observation)
    draws = np.random.default_rng(2)
    return jax.tree.map(lambda x: jnp.asarray(draws.normal(0, 0.3, x.shape), x.dtype), shapes)


def observe(shape: tuple[int, ...]) -> Any:
    return jax.random.bernoulli(jax.random.key(0), 0.5, (5, *shape))


assert_equal = functools.partial(jax.tree.map, np.testing.assert_array_equal)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trunk", "dtype"), [("conv", "float32"), ("mlp", "float32"), ("transformer", "bfloat16")]
)
def test_each_head_begins_and_resumes_as_in_the_whole_run(trunk: str, dtype: str) -> None:
    network = Network(6, trunk, width=8, num_blocks=3, head_depths=(1, 2, 3), dtype=dtype)
    observation = observe(SHAPES[trunk])
    params = random_params(network, observation)
    whole = network.apply(params, observation)
    for first in range(3):
        kept, output = network.apply(params, observation, first, method="begin")
        assert kept.dtype == dtype
        assert_equal(output, whole[first])
        for later, stored in itertools.product(range(first, 3), (kept, kept.astype("float32"))):
            activations, output = network.apply(params, stored, first, later, method="resume")
            assert activations.dtype == dtype
            assert_equal(output, whole[later])
    for output in whole:
        assert (output.logits.shape, output.value.shape) == ((5, 6), (5,))
        assert {x.dtype.name for x in output} == {"float32"}
        assert (jnp.abs(output.value) < 1).all()
        assert len(np.unique(output.value)) == 5
    for one, other in itertools.combinations(whole, 2):
        assert (jnp.abs(one.logits - other.logits) > 1e-3).any()


@pytest.mark.slow
@pytest.mark.parametrize("trunk", SHAPES)
def test_a_position_is_evaluated_alone_and_every_layer_learns(trunk: str) -> None:
    network = Network(6, trunk, width=8, num_blocks=2, head_depths=(1, 2))
    observation = observe(SHAPES[trunk])
    params = random_params(network, observation)
    whole = network.apply(params, observation)
    others = jnp.zeros_like(observation).at[2].set(observation[2])
    for batch, place in ((others, 2), (observation[2:3], 0)):
        for one, all_of_them in zip(network.apply(params, batch), whole, strict=True):
            np.testing.assert_allclose(one.logits[place], all_of_them.logits[2], atol=1e-5)
            np.testing.assert_allclose(one.value[place], all_of_them.value[2], atol=1e-5)
    for output in network.apply(network.init(jax.random.key(1), observation), observation):
        assert not output.logits.any(), "an untrained network is indifferent"
        assert not output.value.any()

    def loss(params: Any) -> Any:
        outputs = network.apply(params, observation)
        return sum(jnp.mean((x.logits - 1) ** 2) + jnp.mean((x.value - 1) ** 2) for x in outputs)

    before, gradients = jax.jit(jax.value_and_grad(loss))(params)
    # The keys of an attention have a bias that no output depends on.
    flat = jax.tree_util.tree_leaves_with_path(gradients)
    unused = [path for path, x in flat if not x.any() and "key" not in jax.tree_util.keystr(path)]
    assert not unused
    assert loss(jax.tree.map(lambda x, g: x - 1e-3 * g, params, gradients)) < before


def test_an_early_head_does_not_read_later_layers() -> None:
    network, observation = Network(6, "mlp", 8, 3, (1, 2, 3)), observe((5, 2))
    params = random_params(network, observation)
    early = {name: params["params"][name] for name in ("stem", "blocks_0", "heads_0")}
    outputs = [
        network.apply(x, observation, 0, method="begin") for x in (params, {"params": early})
    ]
    assert_equal(*outputs)


@pytest.mark.parametrize("value_depth", [None, 2])
def test_separate_trunks_are_networks_that_share_nothing(value_depth: int | None) -> None:
    """One more trunk may replace the value of the final head."""
    network = SeparateTrunks(6, "mlp", 8, (0, 1), value_depth=value_depth)
    observation = observe((4,))
    params = random_params(network, observation)
    names = ["networks_0", "networks_1"] + ["value_network"] * (value_depth is not None)
    assert sorted(params["params"]) == names

    def alone(depth: int, name: str) -> Any:
        own = {"params": params["params"][name]}
        return Network(6, "mlp", 8, depth, (depth,)).apply(own, observation)[0]

    final = alone(1, "networks_1")
    if value_depth is not None:
        final = final._replace(value=alone(2, "value_network").value)
    assert_equal(network.apply(params, observation), (alone(0, "networks_0"), final))
    for head in (-1, 1):
        assert_equal(network.apply(params, observation, head, method="begin"), (None, final))


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
    number = stem + 4 * block + 2 * (2 * width + policy + value)
    assert sum(x.size for x in jax.tree.leaves(shapes)) == number == 325960


SEPARATE = {"separate_trunks": True}


@pytest.mark.parametrize(
    ("shape", "options", "expected"),
    [
        ((20,), {"width": 16, "num_blocks": 3}, Network(4, "mlp", 16, 3, (1, 3))),
        ((2, 2), {"num_blocks": 6, "head_depths": [2, 4, 6]}, Network(4, "mlp", 64, 6, (2, 4, 6))),
        ((20,), {"num_blocks": 1}, Network(4, "mlp", 64, 1, (1,))),
        ((20,), {"num_heads": 3}, Network(4, "mlp", 64, 4, (1, 2, 4))),
        ((3, 3, 2), SEPARATE, SeparateTrunks(4, "conv", 64, (4, 6))),
        (
            (9,),
            SEPARATE | {"num_heads": 3, "num_blocks": 2},
            SeparateTrunks(4, "mlp", 64, (2, 3, 4)),
        ),
        (
            (20,),
            SEPARATE | {"head_depths": [0, 2], "value_blocks": 3},
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
        ({"num_blocks": 2.5}, "num_blocks is 2.5; it must be a whole number, at least 1"),
        ({"trunk": "resnet"}, "trunk is resnet; it must be one of auto, conv, mlp, transformer"),
        ({"dtype": "float16"}, "dtype is float16; it must be one of float32, bfloat16"),
        ({"head_depths": (1.5, 4)}, "head_depths is"),
        ({"head_depths": (4, 2)}, "must increase"),
        ({"head_depths": (2, 3)}, "num_blocks=4"),
        ({"head_depths": ()}, "head_depths is"),
        ({"head_depths": (2, 4), "num_heads": 3}, "must name at least 3 depths"),
        ({"num_blocks": 2, "num_heads": 3}, "num_blocks is 2; it must be at least 3"),
        (SEPARATE | {"head_depths": (4, 0)}, "the blocks of each network"),
        (SEPARATE | {"head_depths": (4,), "num_heads": 2}, "at least 2 depths"),
        (SEPARATE | {"value_blocks": 0}, "value_blocks is 0; it must be at least 1"),
        ({"value_blocks": 2}, "value_blocks is 2; .*add --network.separate-trunks True"),
    ],
)
def test_make_network_refuses_bad_options(options: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words) as info:
        make_network(4, (3, 3, 2), **options)
    assert "\n" not in str(info.value)


def test_init_refuses_inconsistent_fields() -> None:
    words = {
        r"head_depths is \(2, 4\); .* num_blocks=3": {"num_blocks": 3, "head_depths": (2, 4)},
        "trunk is resnet; it must be one of conv, mlp, transformer": {"trunk": "resnet"},
    }
    for match, options in words.items():
        with pytest.raises(ValueError, match=match):
            Network(4, **options).init(jax.random.key(0), jnp.zeros((1, 3, 3, 2)))


def test_the_trunk_follows_from_name_and_observations() -> None:
    found = {shape: choose_trunk("auto", shape) for shape in ((6, 7, 2), (21,), (5, 2))}
    assert list(found.values()) == ["conv", "mlp", "mlp"]
    for name in TRUNKS:
        assert choose_trunk(name, (6, 7, 2)) == name
        assert parse_train(["tic-tac-toe", "--network.trunk", name])[1].network.trunk == name


def test_the_transformer_has_one_token_per_cell_or_feature() -> None:
    network = Network(6, "transformer", width=8, num_blocks=1, head_depths=(1,))
    for shape, num_tokens in (((4, 3, 2), 12), ((7,), 7)):
        shapes = jax.eval_shape(network.init, jax.random.key(0), jnp.zeros((3, *shape)))
        assert shapes["params"]["stem"]["position"].shape == (num_tokens, 8)


class TinyBlock(nn.Module):
    """One dense layer."""

    features: int
    dtype: Any

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        return x + nn.Dense(self.features, dtype=self.dtype)(x)


def test_a_new_trunk_is_one_line_of_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    words = "observations with one axis"
    tiny = Trunk(nn.Dense, TinyBlock, lambda shape: len(shape) == 1, words)
    monkeypatch.setitem(TRUNKS, "tiny", tiny)
    network = make_network(3, (5,), width=4, num_blocks=2, trunk="tiny")
    params = network.init(jax.random.key(0), jnp.zeros((2, 5)))
    assert set(params["params"]) == {"stem", "blocks_0", "blocks_1", "heads_0", "heads_1"}
    assert len(network.apply(params, jnp.ones((2, 5)))) == 2
    with pytest.raises(ValueError, match=r"trunk is tiny, which needs .* one axis; .* use conv or"):
        make_network(3, (5, 5, 1), trunk="tiny")
