"""Invariants between searches that hold for every game, without a twin.

Sources: Kadam, Xu, Lieberherr 2021, section 3; the facts about sequential mode follow from it.
"""

import jax
import numpy as np
import pytest

from oracle.cases import (
    ALPHAZERO,
    ALPHAZERO_WINDOWED,
    DUAL_WINDOWED,
    FEW_RULES,
    LARGE_ALONE,
    POLICIES,
    RULES,
    SEQUENTIAL,
    SMALL_ALONE,
    with_options,
)
from oracle.compare import assert_twin_agrees, engine_tree, run_engine

SEEDS = (30, 31, 32, 33)
rules_cases = pytest.mark.parametrize("rules", list(RULES.values()), ids=list(RULES))


def search(policy, rules, **options):
    return run_engine(policy, 4, rules, SEEDS, jax.random.key(1), **options)


def assert_same_layer(tree, tree_index, other, other_layer):
    """Checks that two trees have the same nodes, visits and values, the latter to 1e-6."""
    for i in range(len(SEEDS)):
        ours = _layer(tree, tree_index, i)
        theirs = _layer(other, other_layer, i)
        assert {k: visits for k, (visits, _) in ours.items()} == {
            k: visits for k, (visits, _) in theirs.items()
        }
        for actions, (_, value) in ours.items():
            np.testing.assert_allclose(value, theirs[actions][1], rtol=0, atol=1e-6)


def _layer(tree, tree_index, element):
    nodes = engine_tree(tree, element)
    stats = {k: (n[f"visits {tree_index}"], n[f"value {tree_index}"]) for k, n in nodes.items()}
    return {k: (visits, value) for k, (visits, value) in stats.items() if visits > 0}


@pytest.mark.sampled(18)
@pytest.mark.parametrize("weights", ["all_visits", "small_visits"])
@rules_cases
def test_small_tree_alone_equals_alphazero(rules, weights):
    alone = search(with_options(SMALL_ALONE, action_weights=weights), rules)
    alphazero = search(ALPHAZERO, rules, final="nothing")
    assert_same_layer(alone.search_tree, 0, alphazero.search_tree, 0)
    assert len(alone.search_tree.stats) == 1
    np.testing.assert_array_equal(alone.action_weights, alphazero.action_weights)


@pytest.mark.sampled(14)
@pytest.mark.parametrize("weights", ["all_visits", "small_visits"])
@rules_cases
def test_large_tree_alone_equals_alphazero(rules, weights):
    alone = search(with_options(LARGE_ALONE, action_weights=weights), rules)
    alphazero = search(ALPHAZERO, rules, final="all")
    assert_same_layer(alone.search_tree, 1, alphazero.search_tree, 0)
    np.testing.assert_array_equal(alone.action_weights, alphazero.action_weights)


@pytest.mark.slow
@pytest.mark.parametrize("rules", FEW_RULES)
def test_smoothed_visits_are_same_function_for_alphazero_and_dual(rules):
    """The paper's eq. 2: both algorithms apply the same function to visits."""
    alone = search(with_options(LARGE_ALONE, action_weights="large_visits"), rules)
    smoothed = search(with_options(ALPHAZERO, visit_weights="smoothed"), rules, final="all")
    np.testing.assert_array_equal(smoothed.action_weights, alone.action_weights)
    plain = search(ALPHAZERO, rules, final="all")
    assert np.any(smoothed.action_weights != plain.action_weights)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("window", [None, 1])
def test_small_visits_count_the_simulations_of_the_small_tree(window):
    """A window reduces visits but not this count, and a later tree does not add to it."""
    policy = with_options(DUAL_WINDOWED, window=window)
    output = search(policy, RULES["no illegal, no end"])
    stats, children = output.search_tree.stats[0], output.search_tree.children_index[:, 0]
    counts = stats.node_visits if window is None else stats.path_visits
    passes = np.take_along_axis(counts, children, axis=1) * (children >= 0)
    np.testing.assert_array_equal(passes.sum(axis=1), policy.num_simulations[0])
    np.testing.assert_allclose(output.action_weights * passes.sum(1)[:, None], passes, rtol=1e-6)
    if window is not None:
        assert np.any(stats.children_visits[:, 0] != passes)


