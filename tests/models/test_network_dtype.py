"""A trunk in bfloat16: parameters, heads, gradients and search statistics stay float32."""

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from jax.extend.core import jaxprs_in_params

import games
from dualmctx import AlphaZero, Dual, Network, make_network, make_search_fn
from dualmctx.experiment.assemble import record_of
from dualmctx.models.network import SeparateTrunks, cast_trunk
from dualmctx.models.trunks import TRUNKS
from dualmctx.runs.network_record import build_network
from dualmctx.training.config import NetworkOptions
from untrained import parse_train

SHAPES = {"conv": (4, 3, 2), "mlp": (5, 2), "transformer": (4, 3, 2)}
# bfloat16 has 8 significant bits: each rounding changes a number by at most 1/256.
ROUNDING = 2.0**-8


@functools.cache
def setup(trunk: str) -> tuple[Network, Network, Any, jax.Array]:
    """Returns a network in bfloat16 and in float32, random parameters, and observations."""
    rounded = Network(6, trunk, 16, 2, (1, 2), "bfloat16")
    observation = jax.random.bernoulli(jax.random.key(0), 0.5, (16, *SHAPES[trunk]))
    shapes = jax.eval_shape(rounded.init, jax.random.key(1), observation)
    draws = np.random.default_rng(2)

    def fill(path: Any, x: Any) -> jax.Array:
        draw = draws.normal(0, 1 / np.sqrt(np.prod(x.shape[:-1])) if x.ndim > 1 else 0.1, x.shape)
        return jnp.asarray(draw + ("scale" in jax.tree_util.keystr(path)), jnp.float32)

    params = jax.tree_util.tree_map_with_path(fill, shapes)
    return rounded, rounded.clone(dtype="float32"), params, observation


def dtypes(tree: Any) -> set[str]:
    return {x.dtype.name for x in jax.tree.leaves(tree)}


def relative_error(found: Any, expected: Any) -> float:
    one, other = (np.concatenate([*map(np.ravel, jax.tree.leaves(t))]) for t in (found, expected))
    return float(np.linalg.norm(one - other) / np.linalg.norm(other))


@pytest.mark.slow
def test_outputs_and_gradients_are_float32_and_close_to_those_of_float32() -> None:
    rounded, exact, params, observation = setup("conv")

    def run(network: Network) -> Any:
        def loss(params: Any) -> Any:
            outputs = network.apply(params, observation)
            errors = [jnp.mean((x.logits - 1) ** 2) + jnp.mean((x.value - 1) ** 2) for x in outputs]
            return sum(errors), outputs

        return jax.jit(jax.grad(loss, has_aux=True))(params)

    (gradients, found), (exact_gradients, expected) = run(rounded), run(exact)
    assert dtypes((params, found, gradients)) == {"float32"}
    # About ten roundings lie between the observation and a head, twice as many before a gradient.
    for one, other in zip(found, expected, strict=True):
        assert 0 < relative_error(one.logits, other.logits) < 4 * ROUNDING
        assert 0 < relative_error(one.value, other.value) < 4 * ROUNDING
    assert 0 < relative_error(gradients, exact_gradients) < 10 * ROUNDING


def equations(jaxpr: Any) -> Iterator[Any]:
    for equation in jaxpr.eqns:
        yield equation
        for inner in jaxprs_in_params(equation.params):
            yield from equations(inner)


def loops(jaxpr: Any) -> list[Any]:
    """Returns the bodies of all loops."""
    found = [x for x in equations(jaxpr) if x.primitive.name in ("scan", "while")]
    return [inner for loop in found for inner in jaxprs_in_params(loop.params)]


def is_cast(equation: Any) -> bool:
    name, dtype = equation.primitive.name, equation.outvars[0].aval.dtype
    return name == "convert_element_type" and dtype == jnp.bfloat16


