"""Keys: all samples of a simulation have distinct keys; batched keys are per element."""

import jax
import jax.numpy as jnp
import numpy as np

from dualmctx.search.keys import (
    EXPLORING,
    FROZEN,
    REGULARIZED,
    element_keys,
    is_per_element,
    node_keys,
    repeat_key,
    sample_rows,
    split_key,
)


def rows(keys: jax.Array) -> list[tuple[int, ...]]:
    data = np.asarray(jax.random.key_data(keys))
    return [tuple(row) for row in data.reshape(-1, data.shape[-1]).tolist()]


def test_keys_of_a_simulation_are_distinct() -> None:
    size, depths = 4, range(5)
    for rng_key in (jax.random.key(0), jax.random.split(jax.random.key(0), size)):
        found = []
        for purpose in (EXPLORING, REGULARIZED, FROZEN):
            for depth in depths:
                found += rows(node_keys(rng_key, purpose, jnp.int32(depth), size))
        # As in mctx: at each depth all keys are split, and a rule gets the second halves.
        keys = element_keys(rng_key, size)
        for _ in depths:
            keys, used = split_key(keys)
            found += rows(used)
        assert len(found) == 4 * size * len(depths)
        assert len(set(found)) == len(found)


def test_the_key_of_an_element_does_not_depend_on_the_batch() -> None:
    many, few = (node_keys(jax.random.key(0), FROZEN, jnp.int32(2), size) for size in (8, 3))
    assert rows(many)[:3] == rows(few)


def test_single_and_batched_keys_split_like_jax() -> None:
    one, many = jax.random.key(3), jax.random.split(jax.random.key(3), 4)
    assert not is_per_element(one)
    assert not is_per_element(jax.random.PRNGKey(3))
    assert is_per_element(many)
    assert rows(jnp.stack(split_key(one, 3))) == rows(jax.random.split(one, 3))
    parts = split_key(many, 3)
    for i in range(4):
        assert [rows(part)[i] for part in parts] == rows(jax.random.split(many[i], 3))
    assert len(set(rows(repeat_key(many, 5)))) == 20
    assert rows(repeat_key(one, 5)) == rows(one)


def test_samples_of_an_element_depend_only_on_its_key() -> None:
    def gumbel(rng_key: jax.Array, like: jax.Array) -> jax.Array:
        return jax.random.gumbel(rng_key, like.shape)

    keys, zeros = jax.random.split(jax.random.key(1), 4), jnp.zeros((4, 3))
    drawn = sample_rows(gumbel, keys, zeros)
    np.testing.assert_array_equal(sample_rows(gumbel, keys[::-1], zeros)[::-1], drawn)
    np.testing.assert_array_equal(drawn[2], jax.random.gumbel(keys[2], (3,)))
    whole = sample_rows(gumbel, keys[0], zeros)
    np.testing.assert_array_equal(whole, jax.random.gumbel(keys[0], (4, 3)))