@pytest.mark.sampled(2)
@rules_cases
def test_wide_window_equals_no_window(rules):
    wide = search(with_options(ALPHAZERO_WINDOWED, window=40), rules, final="all")
    none = search(ALPHAZERO, rules, final="all")
    assert_same_layer(wide.search_tree, 0, none.search_tree, 0)
    stats = wide.search_tree.stats[0]
    np.testing.assert_array_equal(stats.path_visits, stats.node_visits)


@pytest.mark.parametrize("window", [1, 2, 3, 60])
@pytest.mark.parametrize("policy", [ALPHAZERO_WINDOWED, DUAL_WINDOWED], ids=["alphazero", "dual"])
def test_window_limits_edge_updates(policy, window):
    """The edges that all simulations of a tree update are the sum of min(window, length)."""
    policy = with_options(policy, window=window)
    final = "all" if policy.heads == (-1,) else "nothing"
    results = assert_twin_agrees(policy, RULES["plain"], seeds=SEEDS, key_seed=1)
    output = search(policy, RULES["plain"], final=final)
    for i, result in enumerate(results):
        lengths = (result.counters.small_lengths, result.counters.lengths)
        for stats, of_tree in zip(output.search_tree.stats, lengths, strict=False):
            assert stats.node_visits[i, 1:].sum() == sum(min(window, n) for n in of_tree)
            assert stats.node_visits[i, 0] == 1 + sum(n <= window for n in of_tree)


def large_visits(value_mix, prior_mix, final):
    policy = with_options(SEQUENTIAL, value_mix=value_mix, prior_mix=prior_mix)
    output = search(policy, RULES["no illegal, no end"], final=final)
    # No element runs out of leaves; otherwise PUCT in the large tree would read the mix.
    small_visits = output.search_tree.stats[0].node_visits
    assert np.all(np.sum(small_visits > 0, axis=1) >= 16)
    return output.search_tree.stats[1].node_visits


def test_sequential_counts_ignore_the_mix_below_the_root():
    """With one round, the counts depend only on the root's prior, which is mixed before.

    So they do not depend on α at all, nor on β if both heads agree on the root's prior.
    """
    first = large_visits(0.0, 0.5, "nothing")
    np.testing.assert_array_equal(large_visits(1.0, 0.5, "nothing"), first)
    assert np.any(large_visits(0.0, 0.0, "nothing") != first)
    first = large_visits(0.0, 0.0, "root")
    for value_mix, prior_mix in ((1.0, 0.0), (0.0, 1.0), (0.3, 0.6)):
        np.testing.assert_array_equal(large_visits(value_mix, prior_mix, "root"), first)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("policy", list(POLICIES.values()), ids=list(POLICIES))
@pytest.mark.parametrize("rules", FEW_RULES)
def test_full_mix_of_first_head_ignores_final_head(policy, rules):
    policy = with_options(policy, value_mix=1.0, prior_mix=1.0)
    one, other = search(policy, rules), search(policy, rules._replace(final_salt=1))
    np.testing.assert_array_equal(one.action_weights, other.action_weights)
    jax.tree.map(np.testing.assert_array_equal, one.search_tree, other.search_tree)
    half = with_options(policy, value_mix=0.5, prior_mix=0.5)
    one, other = search(half, rules), search(half, rules._replace(final_salt=1))
    assert np.any(one.action_weights != other.action_weights)


@pytest.mark.parametrize("window", [1, 2, 3])
@rules_cases
def test_node_visits_never_exceed_parent(rules, window):
    """Therefore the nodes with the largest counts, older first, form a tree with the root."""
    policy = with_options(DUAL_WINDOWED, window=window)
    tree = search(policy, rules).search_tree
    for element in range(len(SEEDS)):
        nodes = engine_tree(tree, element)
        for actions, node in nodes.items():
            for tree_index in range(2):
                if actions and node[f"visits {tree_index}"]:
                    parent = nodes[actions[:-1]]
                    assert 1 <= node[f"passes {tree_index}"] <= parent[f"passes {tree_index}"]
                    assert parent[f"visits {tree_index}"] >= 1
