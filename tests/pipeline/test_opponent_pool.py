"""The pool of opponents: uniform draws, and the rule of replacement."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dualmctx.pipeline.reinforce.opponent_pool import (
    Pool,
    add_policy,
    count_policies,
    draw_policy,
    first_policy,
    make_pool,
)


def make(number: int, size: int) -> Pool:
    """Returns a pool to which the policies 0, 1, …, number - 1 were added."""
    pool = make_pool({"w": jnp.full(2, 0.0)}, size)
    for i in range(1, number):
        pool = add_policy(pool, {"w": jnp.full(2, float(i))})
    return pool


def policies_in(pool: Pool) -> list[int]:
    return np.asarray(pool.params["w"])[: int(count_policies(pool)), 0].astype(int).tolist()


@pytest.mark.parametrize(
    ("number", "size", "expected"),
    [
        (1, 4, [0]),
        (3, 4, [0, 1, 2]),
        (4, 4, [0, 1, 2, 3]),
        (5, 4, [0, 4, 2, 3]),
        (8, 4, [0, 7, 5, 6]),
        (5, 2, [0, 4]),
        (5, 1, [0]),
    ],
)
def test_full_pool_replaces_oldest_policy_but_the_first(
    number: int, size: int, expected: list[int]
) -> None:
    pool = make(number, size)
    assert policies_in(pool) == expected
    assert first_policy(pool)["w"].tolist() == [0, 0]


def test_policy_that_is_not_due_is_not_added() -> None:
    pool = make(3, 4)
    same = add_policy(pool, {"w": jnp.full(2, 9.0)}, jnp.bool_(False))
    assert policies_in(same) == [0, 1, 2]
    assert policies_in(add_policy(same, {"w": jnp.full(2, 3.0)})) == [0, 1, 2, 3]


@pytest.mark.parametrize(("number", "size"), [(3, 5), (9, 5)])
def test_draws_are_uniform_over_policies_in_pool(number: int, size: int) -> None:
    pool, draws = make(number, size), 6000
    keys = jax.random.split(jax.random.PRNGKey(0), draws)
    params, index = jax.jit(jax.vmap(draw_policy, (None, 0)))(pool, keys)
    entries = policies_in(pool)
    counts = np.bincount(np.asarray(index), minlength=size)[: len(entries)]
    assert counts.sum() == draws
    chance = 1 / len(entries)
    assert np.abs(counts / draws - chance).max() < 4 * np.sqrt(chance * (1 - chance) / draws)
    assert np.asarray(params["w"])[:, 0].astype(int).tolist() == [entries[i] for i in index]
