"""Noise at the roots of kept trees: it is mixed anew into the prior, and moves only new visits."""

import functools
from typing import Any

import jax
import numpy as np
import pytest

import dualmctx
import hash_model
from dualmctx import AlphaZero, Dual, MuZero, with_options
from dualmctx.search.tree import Tree
from oracle.cases import RULES
from pairwise import quick_first

A, B, CAPACITY = 4, 16, 60
RULE = RULES["no illegal, no end"]
KEYS = jax.random.split(jax.random.key(1), 3)
POLICIES: dict[str, Any] = {
    "alphazero": AlphaZero(30, reuse_capacity=CAPACITY),
    "dual": Dual((20, 10), 1, reuse_capacity=CAPACITY),
    "muzero": MuZero(30, reuse_capacity=CAPACITY),
}


@functools.cache
def played(name: str) -> tuple[Any, Any]:
    """Returns the roots after the moves of a search without noise, and the kept trees."""
    calm = with_options(POLICIES[name], dirichlet_fraction=0.0)

    @jax.jit
    def search() -> Any:
        seeds = hash_model.roots(np.arange(B), RULE, A)
        output = hash_model.search(calm, RULE, KEYS[0], seeds, A)
        kept = dualmctx.get_subtree(output.search_tree, output.action, reuse_capacity=CAPACITY)
        step, embedding = hash_model.recurrent_fn(RULE, None, output.action, seeds.embedding, A)
        logits, value = step.prior_logits, step.value
        return seeds.replace(prior_logits=logits, value=value, embedding=embedding), kept

    return search()


def root_prior(state: Any) -> np.ndarray:
    """Returns the probabilities with which a search starts."""
    prior = state.tree.children_prior[:, Tree.ROOT_INDEX]
    return np.asarray(jax.nn.softmax(prior) if state.tree.prior_is_logits else prior)


@pytest.mark.parametrize("name", quick_first(POLICIES, 1))
def test_noise_is_mixed_anew_into_the_root_of_a_kept_tree(name: str) -> None:
    policy = POLICIES[name]
    calm = with_options(policy, dirichlet_fraction=0.0)

    root, kept = played(name)

    @jax.jit
    def begin(root: Any, kept: Any) -> Any:
        return [
            hash_model.begin(x, RULE, key, root, A, search_tree=kept)
            for x, key in ((calm, KEYS[1]), (policy, KEYS[1]), (policy, KEYS[2]))
        ]

    has_tree = np.asarray(kept.stats[-1].node_visits[:, 0] > 1)
    assert has_tree.sum() > B // 2
    clean, *noisy = (root_prior(state)[has_tree] for state in begin(root, kept))
    fraction = policy.root.dirichlet_fraction
    for prior in noisy:
        noise = (prior - (1 - fraction) * clean) / fraction
        assert (noise > -1e-5).all()
        np.testing.assert_allclose(noise.sum(axis=-1), 1, atol=1e-4)
        assert (abs(noise - clean).max(axis=-1) > 0.01).all()
    assert (abs(noisy[0] - noisy[1]).max(axis=-1) > 0.001).all()


def test_noise_moves_at_most_the_share_of_the_new_simulations() -> None:
    """With noise alone as the prior, kept visits still hold most of the weight."""
    short = with_options(POLICIES["alphazero"], num_simulations=10, dirichlet_fraction=0.0)
    loud = with_options(short, dirichlet_fraction=1.0, dirichlet_alpha=0.1)

    root, kept = played("alphazero")

    @jax.jit
    def search(root: Any, kept: Any) -> Any:
        return [
            hash_model.search(x, RULE, KEYS[1], root, A, search_tree=kept).action_weights
            for x in (short, loud)
        ]

    calm_weights, loud_weights = search(root, kept)
    change = abs(calm_weights - loud_weights).sum(axis=-1) / 2
    visits = np.asarray(kept.stats[0].node_visits[:, 0]) - 1
    share = 10 / (10 + np.maximum(visits, 0))
    assert (change <= share + 1e-6).all()
    assert change.mean() > 0
