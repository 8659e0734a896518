"""MuZero and Gumbel with a window: whole trees against the twin, and invariants."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import mctx
import numpy as np
import pytest

import hash_model
from dualmctx import Gumbel, MuZero, with_options
from dualmctx.policies.root import legal_probabilities
from dualmctx.runs.folder import to_dict
from oracle import mctx_policies
from oracle.cases import RULES, fast_jit
from oracle.compare import assert_same_search
from oracle.models import HashModel

NUM_ACTIONS = 6
SEEDS = np.arange(4)
CALM = {"muzero": {"dirichlet_fraction": 0.0}, "gumbel": {"gumbel_scale": 0.0}}
KINDS = ("plain", "same player twice", "often terminal")


def make(name: str, number: int = 40, **options: Any) -> Any:
    policy = (MuZero if name == "muzero" else Gumbel)(number)
    return with_options(policy, **CALM[name], **options)


@functools.cache
def searcher(policy: Any) -> Any:
    step = functools.partial(hash_model.recurrent_fn, num_actions=NUM_ACTIONS)

    def search(rules: Any, key: Any, invalid: Any) -> Any:
        root = hash_model.roots(SEEDS, rules, NUM_ACTIONS)
        return policy(rules, key, root, step, invalid_actions=invalid)

    return fast_jit(search)


def run(policy: Any, kind: str, key_seed: int = 3, *, is_banned: bool = False) -> tuple[Any, Any]:
    """Returns the engine's output and the invalid root actions."""
    invalid = np.zeros((len(SEEDS), NUM_ACTIONS), bool)
    root = hash_model.roots(SEEDS, RULES[kind], NUM_ACTIONS, np)
    invalid |= root.prior_logits < -1e9
    if is_banned:
        invalid |= (np.arange(NUM_ACTIONS) + SEEDS[:, None]) % 3 == 0
        invalid &= ~invalid.all(axis=1, keepdims=True)
    output = searcher(policy)(RULES[kind], jax.random.key(key_seed), invalid)
    return jax.tree.map(np.asarray, output), invalid


def as_probabilities(output: Any) -> Any:
    tree = output.search_tree
    prior = np.asarray(legal_probabilities(jnp.asarray(tree.children_prior)))
    return output.replace(search_tree=tree.replace(children_prior=prior))


WINDOWS = {
    "full": {},
    "1": {"window": 1, "explore_fraction": 0.0},
    "2 explores": {"window": 2, "explore_fraction": 0.6, "explore_decay": 1.0, "max_depth": 5},
}


@pytest.mark.sampled(18)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("name", ["muzero", "gumbel"])
def test_whole_trees_match_twin(name: str, window: str, kind: str) -> None:
    policy = make(name, **WINDOWS[window])
    explored = 0
    for is_banned in (False, True):
        output, invalid = run(policy, kind, is_banned=is_banned)
        for i, seed in enumerate(SEEDS):
            model = HashModel(int(seed), RULES[kind], NUM_ACTIONS)
            search = getattr(mctx_policies, name)
            place = (i, len(SEEDS))
            result = search(model, policy, jax.random.key(3), place, ~invalid[i])
            assert_same_search(as_probabilities(output), i, result)
            explored += result.counters.explored
            if name == "gumbel":
                assert output.action[i] == result.action
    assert (explored > 0) == ("explores" in window)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["muzero", "gumbel"])
def test_window_as_long_as_search_changes_nothing(name: str) -> None:
    """mctx has no windows, so this test connects the windowed policies with mctx."""
    for kind in KINDS:
        wide, _ = run(make(name, window=40, explore_fraction=1.0), kind)
        plain, _ = run(make(name), kind)
        ours, theirs = wide.search_tree, plain.search_tree
        np.testing.assert_array_equal(ours.children_index, theirs.children_index)
        stats = ours.stats[0], theirs.stats[0]
        np.testing.assert_array_equal(stats[0].node_visits, stats[1].node_visits)
        np.testing.assert_allclose(stats[0].node_values, stats[1].node_values, atol=1e-5)
        np.testing.assert_array_equal(stats[0].path_visits, stats[1].node_visits)
        np.testing.assert_array_equal(wide.action, plain.action)
        np.testing.assert_allclose(wide.action_weights, plain.action_weights, atol=1e-4)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("window", ["1", "2 explores"])
def test_sequential_halving_schedule_is_independent_of_window(window: str) -> None:
    """For any window, the root actions share the simulations as without a window."""
    windowed, _ = run(make("gumbel", **WINDOWS[window]), "plain")
    plain, _ = run(make("gumbel"), "plain")
    tree = windowed.search_tree
    index = tree.children_index[:, 0]
    passes = np.take_along_axis(tree.stats[0].path_visits, np.maximum(index, 0), axis=1)
    passes = np.where(index >= 0, passes, 0)
    visits = plain.search_tree.stats[0].children_visits[:, 0]
    np.testing.assert_array_equal(np.sort(passes), np.sort(visits))
    assert (tree.stats[0].children_visits[:, 0].sum(axis=1) < passes.sum(axis=1)).all()
    batch = np.arange(len(SEEDS))
    assert (passes[batch, windowed.action] == passes.max(axis=1)).all()


@pytest.mark.slow
def test_window_with_many_actions_considers_most_likely() -> None:
    """With mctx's qtransforms, the root's rule considers only the most likely actions."""
    plain = mctx.qtransform_completed_by_mix_value

    def unknown(tree: Any, node_index: Any) -> Any:
        return plain(tree, node_index)

    step = functools.partial(hash_model.recurrent_fn, num_actions=8)
    root = hash_model.roots(SEEDS, RULES["plain"], 8)
    trees = []
    for qtransform in (plain, unknown):
        options: Any = {"window": 1, "explore_fraction": 0.0, "qtransform": qtransform}
        policy = with_options(Gumbel(24, max_num_considered_actions=2), **options)
        run = fast_jit(functools.partial(policy, RULES["plain"], root=root, recurrent_fn=step))
        trees.append(run(rng_key=jax.random.key(3)).search_tree)
    assert (trees[0].stats[0].heights[:, 0] > 1).all()
    assert_equal = functools.partial(jax.tree.map, np.testing.assert_array_equal)
    assert_equal(trees[0].children_index, trees[1].children_index)
    assert_equal(trees[0].stats[0].path_visits, trees[1].stats[0].path_visits)


def test_config_stores_qtransform_by_name() -> None:
    """Runs store their options as JSON, which cannot hold functions."""
    scaled = functools.partial(mctx.qtransform_by_min_max, min_value=-1.0, max_value=1.0)
    assert to_dict(MuZero())["qtransform"] == "qtransform_by_parent_and_siblings"
    assert to_dict(Gumbel(qtransform=scaled))["qtransform"] == {
        "function": "qtransform_by_min_max",
        "min_value": -1.0,
        "max_value": 1.0,
    }
