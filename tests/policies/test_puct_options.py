"""Options of one-tree policies: minimax values, RAVE and the regularised policy.

Whole trees are compared with the twin in tests/search/test_twin.py.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
from dualmctx import AlphaZero, make_network, make_search_fn, with_options
from dualmctx.training.selfplay import SelfPlay, make_play, start_games
from dualmctx.types import ActingOutput
from oracle.cases import CALM, RULES, fast_jit, grouped
from oracle.compare import run_engine
from oracle.selfplay import tree_of

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
    tree = fast_jit(make_search_fn(env, network, policy))(params, jax.random.key(2), state)
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
def test_self_play_acts_by_one_policy_and_learns_another() -> None:
    """A stand-in for a search plays its last legal action and would learn the first."""
    env = games.make("tic_tac_toe")

    def search(params: Any, rng_key: Any, state: Any, search_tree: Any = None) -> ActingOutput:
        del params, rng_key, search_tree
        legal = state.legal_action_mask
        first, last = jnp.argmax(legal, axis=-1), 8 - jnp.argmax(legal[:, ::-1], axis=-1)
        act, learn = (jax.nn.one_hot(x, 9) for x in (last, first))
        tree = tree_of(jnp.zeros(legal.shape[0]), act)
        return ActingOutput(action=last, action_weights=learn, acting_weights=act, search_tree=tree)

    play_options = SelfPlay(num_games=2, num_steps=4)
    start = start_games(env, jax.random.split(jax.random.key(0), 2), play_options)
    keys = jax.random.split(jax.random.key(1), 2)
    _, trajectory = fast_jit(make_play(env, search, play_options))(None, keys, start)
    assert trajectory.action.tolist() == [[8, 8], [7, 7], [6, 6], [5, 5]]
    assert (trajectory.positions.policy.argmax(axis=-1) == 0).all()


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
