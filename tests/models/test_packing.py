"""Packed states: exact, smaller, and the same search."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
from dualmctx import Dual, make_network, make_search_fn
from dualmctx.models.packing import pack_bits
from oracle.cases import grouped
from untrained import random_params


def num_bytes(tree: Any) -> int:
    return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(tree))


def example_of(env: Any) -> Any:
    return jax.eval_shape(lambda: env.init(jax.random.PRNGKey(0)))


def assert_equal(actual: Any, expected: Any) -> None:
    assert jax.tree.structure(actual) == jax.tree.structure(expected)

    def compare(x: Any, y: Any) -> None:
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)

    jax.tree.map(compare, actual, expected)


# Game and number of random plies.
PLAYED = {"tic_tac_toe": 9, "go_19x19": 10, "chess": 40}
# Bytes of a state and of the packed state, of which hashes are the most.
SIZES = {"chess": (15_802, 6_000), "go_19x19": (19_181, 7_200)}


@pytest.mark.slow
@pytest.mark.parametrize("name", PLAYED)
def test_unpack_inverts_pack(name: str) -> None:
    env = games.make(name)
    packing = pack_bits(example_of(env), env.state_ranges)

    @jax.jit
    def play(keys: Any) -> Any:
        def step(state: Any, key: Any) -> tuple:
            logits = jnp.where(state.legal_action_mask, 0.0, -jnp.inf)
            after = jax.vmap(env.step)(state, jax.random.categorical(key, logits))
            packed = packing.pack(after)
            return after, (after.replace(observation=None), packed, packing.unpack(packed))

        return jax.lax.scan(step, jax.vmap(env.init)(keys), jax.random.split(keys[0], PLAYED[name]))

    _, (states, packed, unpacked) = play(jax.random.split(jax.random.key(0), 2))
    assert_equal(unpacked, states)
    for place, bounds in env.state_ranges.items():
        array = getattr(states._x, place.removeprefix("_x."))
        assert bounds[0] <= array.min() < 0 < array.max() <= bounds[1]
    assert num_bytes(packed) < num_bytes(states)
    if name in SIZES:
        plain, small = (num_bytes(x) / (2 * PLAYED[name]) for x in (states, packed))
        assert plain == SIZES[name][0]
        assert small <= SIZES[name][1]


@pytest.mark.parametrize(
    ("ranges", "dtype", "num_planes"),
    [((0, 1), "int32", 1), ((-3, 4), "int8", 3), ((-3, 5), "int32", 4), ((7, 7), "uint32", 0)],
)
def test_packing_uses_minimal_bits(ranges: Any, dtype: str, num_planes: int) -> None:
    low, high = ranges
    numbers = jnp.asarray(np.random.default_rng(0).integers(low, high + 1, (2, 5, 3)), dtype)
    assert num_planes == 0 or {low, high} <= set(np.unique(numbers).tolist())
    state = games.make("nim").init(jax.random.key(0)).replace(_x=numbers[0])
    packing = pack_bits(state, {"_x": ranges})
    states = jax.tree.map(lambda x: jnp.stack([x, x]), state).replace(_x=numbers)
    packed = packing.pack(states)
    if num_planes > 0:
        assert packed._x.shape == (2, num_planes, 2)
        assert packed._x.dtype == jnp.uint8
    assert_equal(packing.unpack(packed), states.replace(observation=None))


def test_range_must_be_integers() -> None:
    example = example_of(games.make("connect2"))
    for name in ("_x.bord", "rewards", "observation"):
        with pytest.raises(ValueError, match=f"^ranges has {name}; it must name an integer array"):
            pack_bits(example, {name: (0, 1)})


@pytest.mark.slow
def test_packing_does_not_change_search() -> None:
    policy = Dual((6, 4), 2, **grouped(dirichlet_fraction=0.0, temperature=0.0))
    env = games.make("connect2")
    states = jax.vmap(env.init)(jax.random.split(jax.random.key(0), 3))
    network = make_network(env.num_actions, (1,), width=8, num_blocks=2)
    params = random_params(network, env.observation_shape)
    plain, packed = (
        jax.jit(make_search_fn(env, network, policy, compact_states=compact))(
            params, jax.random.key(2), states
        )
        for compact in (False, True)
    )
    sizes = [num_bytes(x.search_tree.embeddings.state) for x in (plain, packed)]
    assert sizes[1] < sizes[0]

    def rest(output: Any) -> Any:
        tree = output.search_tree.replace(embeddings=output.search_tree.embeddings.activations)
        return output.replace(search_tree=tree)

    jax.tree.map(
        functools.partial(np.testing.assert_allclose, rtol=0, atol=1e-6), rest(packed), rest(plain)
    )