@pytest.mark.parametrize("trunk", SHAPES)
def test_products_of_a_block_are_bfloat16_and_its_statistics_float32(trunk: str) -> None:
    block = TRUNKS[trunk].make_block(16, dtype=jnp.bfloat16)
    x = jnp.zeros((5, *SHAPES[trunk][:-1], 16), jnp.bfloat16)
    x = x.reshape(5, -1, 16) if trunk == "transformer" else x
    params = jax.eval_shape(block.init, jax.random.key(0), x)
    kinds: dict[str, set[str]] = {}
    for equation in equations(jax.make_jaxpr(block.apply)(params, x).jaxpr):
        if equation.invars:  # The index of the platform has none.
            kinds.setdefault(equation.primitive.name, set()).add(equation.invars[0].aval.dtype.name)
    assert kinds["reduce_sum"] == kinds["rsqrt"] == {"float32"}
    assert kinds.get("exp", {"float32"}) == {"float32"}  # the softmax of attention
    products = {"dot_general", "conv_general_dilated"} & kinds.keys()
    assert {dtype for name in products for dtype in kinds[name]} == {"bfloat16"}
    # Attention transposes its heads; nothing else does.
    assert ("transpose" in kinds) is (trunk == "transformer")
    assert dtypes(params) == {"float32"}
    assert jax.eval_shape(block.apply, params, x).dtype == jnp.bfloat16


def test_search_statistics_are_float32_and_stored_activations_bfloat16() -> None:
    env, options = games.make("tic_tac_toe"), NetworkOptions(dtype="bfloat16").model_kwargs()
    policy = Dual((4, 2), 2)
    network = make_network(9, (3, 3, 2), width=8, num_blocks=2, dtype="bfloat16")
    search = make_search_fn(env, network, policy, **options)
    key, keys = (jax.ShapeDtypeStruct(shape, jnp.uint32) for shape in ((2,), (3, 2)))
    states = jax.eval_shape(jax.vmap(env.init), keys)
    params = jax.eval_shape(network.init, key, states.observation)
    output = jax.eval_shape(search, params, key, states)
    assert output.search_tree.embeddings.activations.dtype == jnp.bfloat16
    tree = dataclasses.replace(output.search_tree, embeddings=None)
    floats = [x.dtype for x in jax.tree.leaves((tree, output.action_weights))]
    assert {x.name for x in floats if jnp.issubdtype(x, jnp.floating)} == {"float32"}


@pytest.mark.slow
def test_casting_the_parameters_once_changes_no_output() -> None:
    rounded, exact, params, observation = setup("transformer")
    rounded_params = cast_trunk(rounded, params)
    assert cast_trunk(exact, params) is params
    leaves = jax.tree_util.tree_leaves_with_path(rounded_params["params"])
    for path, x in leaves:
        in_trunk = x.ndim > 1 and not path[0].key.startswith("heads")
        assert x.dtype == (jnp.bfloat16 if in_trunk else jnp.float32)
    apply = jax.jit(rounded.apply)
    jax.tree.map(
        np.testing.assert_array_equal,
        apply(rounded_params, observation),
        apply(params, observation),
    )
    # The head of a network of another class has another name.
    assert cast_trunk(cast(Any, nn.Dense(3, dtype=jnp.bfloat16)), params) is params


def test_a_search_casts_the_parameters_outside_of_its_loops() -> None:
    env = games.make("tic_tac_toe")
    network = make_network(9, (3, 3, 2), width=24, num_blocks=2, trunk="mlp", dtype="bfloat16")
    state = jax.eval_shape(jax.vmap(env.init), jax.ShapeDtypeStruct((3, 2), jnp.uint32))
    key = jax.ShapeDtypeStruct((2,), jnp.uint32)
    params = jax.eval_shape(network.init, key, state.observation)
    search = make_search_fn(env, network, AlphaZero(4))
    jaxpr = jax.make_jaxpr(search)(params, key, state).jaxpr
    casts = [x for loop in loops(jaxpr) for x in equations(loop) if is_cast(x)]
    assert casts  # of activations
    assert (24, 24) not in {x.invars[0].aval.shape for x in casts}
    assert (24, 24) in {x.invars[0].aval.shape for x in equations(jaxpr) if is_cast(x)}


def test_the_flag_sets_the_dtype_of_every_kind_of_network() -> None:
    def build(*flags: str) -> Any:
        name, config = parse_train(["nim", *flags])
        return build_network(record_of(name, config), games.make("nim"))

    assert build() == build("--network.dtype", "float32")
    for flags, kind in (([], Network), (["--search.variant", "mpv"], SeparateTrunks)):
        network = build("--network.dtype", "bfloat16", *flags)
        assert network == build(*flags).clone(dtype="bfloat16")
        assert type(network) is kind
    assert build().dtype == "float32"
