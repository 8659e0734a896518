"""Invariants between searches that hold for every game, without a twin.

Sources: Kadam, Xu, Lieberherr 2021, section 3; the facts about sequential mode follow from it.
"""

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

from dualmctx import MPV, AlphaZero, Chain, Dual
from oracle.cases import CALM, RULES, WINDOWED, grouped, with_options
from oracle.compare import assert_twin_agrees, engine_tree, run_engine

SEEDS = (30, 31, 32, 33)
ALPHAZERO = AlphaZero(40, **CALM)
ALPHAZERO_WINDOWED = AlphaZero(40, **WINDOWED)
# The large tree alone, and the small tree alone under a window that reaches the root.
LARGE_ALONE = Dual((0, 40), 3, **CALM)
SMALL_ALONE = Dual((40, 0), **grouped(WINDOWED, window=40))
SEQUENTIAL = Dual((20, 15), 1, action_weights="large_visits", **CALM)
ROUNDS = Dual((23, 10), 3, action_weights="regularized", **CALM)
INTERLEAVED = Dual((10, 16), 16, action_weights="all_visits", **CALM)
DUAL_WINDOWED = Dual((23, 13), 2, action_weights="small_visits", **WINDOWED)
CHAIN_WINDOWED = Chain((18, 9, 11), 3, action_weights="small_visits", **WINDOWED)


def search(policy: Any, rules: Any, final: str = "nothing") -> Any:
    return run_engine(policy, 4, rules, SEEDS, jax.random.key(1), final=final)


def assert_same_layer(tree: Any, tree_index: int, other: Any) -> None:
    """Checks that a tree has the nodes, visits and values of another search's, to 1e-6."""
    for i in range(len(SEEDS)):
        ours, theirs = _layer(tree, tree_index, i), _layer(other, 0, i)
        assert {k: x for k, (x, _) in ours.items()} == {k: x for k, (x, _) in theirs.items()}
        for actions, (_, value) in ours.items():
            np.testing.assert_allclose(value, theirs[actions][1], rtol=0, atol=1e-6)


def _layer(tree: Any, tree_index: int, element: int) -> dict:
    nodes = engine_tree(tree, element)
    stats = {k: (n[f"visits {tree_index}"], n[f"value {tree_index}"]) for k, n in nodes.items()}
    return {k: (visits, value) for k, (visits, value) in stats.items() if visits > 0}


@pytest.mark.parametrize(
    ("alone", "tree_index", "final"), [(SMALL_ALONE, 0, "nothing"), (LARGE_ALONE, 1, "all")]
)
def test_a_tree_alone_equals_alphazero(alone: Dual, tree_index: int, final: str) -> None:
    """Whichever visits its policy is read from."""
    for weights, kinds in {"all_visits": list(RULES), "small_visits": ["plain"]}.items():
        for rules in (RULES[kind] for kind in kinds):
            found = search(with_options(alone, action_weights=weights), rules)
            alphazero = search(ALPHAZERO, rules, final)
            assert_same_layer(found.search_tree, tree_index, alphazero.search_tree)
            assert len(found.search_tree.stats) == 1 + tree_index
            np.testing.assert_array_equal(found.action_weights, alphazero.action_weights)


def test_smoothed_visits_are_same_function_for_alphazero_and_dual() -> None:
    """The paper's eq. 2: both algorithms apply the same function to visits."""
    for rules in (RULES["plain"], RULES["same player twice"]):
        alone = search(with_options(LARGE_ALONE, action_weights="large_visits"), rules)
        smoothed = search(with_options(ALPHAZERO, visit_weights="smoothed"), rules, "all")
        np.testing.assert_array_equal(smoothed.action_weights, alone.action_weights)
        plain = search(ALPHAZERO, rules, "all")
        assert np.any(smoothed.action_weights != plain.action_weights)


def test_small_visits_count_the_simulations_of_the_small_tree() -> None:
    """A window reduces visits but not this count, and a later tree does not add to it."""
    output = search(DUAL_WINDOWED, RULES["no illegal, no end"])
    stats, children = output.search_tree.stats[0], output.search_tree.children_index[:, 0]
    passes = np.take_along_axis(stats.path_visits, children, axis=1) * (children >= 0)
    np.testing.assert_array_equal(passes.sum(axis=1), DUAL_WINDOWED.num_simulations[0])
    np.testing.assert_allclose(output.action_weights * passes.sum(1)[:, None], passes, rtol=1e-6)
    assert np.any(stats.children_visits[:, 0] != passes)


def test_wide_window_equals_no_window() -> None:
    for rules in RULES.values():
        wide = search(with_options(ALPHAZERO_WINDOWED, window=40), rules, "all")
        none = search(ALPHAZERO, rules, "all")
        assert_same_layer(wide.search_tree, 0, none.search_tree)
        stats = wide.search_tree.stats[0]
        np.testing.assert_array_equal(stats.path_visits, stats.node_visits)


