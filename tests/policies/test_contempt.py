"""search-contempt: who owns a node, samples of frozen visits, and a limit of children.

Whole trees are compared with the twin in tests/search/test_twin.py.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hash_model
from dualmctx import Contempt
from dualmctx.policies.contempt import sample_visits
from oracle.cases import CALM, RULES, grouped, with_options
from oracle.compare import assert_twin_agrees, with_traced_options

CONTEMPT = Contempt(40, 3, **CALM)


@pytest.mark.slow
def test_node_owner_is_player_to_move() -> None:
    """If a player moves twice in a row, the parity of the depth would be wrong."""
    for kind, parities in (("same player twice", {0, 1}), ("all legal", {1})):
        results = assert_twin_agrees(CONTEMPT, RULES[kind])
        assert {node.depth % 2 for x in results for node in x.search.frozen} == parities


def call(policy: Any, seeds: Any, key: Any) -> Any:
    return hash_model.search(policy, RULES["same player twice"], key, seeds, 4)


def test_kernels_read_a_traced_limit() -> None:
    """A kernel that captured it as a constant would not be traced."""
    policy = Contempt(9, 2, **grouped(CALM, kernels="interpret"))

    def search(limit: Any) -> Any:
        traced = with_traced_options(policy, {"frozen_visit_limit": limit})
        return call(traced, jnp.arange(2), jax.random.key(0))

    assert "pallas_call" in str(jax.make_jaxpr(search)(2))


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
    output = jax.jit(functools.partial(call, policy))(jnp.arange(6), jax.random.key(0))
    stats = output.search_tree.stats[0]
    counts = np.asarray(stats.extra["frozen"].visits)
    assert counts.shape == stats.children_visits.shape == (6, 41, 2)
    is_full = np.asarray(stats.children_visits).sum(axis=-1) >= 3
    assert is_full.sum() > 20
    assert (counts[is_full].sum(axis=-1) == 3).all()
    np.testing.assert_array_equal(counts[~is_full], stats.children_visits[~is_full])
    np.testing.assert_allclose(output.action_weights.sum(axis=-1), 1, atol=1e-6)
