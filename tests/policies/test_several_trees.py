"""Chains and MPV-MCTS: rounds, schedules, heads, and calls of the network.

Their whole trees are compared with the twins in tests/search/test_twin.py.
"""

import functools

import jax
import jax.numpy as jnp
import pytest

import hash_model
from dualmctx import MPV, Chain, Dual
from dualmctx.policies.dual import in_rounds
from dualmctx.search.simulate import even_rounds
from hash_model import Rules
from oracle.cases import CALM


def test_budgets_are_spread_over_rounds() -> None:
    rounds = even_rounds((7, 3, 1), 3)
    assert rounds == ((2, 1, 0), (2, 1, 0), (3, 1, 1))
    for budgets, number in (((50, 35), 5), ((3, 2, 8, 1), 8)):
        rounds = even_rounds(budgets, number)
        assert len(rounds) == number
        assert tuple(map(sum, zip(*rounds, strict=True))) == budgets


def test_chain_heads_follow_number_of_trees() -> None:
    four = Chain((14, 9, 8, 6), 4)
    assert Chain((5, 4), 1).heads == Dual().heads == (0, -1)
    assert four.heads == (0, 1, 2, -1)
    assert four.for_evaluation().root.temperature == 0


@pytest.mark.slow
def test_network_runs_only_for_new_nodes() -> None:
    """If the walks of the large tree end at terminal nodes, the network is not called."""
    count = []

    def recurrent_fn(*args):
        jax.debug.callback(lambda: count.append(1))
        return hash_model.recurrent_fn(*args, num_actions=4)

    refine_fn = functools.partial(hash_model.refine_fn, num_actions=4)
    search = jax.jit(MPV((12, 20), "small_first", **CALM), static_argnums=(3, 4))
    for terminal, calls in ((1.0, 12), (0.0, 20)):
        rules = Rules(terminal=terminal)
        root = hash_model.roots(jnp.arange(3), rules, 4)
        count.clear()
        jax.block_until_ready(search(rules, jax.random.key(0), root, recurrent_fn, refine_fn))
        jax.effects_barrier()
        assert len(count) == calls


@pytest.mark.parametrize(
    ("budgets", "schedule", "rounds"),
    [
        ((3, 2), (0, 1, 0, 0, 1), ((1, 1), (2, 1))),
        ((2, 3), (1, 1, 0, 1, 0), ((0, 2), (1, 1), (1, 0))),
        ((1, 1), (1, 0), ((0, 1), (1, 0))),
        ((3, 2), "small_first", ((3, 2),)),
        ((3, 2), "interleaved", even_rounds((3, 2), 2)),
        *(((9, 5), in_rounds((9, 5), n), even_rounds((9, 5), n)) for n in (1, 2, 3, 5)),
    ],
)
def test_schedule_equals_sequence_of_rounds(budgets, schedule, rounds) -> None:
    policy = MPV(budgets, schedule)
    assert policy.rounds == rounds
    assert policy.traits.num_rounds == len(rounds)
