"""Self-play: reused trees, and the recorded value.

Whole games are compared with the twin in test_selfplay_twin.py.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dualmctx
import games
import hash_model
from dualmctx import AlphaZero, Dual, Execution, Gumbel, make_network, make_search_fn
from dualmctx.models.game_model import mask_illegal
from dualmctx.policies.root import legal_probabilities
from dualmctx.search.keys import split_key
from dualmctx.search.slots import played_actions
from dualmctx.training.selfplay import (
    SelfPlay,
    chosen_value,
    make_play,
    start_games,
)
from untrained import random_params

KEEPING = AlphaZero(9, reuse_capacity=5)


def keys_of(seed: int) -> Any:
    return jax.random.split(jax.random.key(seed), 6)


class Keeper:
    """A game, a policy that reuses subtrees, and a network with random parameters."""

    def __init__(self) -> None:
        self.env = games.make("hsr", k=2, q=3, n=6)
        self.options = SelfPlay(num_games=6, num_steps=7, temperature_plies=0)
        network = make_network(self.env.num_actions, (1,), width=8, num_blocks=2)
        self.start = jax.jit(lambda keys: start_games(self.env, keys, self.options))
        self.games = self.start(keys_of(0))
        self.params, self.network = random_params(network, self.env.observation_shape), network
        self.search_fn = make_search_fn(self.env, network, KEEPING)
        self.search = jax.jit(self.search_fn)
        self.step = jax.jit(jax.vmap(self.env.step))
        self.clean_prior = jax.jit(self.prior_of)
        self.get_subtree = jax.jit(dualmctx.get_subtree, static_argnames="reuse_capacity")

    def prior_of(self, state: Any) -> Any:
        """Returns the prior without noise."""
        logits = self.network.apply(self.params, state.observation)[-1].logits
        return legal_probabilities(mask_illegal(logits, state.legal_action_mask))

    def go_on(self, key: Any, state: Any, kept: Any, has_tree: np.ndarray) -> Any:
        """Searches with an empty tree, or from the kept tree where there is one."""
        fresh = jax.device_get(self.search(self.params, key, state))
        if kept is None:
            return fresh
        on = jax.device_get(self.search(self.params, key, state, kept))
        return pick(has_tree, on, fresh)


def pick(where: np.ndarray, one: Any, other: Any) -> Any:
    def choose(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.where(where.reshape(-1, *[1] * (x.ndim - 1)), x, y)

    return jax.tree.map(choose, one, other)


@pytest.mark.slow
def test_searches_reuse_the_subtree_of_the_move_played() -> None:
    """Compares two calls of self-play with a plain loop."""
    here, most = Keeper(), KEEPING.reuse_capacity
    play = jax.jit(make_play(here.env, here.search_fn, here.options, reuse_capacity=most))
    found, first = here.games, jax.device_get(here.games)
    num_kept = num_ends = 0
    for call in range(2):
        found, trajectory = play(here.params, keys_of(call), found)
        trajectory = jax.device_get(trajectory)
        state, kept, has_tree = first.state, None, np.zeros(6, bool)
        for t, keys in enumerate(split_key(keys_of(call), 7)):
            search_keys, _, start_keys = split_key(keys, 3)
            output = here.go_on(search_keys, state, kept, has_tree)
            np.testing.assert_array_equal(trajectory.positions.policy[t], output.action_weights)
            tree = output.search_tree
            chosen = output.action_weights.argmax(axis=-1)
            qvalues = tree.stats[-1].children_qvalues[:, 0][np.arange(6), chosen]
            # Two programs may round the network's sums differently.
            np.testing.assert_allclose(trajectory.positions.search_value[t], qvalues, rtol=1e-5)
            if has_tree.any():
                # The child's prior was clean, and the new root has noise of its own.
                clean = np.asarray(here.clean_prior(state))[has_tree]
                np.testing.assert_allclose(kept.children_prior[has_tree, 0], clean, atol=1e-6)
                assert (abs(tree.children_prior[has_tree, 0] - clean).max(axis=1) > 1e-3).all()
            action = output.action_weights.argmax(axis=-1)
            state = jax.device_get(here.step(state, action))
            is_end = state.terminated
            kept = jax.device_get(here.get_subtree(tree, action, reuse_capacity=most))
            has_tree = ~is_end & (kept.stats[0].node_visits[:, 0] > 0)
            num_kept, num_ends = num_kept + has_tree.sum(), num_ends + is_end.sum()
            new = jax.device_get(here.start(start_keys).state)
            state = pick(is_end, new, state)
        first = first._replace(state=state)
        jax.tree.map(np.testing.assert_array_equal, found.state, state)
    assert num_kept > 20
    assert num_ends > 6


def value_of_action(tree: Any, actions: Any, b: int, action: int) -> float | None:
    """Returns the value of a root action from its child node, in the last tree that visited it."""
    is_child = (tree.parents[b] == 0) & (actions == action)
    (nodes,) = np.nonzero(is_child)
    for stats in reversed(tree.stats):
        for node in nodes:
            if stats.node_visits[b, node] > 0:
                reward, discount = tree.rewards[b, node], tree.discounts[b, node]
                return float(reward + discount * stats.node_values[b, node])
    return None


CHOOSERS = {
    # Two finalists of equal visits, of which either may win.
    "gumbel": Gumbel(16, max_num_considered_actions=4),
    "dual": Dual(
        (12, 6), num_rounds=2, action_weights="all_visits", execution=Execution(max_children=3)
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CHOOSERS)
def test_the_recorded_value_is_that_of_the_chosen_action(name: str) -> None:
    """Only Gumbel keeps its noise, because it always plays the action that it chose."""
    policy = CHOOSERS[name]
    policy = policy if name == "gumbel" else policy.for_evaluation()

    @jax.jit
    def run(key: Any) -> Any:
        output = hash_model.search(policy, hash_model.Rules(), key, jnp.arange(32), 9)
        return output, chosen_value(output), played_actions(output.search_tree)

    output, values, actions = jax.device_get(run(jax.random.key(0)))
    for b, value in enumerate(values):
        expected = value_of_action(output.search_tree, actions[b], b, output.action[b])
        assert value == pytest.approx(expected, abs=1e-6)
    if name == "gumbel":
        favourite = output.search_tree.summary().visit_counts.argmax(axis=-1)
        assert (favourite != output.action).any()
