"""Chains of K trees against their slow twin and against Dual."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

import hash_model
from dualmctx import Chain, Dual, Execution
from dualmctx.search.rounds import even_rounds
from oracle import chain as chains
from oracle.cases import (
    CALM,
    FEW_RULES,
    INTERLEAVED,
    ROUNDS,
    RULES,
    WINDOWED,
    grouped,
    with_options,
)
from oracle.compare import assert_twin_agrees, engine_tree, run_engine

rules_cases = pytest.mark.parametrize("rules", list(RULES.values()), ids=list(RULES))

TWO = Chain((23, 10), 3, action_weights="regularized", **CALM)
THREE = Chain((20, 11, 7), 3, action_weights="small_visits", **CALM)
# Later trees run out of nodes to evaluate and find nodes that earlier trees lack.
GREEDY = Chain((5, 9, 12), 12, action_weights="all_visits", **CALM)
FOUR = Chain((14, 9, 8, 6), 4, action_weights="large_visits", **CALM)
# Leaves at the largest depth are visited many times before and after later trees use them.
SHALLOW = Chain((20, 8, 7), 4, **grouped(CALM, max_depth=2))
THREE_WINDOWED = Chain((18, 9, 11), 3, action_weights="small_visits", **WINDOWED)

POLICIES = {"two": TWO, "three": THREE, "greedy": GREEDY, "four": FOUR, "shallow": SHALLOW}

agrees = functools.partial(assert_twin_agrees, search=chains.chain)


def total(results, counter):
    return sum(getattr(result.counters, counter) for result in results)


@pytest.mark.sampled(45)
@pytest.mark.parametrize("policy", list(POLICIES.values()), ids=list(POLICIES))
@rules_cases
def test_chain_matches_twin(policy, rules):
    agrees(policy, rules)


@pytest.mark.slow
@pytest.mark.parametrize(("value_mix", "prior_mix"), [(0.0, 1.0), (1.0, 0.0), (0.6, 0.4)])
@pytest.mark.parametrize("policy", [THREE, GREEDY, FOUR], ids=["three", "greedy", "four"])
def test_chain_with_mixes_matches_twin(policy, value_mix, prior_mix):
    policy = with_options(policy, value_mix=value_mix, prior_mix=prior_mix)
    for rules in FEW_RULES:
        agrees(policy, rules, seeds=(10, 11, 12, 13))


@pytest.mark.slow
def test_chain_with_invalid_root_actions_matches_twin():
    invalid = np.eye(4, dtype=bool)
    invalid[3] = [True, False, True, True]
    results = agrees(THREE, RULES["all legal"], invalid=invalid)
    assert all(action not in result.nodes[0].children for action, result in enumerate(results))


@pytest.mark.slow
@pytest.mark.parametrize("window", [1, 2, 60])
def test_chain_with_window_matches_twin(window):
    policy = with_options(THREE_WINDOWED, window=window)
    explores = with_options(policy, explore_fraction=0.6, explore_decay=0.8)
    for rules in FEW_RULES:
        agrees(policy, rules)
    results = agrees(explores, RULES["plain"])
    if window < 60:
        assert total(results, "explored") > 0


@pytest.mark.slow
def test_trees_out_of_nodes_adopt_later_trees_results():
    results = agrees(GREEDY, RULES["same player twice"])
    assert total(results, "fallbacks") > 0
    # Tree 1 reaches nodes that the last head has already evaluated.
    assert total(results, "adopted") > 0


@pytest.mark.slow
def test_each_head_changes_search():
    """Changing the outputs of any one head changes the search."""
    seeds, key = (0, 1, 2, 3), jax.random.key(5)
    outputs = [
        run_engine(FOUR, 4, RULES["plain"]._replace(final_salt=salt), seeds, key)
        for salt in (0, 50)
    ]
    assert np.any(outputs[0].action_weights != outputs[1].action_weights)
    results = agrees(FOUR, RULES["plain"])
    for tree_index in range(1, 4):
        assert all(sum(n.stats[tree_index].visits > 0 for n in r.nodes) > 4 for r in results)


@pytest.mark.slow
@pytest.mark.parametrize("dual", [ROUNDS, INTERLEAVED], ids=["rounds", "interleaved"])
@pytest.mark.parametrize("rules", FEW_RULES)
def test_chain_of_two_trees_equals_dual(dual, rules):
    options = {f.name: getattr(dual, f.name) for f in dataclasses.fields(dual)}
    seeds, key = (0, 1, 2, 3), jax.random.key(5)
    one, other = (run_engine(p, 4, rules, seeds, key) for p in (dual, Chain(**options)))
    jax.tree.map(np.testing.assert_array_equal, one, other)


@pytest.mark.slow
@pytest.mark.parametrize("rules", FEW_RULES)
def test_tree_is_connected_and_counts_decrease(rules):
    output = run_engine(GREEDY, 4, rules, (30, 31, 32), jax.random.key(1))
    for element in range(3):
        nodes = engine_tree(output.search_tree, element)
        for actions, node in nodes.items():
            for tree_index in range(3):
                if actions and node[f"visits {tree_index}"]:
                    assert (
                        node[f"visits {tree_index}"] <= nodes[actions[:-1]][f"visits {tree_index}"]
                    )


def test_budgets_are_spread_over_rounds():
    rounds = even_rounds((7, 3, 1), 3)
    assert rounds == ((2, 1, 0), (2, 1, 0), (3, 1, 1))
    for budgets, number in (((50, 35), 5), ((3, 2, 8, 1), 8)):
        rounds = even_rounds(budgets, number)
        assert len(rounds) == number
        assert tuple(map(sum, zip(*rounds, strict=True))) == budgets


@pytest.mark.parametrize("num_heads", [2, 4])
def test_another_number_of_heads_is_refused(num_heads: int) -> None:
    root = hash_model.roots(np.arange(2), RULES["plain"], 4)
    recurrent_fn = functools.partial(hash_model.recurrent_fn, num_actions=4)
    refine_fn = hash_model.refine_fns(num_heads, 4)
    found = {2: "of type function", 4: "3 functions"}[num_heads]
    with pytest.raises(ValueError, match=f"refine_fn is {found}; it must be a tuple of 2 fun"):
        THREE(RULES["plain"], jax.random.key(0), root, recurrent_fn, refine_fn)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_simulations": (5,)}, "num_simulations is 5; it must be two numbers or more"),
        ({"num_simulations": (5, 0, 2)}, "num_simulations is 5 0 2; it must be"),
        ({"num_rounds": 26}, "num_rounds is 26; it must be a whole number from 1 to the 25"),
        ({"num_rounds": 0}, "num_rounds is 0"),
        ({"value_mix": 1.5}, "value_mix is 1.5; it must be between 0 and 1"),
        ({"action_weights": "visits"}, "one of small_visits"),
        (
            {"execution": Execution(leaves_per_step=2)},
            "leaves_per_step is 2; .* 1 in Chain",
        ),
        ({"reuse_capacity": -1}, "reuse_capacity is -1"),
    ],
)
def test_bad_options_are_refused(options, words):
    with pytest.raises(ValueError, match=words) as info:
        Chain(**options)
    assert "\n" not in str(info.value)


def test_chain_heads_follow_number_of_trees():
    assert Chain((5, 4), 1).heads == Dual.heads == (0, -1)
    assert FOUR.heads == (0, 1, 2, -1)
    assert FOUR.for_evaluation().root.temperature == 0
