"""The engine against its slow twin: whole trees of AlphaZero and Dual on the hash game."""

import jax
import numpy as np
import pytest

import hash_model
from oracle.cases import (
    ALPHAZERO,
    ALPHAZERO_DEEP,
    ALPHAZERO_WINDOWED,
    DUAL_WINDOWED,
    FEW_RULES,
    INTERLEAVED,
    POLICIES,
    ROUNDS,
    RULES,
    SHALLOW,
    with_options,
)
from oracle.compare import assert_twin_agrees

rules_cases = pytest.mark.parametrize("rules", list(RULES.values()), ids=list(RULES))


def total(results, counter):
    return sum(getattr(result.counters, counter) for result in results)


@rules_cases
def test_alphazero_matches_twin(rules):
    assert_twin_agrees(ALPHAZERO, rules)


@pytest.mark.parametrize("c_puct", [0.3, 4.0])
def test_alphazero_with_another_constant(c_puct):
    assert_twin_agrees(with_options(ALPHAZERO, c_puct=c_puct), RULES["plain"])


@pytest.mark.slow
@pytest.mark.parametrize("policy", [ALPHAZERO, ALPHAZERO_WINDOWED], ids=["full", "windowed"])
def test_alphazero_with_invalid_root_actions(policy):
    invalid = np.eye(4, dtype=bool)
    invalid[3] = [True, False, True, True]
    results = assert_twin_agrees(policy, RULES["all legal"], invalid=invalid)
    assert all(action not in result.nodes[0].children for action, result in enumerate(results))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("window", [1, 2, 3, 60])
@rules_cases
def test_alphazero_with_window(rules, window):
    assert_twin_agrees(with_options(ALPHAZERO_WINDOWED, window=window), rules)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("window", [1, 2, 3])
@pytest.mark.parametrize(("fraction", "decay"), [(0.5, 0.5), (0.3, 1.0), (1.0, 0.25)])
def test_alphazero_with_exploration(window, fraction, decay):
    policy = with_options(
        ALPHAZERO_WINDOWED, window=window, explore_fraction=fraction, explore_decay=decay
    )
    results = []
    for key_seed, rules in enumerate((RULES["plain"], RULES["same player twice"])):
        results += assert_twin_agrees(policy, rules, key_seed=key_seed)
    assert total(results, "explored") > 0


@pytest.mark.sampled(7)
@pytest.mark.parametrize("window", [2, 60])
@rules_cases
def test_alphazero_with_max_depth(rules, window):
    assert_twin_agrees(with_options(ALPHAZERO_DEEP, window=window), rules)


def test_alphazero_reaches_max_depth():
    results = assert_twin_agrees(ALPHAZERO_DEEP, RULES["one legal action"])
    assert total(results, "depth_hits") > 40


@pytest.mark.sampled(12)
@pytest.mark.parametrize("policy", list(POLICIES.values()), ids=list(POLICIES))
@rules_cases
def test_dual_matches_twin(policy, rules):
    assert_twin_agrees(policy, rules)


@pytest.mark.sampled(20)
@pytest.mark.parametrize(
    ("value_mix", "prior_mix"), [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0), (0.25, 0.6)]
)
@pytest.mark.parametrize("policy", list(POLICIES.values()), ids=list(POLICIES))
def test_dual_with_mixes(policy, value_mix, prior_mix):
    policy = with_options(policy, value_mix=value_mix, prior_mix=prior_mix)
    for rules in FEW_RULES:
        assert_twin_agrees(policy, rules, seeds=(10, 11, 12, 13))


@pytest.mark.slow
def test_dual_runs_out_of_leaves():
    results = assert_twin_agrees(ROUNDS, RULES["tiny"])
    assert total(results, "fallbacks") > 0
    assert total(results, "terminal_hits") > 0
    assert 0 < total(results, "refined") < 40


def test_dual_trees_adopt_nodes_of_other_tree():
    results = assert_twin_agrees(INTERLEAVED, RULES["same player twice"])
    assert total(results, "fallbacks") > 0
    assert total(results, "adopted") > 0


def test_dual_reaches_max_depth():
    results = assert_twin_agrees(SHALLOW, RULES["one legal action"])
    assert total(results, "depth_hits") > 40


@pytest.mark.sampled(3)
@pytest.mark.parametrize("policy", list(POLICIES.values()), ids=list(POLICIES))
def test_dual_with_invalid_root_actions(policy):
    invalid = np.eye(4, dtype=bool)
    invalid[3] = [True, False, True, True]
    results = assert_twin_agrees(policy, RULES["all legal"], invalid=invalid)
    assert all(action not in result.nodes[0].children for action, result in enumerate(results))


@pytest.mark.sampled(36)
@pytest.mark.parametrize("window", [1, 2, 3, 60])
@rules_cases
def test_dual_with_window(rules, window):
    assert_twin_agrees(with_options(DUAL_WINDOWED, window=window), rules)


@pytest.mark.parametrize("window", [1, 2])
@pytest.mark.parametrize("value_mix", [0.0, 1.0])
def test_dual_with_window_and_mixes(window, value_mix):
    policy = with_options(DUAL_WINDOWED, window=window, value_mix=value_mix, prior_mix=0.5)
    for rules in FEW_RULES:
        assert_twin_agrees(policy, rules, seeds=(20, 21, 22, 23))


@pytest.mark.parametrize("window", [1, 2])
@pytest.mark.parametrize("rules", FEW_RULES)
def test_dual_with_exploration(window, rules):
    policy = with_options(DUAL_WINDOWED, window=window, explore_fraction=0.6, explore_decay=0.8)
    results = assert_twin_agrees(policy, rules)
    if rules.terminal < 0.5:
        assert total(results, "explored") > 0


@pytest.mark.slow
def test_twin_and_engine_use_same_model():
    """The rules of the game are equal bit by bit; the outputs of the heads nearly."""
    codes = np.arange(50, dtype=np.uint32) * np.uint32(2654435)
    rules = RULES["same player twice"]
    embedding = hash_model.Embedding(state=codes, activations=None)
    actions = codes.astype(np.int32) % 4
    recurrent_fn = jax.jit(hash_model.recurrent_fn, static_argnums=4)
    theirs, _ = recurrent_fn(rules, None, actions, embedding, 4)
    ours, _ = hash_model.recurrent_fn(rules, None, actions, embedding, 4, np)
    np.testing.assert_array_equal(theirs.discount, ours.discount)
    is_masked = ours.prior_logits < -1e9
    np.testing.assert_array_equal(theirs.prior_logits < -1e9, is_masked)
    assert 0 < is_masked.mean() < 0.5
    for name in ("reward", "value", "prior_logits"):
        np.testing.assert_allclose(getattr(theirs, name), getattr(ours, name), rtol=1e-5, atol=1e-6)
