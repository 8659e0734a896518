"""Options of one-tree policies: minimax values, RAVE and the regularised policy.

Whole trees are compared with the twin in tests/search/test_twin.py.
"""

from typing import Any

import jax
import numpy as np
import pytest

import games
from dualmctx import AlphaZero, make_network, make_search_fn, with_options
from oracle.cases import CALM, RULES, grouped
from oracle.compare import run_engine

SEEDS = (0, 1, 2, 3)


def having(**changes: Any) -> AlphaZero:
    return AlphaZero(40, **grouped(CALM, **changes))


@pytest.mark.slow
def test_actions_of_players_with_different_action_spaces_never_mix() -> None:
    env = games.make("hsr")
    network = make_network(env.num_actions, (1,), width=4, num_blocks=1)
    policy = AlphaZero(150, **grouped(CALM, rave_visits=100.0))
    state = jax.vmap(env.init)(jax.random.split(jax.random.key(0), 2))
    params = network.init(jax.random.key(1), state.observation)
    tree = jax.jit(make_search_fn(env, network, policy))(params, jax.random.key(2), state)
    tree = jax.tree.map(np.asarray, tree.search_tree)
    counts = tree.stats[0].extra["rave"][..., 0]
    is_answer = np.arange(env.num_actions) >= env.num_actions - 2
    answers = np.asarray(tree.embeddings.state.legal_action_mask)[..., -1]
    assert counts[..., ~is_answer][~answers].sum() > counts[..., is_answer][answers].sum() > 0
    assert (counts[..., is_answer][~answers] == 0).all()
    assert (counts[..., ~is_answer][answers] == 0).all()
    # More than the actions that were played at the node itself.
    visits = tree.stats[0].children_visits
    assert (counts >= visits).all()
    assert (counts > visits).any()


@pytest.mark.slow
def test_the_root_learns_from_the_clean_prior() -> None:
    """Noise at the root moves the visits, and the regularised policy only through them."""
    policy = with_options(AlphaZero(1), regularized=("learn",), c_puct=100.0)
    key, rules = jax.random.key(0), RULES["all legal"]
    output = run_engine(policy, 4, rules, SEEDS, key)
    noisy = output.search_tree.children_prior[:, 0]
    calm = run_engine(having(), 4, rules, SEEDS, key).search_tree.children_prior[:, 0]
    assert abs(noisy - calm).max() > 0.05
    np.testing.assert_allclose(output.action_weights, calm, atol=0.01)
