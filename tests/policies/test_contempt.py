"""search-contempt: no limit, who owns a node, samples of frozen visits, and kept trees.

Whole trees are compared with the twin in tests/search/test_twin.py.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hash_model
from dualmctx import AlphaZero, Contempt
from dualmctx.policies.contempt import sample_visits
from oracle.cases import CALM, RULES, WINDOWED, fast_jit, grouped, with_options
from oracle.compare import assert_twin_agrees

CONTEMPT = Contempt(40, 3, **CALM)


@pytest.mark.slow
def test_node_owner_is_player_to_move() -> None:
    """If a player moves twice in a row, the parity of the depth would be wrong."""
    for kind, parities in (("same player twice", {0, 1}), ("all legal", {1})):
        results = assert_twin_agrees(CONTEMPT, RULES[kind])
        assert {node.depth % 2 for x in results for node in x.search.frozen} == parities


def call(policy: Any, seeds: Any, key: Any, kept: Any = None) -> Any:
    rules = RULES["same player twice"]
    return hash_model.search(policy, rules, key, seeds, 4, search_tree=kept)


def test_kernels_read_a_traced_limit() -> None:
    """The twin traces the limit, so a kernel that captured it as a constant would not compile."""
    policy = Contempt(9, 2, **grouped(CALM, kernels="interpret"))
    assert_twin_agrees(policy, RULES["plain"])


@pytest.mark.slow
def test_no_limit_equals_alphazero() -> None:
    """A limit that no node reaches also equals AlphaZero, apart from the extra statistics.

    Two programs may round differently: numbers are equal up to the last bits, all else exactly.
    """
    options = grouped(WINDOWED, window=2, explore_fraction=0.5)
    key, seeds = jax.random.key(3), jnp.arange(6)
    expected = fast_jit(functools.partial(call, AlphaZero(30, **options)))(seeds, key)
    for limit in (None, -31):
        found = fast_jit(functools.partial(call, Contempt(30, limit, **options)))(seeds, key)
        assert ("frozen" not in found.search_tree.stats[0].extra) == (limit is None)
        tree = found.search_tree
        bare = tree.replace(stats=(tree.stats[0].replace(extra={}),))
        found = found.replace(search_tree=bare)
        assert_close = functools.partial(np.testing.assert_allclose, rtol=2e-6, atol=1e-7)
        jax.tree.map(assert_close, found, expected)


@pytest.mark.slow
def test_samples_depend_only_on_element_and_key() -> None:
    search = fast_jit(functools.partial(call, CONTEMPT))
    seeds = jnp.arange(8)

    def trees(output: Any, places: Any) -> Any:
        return jax.tree.map(lambda x: np.asarray(x)[places], output.search_tree.stats)

    first = search(seeds, jax.random.key(0))
    again = search(seeds, jax.random.key(0))
    jax.tree.map(np.testing.assert_array_equal, first, again)
    crowd = search(seeds.at[3:].set(6), jax.random.key(0))
    jax.tree.map(
        np.testing.assert_array_equal,
        *(trees(output, np.array([0, 1, 2, 6])) for output in (first, crowd)),
    )
    other = search(seeds, jax.random.key(1))
    assert (first.action_weights != other.action_weights).any()
    # Elements with the same root are sampled separately, in any batch.
    assert len(set(np.asarray(crowd.search_tree.stats[0].node_values[3:, 0]).tolist())) > 3
    few = search(seeds[:3], jax.random.key(0))
    np.testing.assert_array_equal(few.action_weights, first.action_weights[:3])


@pytest.mark.parametrize("temperature", [0.05, 3.0])
def test_frozen_counts_are_sampled_in_proportion(temperature: float) -> None:
    visits = jnp.array([30, 0, 20, 50, 0], jnp.int32)
    keys = jax.random.split(jax.random.key(0), 20000)
    draws = sample_visits(keys, jnp.tile(visits, (20000, 1)), temperature)
    expected = (visits / 50) ** (1 / temperature)
    counts = np.bincount(draws, minlength=5) / 20000
    np.testing.assert_allclose(counts, expected / expected.sum(), atol=0.015)
    assert draws.dtype == jnp.int32
    assert counts[[1, 4]].sum() == 0


@pytest.mark.slow
def test_child_limit_counts_by_slot() -> None:
    policy = with_options(CONTEMPT, max_children=2)
    output = fast_jit(functools.partial(call, policy))(jnp.arange(6), jax.random.key(0))
    stats = output.search_tree.stats[0]
    counts = np.asarray(stats.extra["frozen"].visits)
    assert counts.shape == stats.children_visits.shape == (6, 41, 2)
    is_full = np.asarray(stats.children_visits).sum(axis=-1) >= 3
    assert is_full.sum() > 20
    assert (counts[is_full].sum(axis=-1) == 3).all()
    np.testing.assert_array_equal(counts[~is_full], stats.children_visits[~is_full])
    np.testing.assert_allclose(output.action_weights.sum(axis=-1), 1, atol=1e-6)