@pytest.mark.parametrize("policy", [ALPHAZERO_WINDOWED, DUAL_WINDOWED], ids=["alphazero", "dual"])
def test_window_limits_edge_updates(policy: Any) -> None:
    """The edges that all simulations of a tree update are the sum of min(window, length)."""
    for window in (1, 2, 3, 60):
        policy = with_options(policy, window=window)
        rules = RULES["same player twice"]
        results = assert_twin_agrees(policy, rules, seeds=SEEDS)
        output = run_engine(policy, 4, rules, SEEDS, jax.random.key(5), final="all")
        for i, result in enumerate(results):
            lengths = (result.counters.small_lengths, result.counters.lengths)
            for stats, of_tree in zip(output.search_tree.stats, lengths, strict=False):
                assert stats.node_visits[i, 1:].sum() == sum(min(window, n) for n in of_tree)
                assert stats.node_visits[i, 0] == 1 + sum(n <= window for n in of_tree)


def large_visits(value_mix: float, prior_mix: float, final: str) -> Any:
    policy = with_options(SEQUENTIAL, value_mix=value_mix, prior_mix=prior_mix)
    output = search(policy, RULES["no illegal, no end"], final)
    # No element runs out of leaves; otherwise PUCT in the large tree would read the mix.
    small_visits = output.search_tree.stats[0].node_visits
    assert np.all(np.sum(small_visits > 0, axis=1) >= 16)
    return output.search_tree.stats[1].node_visits


def test_sequential_counts_ignore_the_mix_below_the_root() -> None:
    """With one round, the counts depend only on the root's prior, which is mixed before.

    So they do not depend on α at all, nor on β if both heads agree on the root's prior.
    """
    first = large_visits(0.0, 0.5, "nothing")
    np.testing.assert_array_equal(large_visits(1.0, 0.5, "nothing"), first)
    assert np.any(large_visits(0.0, 0.0, "nothing") != first)
    first = large_visits(0.0, 0.0, "root")
    for value_mix, prior_mix in ((1.0, 0.0), (0.0, 1.0), (0.3, 0.6)):
        np.testing.assert_array_equal(large_visits(value_mix, prior_mix, "root"), first)


@pytest.mark.parametrize("policy", [ROUNDS, INTERLEAVED, DUAL_WINDOWED])
def test_full_mix_of_first_head_ignores_final_head(policy: Dual) -> None:
    for rules in (RULES["plain"], RULES["tiny"]):
        full = with_options(policy, value_mix=1.0, prior_mix=1.0)
        one, other = search(full, rules), search(full, rules._replace(final_salt=1))
        jax.tree.map(np.testing.assert_array_equal, one, other)
        half = with_options(policy, value_mix=0.5, prior_mix=0.5)
        one, other = search(half, rules), search(half, rules._replace(final_salt=1))
        assert np.any(one.action_weights != other.action_weights)


@pytest.mark.parametrize("policy", [DUAL_WINDOWED, CHAIN_WINDOWED], ids=["dual", "chain"])
def test_node_visits_never_exceed_parent(policy: Any) -> None:
    """Therefore the nodes with the largest counts, older first, form a tree with the root."""
    for window, rules in ((x, rules) for x in (1, 3) for rules in RULES.values()):
        tree = search(with_options(policy, window=window), rules).search_tree
        for nodes in (engine_tree(tree, element) for element in range(len(SEEDS))):
            for actions, node in nodes.items():
                for i in range(len(tree.stats)):
                    if actions and node[f"visits {i}"]:
                        parent = nodes[actions[:-1]]
                        assert 1 <= node[f"passes {i}"] <= parent[f"passes {i}"]
                        assert parent[f"visits {i}"] >= 1


@pytest.mark.parametrize("dual", [ROUNDS, INTERLEAVED], ids=["rounds", "interleaved"])
def test_chain_of_two_trees_and_mpv_equal_dual(dual: Dual) -> None:
    """Chain in all digits; MPV, which has two networks, where both are the same function."""
    options = {f.name: getattr(dual, f.name) for f in dataclasses.fields(dual)}
    for rules in (RULES["plain"], RULES["tiny"]):
        one, other = search(dual, rules), search(Chain(**options), rules)
        jax.tree.map(np.testing.assert_array_equal, one, other)
    if dual is INTERLEAVED:  # Its rounds are those of the schedule.
        options.pop("num_rounds")
        found = search(MPV(**options), rules)
        jax.tree.map(np.testing.assert_array_equal, one, found)


def test_each_head_changes_search() -> None:
    """Changing the outputs of any one head changes the search."""
    chain = Chain((14, 9, 8, 6), 4, action_weights="large_visits", **CALM)
    rules = RULES["plain"]
    one, other = (search(chain, rules._replace(final_salt=salt)) for salt in (0, 50))
    assert np.any(one.action_weights != other.action_weights)
    for result in assert_twin_agrees(chain, rules):
        for tree_index in range(1, 4):
            assert sum(node.stats[tree_index].visits > 0 for node in result.nodes) > 4
