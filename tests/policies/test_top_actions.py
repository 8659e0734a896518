"""A limit of the children of a node.

Whole trees are compared with the twin, as searches of the best actions, in
tests/search/test_twin.py.
"""

import functools
from typing import Any

import jax
import numpy as np
import pytest

import hash_model
from dualmctx import AlphaZero, Embedding, Execution, to_mctx
from dualmctx.policies.top_actions import Inputs, keep_top_actions
from dualmctx.search.slots import played_actions
from hash_model import Rules

A = 12


def bare(recurrent_fn: Any) -> Any:
    """Makes a function whose embeddings are hashes of the state, not an `Embedding`."""

    def play(params: Any, rng_key: Any, action: Any, code: Any) -> tuple:
        step, embedding = recurrent_fn(params, rng_key, action, Embedding(code))
        return step, embedding.state

    return play


@pytest.mark.slow
def test_noise_covers_legal_actions_with_any_embedding() -> None:
    rules = Rules(illegal=0.7)
    root = hash_model.roots(np.arange(8), rules, A, np)
    root = root.replace(embedding=root.embedding.state)
    recurrent_fn = bare(functools.partial(hash_model.recurrent_fn, num_actions=A))
    policy = AlphaZero(9, execution=Execution(max_children=5))
    search = jax.jit(lambda key: policy(rules, key, root, recurrent_fn))
    out, other = (jax.device_get(search(jax.random.key(seed))) for seed in (0, 1))
    tree = out.search_tree
    assert isinstance(tree.embeddings, Embedding)
    assert tree.embeddings.state.shape == (8, 10)
    assert tree.embeddings.actions.shape == (8, 10, 5)
    is_legal = np.asarray(root.prior_logits) > -1e9
    assert is_legal.sum(axis=-1).max() > 5 > is_legal.sum(axis=-1).min()
    batch = np.arange(8)
    for found in (out, other):
        weights = np.asarray(found.action_weights)
        np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-6)
        assert (weights[~is_legal] == 0).all()
        assert (weights[batch, found.action] > 0).all()
    prior, other_prior = (x.search_tree.children_prior[:, 0] for x in (out, other))
    np.testing.assert_allclose(prior.sum(axis=-1), 1, atol=1e-5)
    np.testing.assert_array_equal((prior > 0).sum(-1), np.minimum(is_legal.sum(-1), 5))
    np.testing.assert_array_equal(prior > 0, other_prior > 0)
    assert (prior != other_prior).any()
    # Each edge was played as the action in `played_actions`.
    element, node = np.nonzero(np.asarray(tree.parents) >= 0)
    above = tree.embeddings.state[element, tree.parents[element, node]]
    played = played_actions(tree)[element, node]
    step = functools.partial(hash_model.recurrent_fn, num_actions=A, xp=np)
    _, reached = step(rules, None, np.asarray(played), Embedding(np.asarray(above)))
    np.testing.assert_array_equal(reached.state, tree.embeddings.state[element, node])
    assert len(element) > 60
    # The export is by slots too.
    exported = to_mctx(tree)
    assert exported.children_index.shape == (8, 10, 5)
    np.testing.assert_array_equal(exported.action_from_parent, tree.action_from_parent)


@pytest.mark.parametrize("max_children", [None, A, A + 1])
def test_limit_above_num_actions_changes_nothing(max_children: int | None) -> None:
    root = hash_model.roots(np.arange(2), Rules(), A, np)
    unused: Any = object()
    inputs = Inputs(root, unused, unused, None)
    assert keep_top_actions(inputs, max_children) is inputs
