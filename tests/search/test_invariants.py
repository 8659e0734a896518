"""Invariants between searches: facts about the twin, which equals the engine on whole trees.

Sources: Kadam, Xu, Lieberherr 2021, section 3; the facts about sequential mode follow from it.
"""

from typing import Any

import jax
import numpy as np
import pytest

from dualmctx import AlphaZero, Dual
from oracle import twin
from oracle.cases import CALM, RULES, WINDOWED, grouped, with_options
from oracle.compare import run_twin
from oracle.models import HashModel

SEEDS = (30, 31, 32, 33)
KINDS = ("plain", "same player twice", "ties everywhere", "tiny")
ALPHAZERO = AlphaZero(40, **CALM)
# The large tree alone, and the small tree alone under a window that reaches the root.
LARGE_ALONE = Dual((0, 40), 3, **CALM)
SMALL_ALONE = Dual((40, 0), **grouped(WINDOWED, window=40))
SEQUENTIAL = Dual((20, 15), 1, action_weights="large_visits", **CALM)
DUAL_WINDOWED = Dual((23, 13), 2, action_weights="small_visits", **WINDOWED)


def search(policy: Any, rules: Any, final: str = "nothing") -> list[twin.Result]:
    key, size = jax.random.key(1), len(SEEDS)
    models = [HashModel(seed, rules, 4, final) for seed in SEEDS]
    return [run_twin(policy, model, key, (i, size), None) for i, model in enumerate(models)]


def stats_of(result: twin.Result, tree: int) -> dict[tuple[int, ...], tuple[int, float]]:
    """Returns visits and value of each node that a tree has visited."""
    stats = {node.actions: node.stats[tree] for node in result.nodes}
    return {actions: (x.visits, x.mean) for actions, x in stats.items() if x.visits}


def weights(results: list[twin.Result]) -> np.ndarray:
    return np.stack([result.weights for result in results])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_tree_alone_equals_alphazero(kind: str) -> None:
    """The small tree of the first head, the large tree of the last, and a window that is wide."""
    wide = with_options(ALPHAZERO, window=40, explore_fraction=0.0)
    cases = [(SMALL_ALONE, 0, "nothing"), (LARGE_ALONE, 1, "all"), (wide, 0, "all")]
    for alone, tree, final in cases:
        if isinstance(alone, Dual):
            alone = with_options(alone, action_weights="all_visits")
        found = search(alone, RULES[kind], "nothing" if isinstance(alone, Dual) else final)
        for one, other in zip(found, search(ALPHAZERO, RULES[kind], final), strict=True):
            assert stats_of(one, tree) == stats_of(other, 0)
            np.testing.assert_array_equal(one.weights, other.weights)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_window_limits_edge_updates(kind: str) -> None:
    """The edges that all simulations of a tree update are the sum of min(window, length)."""
    windowed = with_options(ALPHAZERO, window=1, explore_fraction=0.0)
    for window, policy in ((w, p) for w in (1, 2, 60) for p in (windowed, DUAL_WINDOWED)):
        for result in search(with_options(policy, window=window), RULES[kind]):
            lengths = (result.counters.small_lengths, result.counters.lengths)
            for tree in range(len(policy.heads)):
                root, *others = (node.stats[tree].visits for node in result.nodes)
                assert sum(others) == sum(min(window, n) for n in lengths[tree])
                assert root == 1 + sum(n <= window for n in lengths[tree])


def large_visits(value_mix: float, prior_mix: float, final: str) -> Any:
    policy = with_options(SEQUENTIAL, value_mix=value_mix, prior_mix=prior_mix)
    results = search(policy, RULES["no illegal, no end"], final)
    # No element runs out of leaves; otherwise PUCT in the large tree would read the mix.
    assert all(len(stats_of(result, 0)) >= 16 for result in results)
    return [{k: n for k, (n, _) in stats_of(result, 1).items()} for result in results]


def test_sequential_counts_ignore_the_mix_below_the_root() -> None:
    """With one round, the counts depend only on the root's prior, which is mixed before.

    So they do not depend on α at all, nor on β if both heads agree on the root's prior.
    """
    first = large_visits(0.0, 0.5, "nothing")
    assert large_visits(1.0, 0.5, "nothing") == first != large_visits(0.0, 0.0, "nothing")
    first = large_visits(0.0, 0.0, "root")
    for value_mix, prior_mix in ((1.0, 0.0), (0.0, 1.0), (0.3, 0.6)):
        assert large_visits(value_mix, prior_mix, "root") == first
