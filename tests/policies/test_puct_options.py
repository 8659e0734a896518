"""Options of one-tree policies: minimax values, RAVE and the regularised policy.

Whole trees are compared with the twin in tests/search/test_twin.py.
"""

import types
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import games
from dualmctx import AlphaZero, make_network, make_search_fn, with_options
from dualmctx.policies.options import make_qvalues
from dualmctx.training.selfplay import SelfPlay, make_play, start_games
from dualmctx.types import ActingOutput
from oracle import options
from oracle.cases import CALM, RULES, fast_jit, grouped
from oracle.compare import TOLERANCE, assert_twin_agrees, run_engine, slots_of
from oracle.selfplay import tree_of

SEEDS = (0, 1, 2, 3)


def having(**changes: Any) -> AlphaZero:
    return AlphaZero(40, **grouped(CALM, **changes))


def test_what_stands_for_q_is_the_twins_at_every_node() -> None:
    """Digit by digit, as a formula that is a little wrong may choose the same actions."""
    policy, rules = (
        having(minimax_mix=0.3, rave_visits=8.0, max_depth=4),
        RULES["same player twice"],
    )
    output = run_engine(policy, 4, rules, SEEDS, jax.random.key(5), final="all")
    tree, compute = jax.tree.map(jnp.asarray, output.search_tree), make_qvalues(policy.puct)
    everywhere = jax.vmap(lambda node: compute(tree, jnp.full(len(SEEDS), node), 0))
    qvalues = np.asarray(everywhere(jnp.arange(tree.num_nodes)))
    for i, result in enumerate(assert_twin_agrees(policy, rules)):
        slots = slots_of(output.search_tree, i)
        for node in result.nodes:
            expected = options.Search.qvalues(types.SimpleNamespace(options=policy), node, 0.0)
            actual = qvalues[slots[node.actions], i]
            np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE)


def test_options_at_the_edge_of_their_range_change_nothing() -> None:
    """A hundred-millionth of a visit of RAVE is none; and no minimax is nothing at all."""
    key, rules = jax.random.key(0), RULES["same player twice"]
    plain, faint = (
        run_engine(x, 4, rules, SEEDS, key) for x in (having(), having(rave_visits=1e-8))
    )
    stats = plain.search_tree.stats[0], faint.search_tree.stats[0]
    np.testing.assert_array_equal(stats[0].children_visits, stats[1].children_visits)
    assert stats[0].extra == {}
    assert stats[1].extra.keys() == {"rave"}


def test_with_minimax_alone_a_value_is_that_of_the_best_line() -> None:
    """By definition, over the finished tree, which the incremental values must equal."""
    policy, rules = having(minimax_mix=1.0), RULES["same player twice"]
    tree = run_engine(policy, 4, rules, SEEDS, jax.random.key(5)).search_tree
    values = tree.raw_values.copy()
    best = np.full(values.shape, -np.inf)
    for node in reversed(range(1, tree.num_nodes)):
        for i in np.flatnonzero(tree.parents[:, node] >= 0):
            value = best[i, node] if np.isfinite(best[i, node]) else values[i, node]
            value = tree.rewards[i, node] + tree.discounts[i, node] * value
            parent, action = tree.parents[i, node], tree.action_from_parent[i, node]
            best[i, parent] = max(best[i, parent], value)
            kept = tree.stats[0].extra["minimax"][i, parent, action]
            np.testing.assert_allclose(kept, value, rtol=0, atol=TOLERANCE)


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


def test_the_clean_prior_is_what_the_root_learns_from() -> None:
    """Noise at the root moves the visits, and the regularised policy only through them."""
    policy = with_options(AlphaZero(1), regularized=("learn",), c_puct=100.0)
    key, rules = jax.random.key(0), RULES["all legal"]
    output = run_engine(policy, 4, rules, SEEDS, key)
    noisy = output.search_tree.children_prior[:, 0]
    calm = run_engine(having(), 4, rules, SEEDS, key).search_tree.children_prior[:, 0]
    assert abs(noisy - calm).max() > 0.05
    np.testing.assert_allclose(output.action_weights, calm, atol=0.01)
