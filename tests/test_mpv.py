"""MPV-MCTS and its options against its sequential twin."""

import functools
import random

import jax
import jax.numpy as jnp
import pytest

import hash_model
from dualmctx import MPV
from dualmctx.policies.mpv import in_rounds
from dualmctx.search.rounds import even_rounds
from hash_model import Rules
from oracle import chain as chains
from oracle.cases import CALM, FEW_RULES, RULES, WINDOWED, grouped, with_options
from oracle.compare import assert_twin_agrees

rules_cases = pytest.mark.parametrize("rules", list(RULES.values()), ids=list(RULES))


def shuffled(small, large, seed):
    slots = [0] * small + [1] * large
    random.Random(seed).shuffle(slots)
    return tuple(slots)


POLICIES = {
    "small first": MPV((18, 12), "small_first", **CALM),
    "interleaved": MPV((17, 11), action_weights="large_visits", **CALM),
    "large first": MPV((4, 6), (1,) * 6 + (0,) * 4, **CALM),
    "random": MPV((17, 11), shuffled(17, 11, 1), action_weights="small_visits", **CALM),
    "random, large in majority": MPV(
        (9, 14), shuffled(9, 14, 2), action_weights="all_visits", **CALM
    ),
}

agrees = functools.partial(assert_twin_agrees, search=chains.mpv)


@pytest.mark.slow
@pytest.mark.parametrize("policy", list(POLICIES.values()), ids=list(POLICIES))
@rules_cases
def test_mpv_matches_twin(policy, rules):
    agrees(policy, rules)


@pytest.mark.slow
def test_large_tree_out_of_leaves_matches_twin():
    results = agrees(POLICIES["random, large in majority"], RULES["plain"])
    assert sum(result.counters.fallbacks for result in results) > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("terminal", "budgets", "calls"), [(1.0, (12, 10), 12), (0.0, (3, 10), 3 + 7)]
)
def test_network_runs_only_for_new_nodes(terminal, budgets, calls):
    """If the walks of the large tree end at terminal nodes, the network is not called."""
    rules, num_actions, count = Rules(terminal=terminal), 4, []

    def recurrent_fn(params, rng_key, action, embedding):
        jax.debug.callback(lambda: count.append(1))
        return hash_model.recurrent_fn(params, rng_key, action, embedding, num_actions)

    root = hash_model.roots(jnp.arange(3), rules, num_actions)
    refine_fn = functools.partial(hash_model.refine_fn, num_actions=num_actions)
    policy = MPV(budgets, "small_first", **CALM)
    output = jax.jit(policy, static_argnums=(3, 4))(
        rules, jax.random.key(0), root, recurrent_fn, refine_fn
    )
    jax.block_until_ready(output)
    jax.effects_barrier()
    assert len(count) == calls


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("value_mix", "prior_mix"), [(0.0, 1.0), (1.0, 0.0), (0.5, 0.7)])
def test_mpv_with_mixes_matches_twin(value_mix, prior_mix):
    policy = with_options(POLICIES["random"], value_mix=value_mix, prior_mix=prior_mix)
    for rules in FEW_RULES:
        agrees(policy, rules, seeds=(10, 11, 12, 13))


@pytest.mark.slow
@pytest.mark.parametrize("window", [1, 2])
def test_mpv_with_window_matches_twin(window):
    policy = with_options(POLICIES["random"], **grouped(WINDOWED, window=window))
    for rules in FEW_RULES:
        agrees(policy, rules)


@pytest.mark.parametrize(
    ("budgets", "schedule", "rounds"),
    [
        ((3, 2), (0, 1, 0, 0, 1), ((1, 1), (2, 1))),
        ((2, 3), (1, 1, 0, 1, 0), ((0, 2), (1, 1), (1, 0))),
        ((1, 1), (1, 0), ((0, 1), (1, 0))),
        ((3, 2), "small_first", ((3, 2),)),
        ((3, 2), "interleaved", even_rounds((3, 2), 2)),
    ],
)
def test_schedule_equals_sequence_of_rounds(budgets, schedule, rounds):
    policy = MPV(budgets, schedule)
    assert policy.rounds == rounds
    assert policy.traits.num_rounds == len(rounds)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_simulations": (5, 0)}, "num_simulations is 5 0; it must be two numbers"),
        ({"schedule": "large_first"}, "schedule is large_first; it must be small_first or"),
        (
            {"num_simulations": (2, 1), "schedule": (0, 1, 1)},
            "schedule is 0 1 1; it must be 2 times 0 and 1 times 1",
        ),
        ({"prior_mix": -0.5}, "prior_mix is -0.5"),
    ],
)
def test_bad_options_are_refused(options, words):
    with pytest.raises(ValueError, match=words) as info:
        MPV(**options)
    assert "\n" not in str(info.value)


@pytest.mark.parametrize("num_rounds", [1, 2, 3, 5])
def test_in_rounds_spreads_budgets_like_dual(num_rounds):
    policy = MPV((9, 5), in_rounds((9, 5), num_rounds))
    assert policy.rounds == even_rounds((9, 5), num_rounds)
