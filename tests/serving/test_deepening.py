"""Deeper searches from kept trees: chunks of a search grow the tree of the whole search."""

from typing import Any

import jax
import numpy as np
import pytest

import hash_model
from dualmctx.policies import MPV, AlphaZero, Chain, Contempt, Dual, Gumbel, MuZero, with_options
from dualmctx.search.subtree import compact_tree, empty_tree
from dualmctx.serving.tasks import can_deepen, to_bucket, to_chunk, total_simulations
from oracle.cases import RULES

NUM_ACTIONS, CAPACITY = 4, 70
WHOLE = {
    "alphazero options": with_options(
        AlphaZero(64), window=2, explore_fraction=0.0, minimax_mix=0.4, rave_visits=9.0
    ),
    "mpv schedule": with_options(MPV((12, 12), (0, 0, 1, 1) * 6), max_children=2),
}


def search_function(policy: Any) -> Any:
    """Returns the policy's search on the hash game, `(params, key, root, search_tree)`."""
    policy = policy.for_evaluation()

    def search(rules: Any, key: Any, root: Any, search_tree: Any = None) -> Any:
        kept = {} if search_tree is None else {"search_tree": search_tree}
        return hash_model.search(policy, rules, key, root, NUM_ACTIONS, **kept)

    return search


def nodes_of(tree: Any) -> dict[str, Any]:
    """Returns the arrays of the nodes by name, with all nodes in the first slots."""
    tree = compact_tree(tree, reuse_capacity=tree.num_nodes - 1)
    number = int(np.max(np.sum(tree.edges >= 0, axis=1))) + 1
    # Corrections between trees need `leaf_visits` only if the trees are used again.
    stats = tuple(stats.replace(leaf_visits=None) for stats in tree.stats)
    tree = tree.replace(root_invalid_actions=None, stats=stats)
    arrays = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path): np.asarray(x)[:, :number] for path, x in arrays}


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE)
def test_chunks_grow_the_tree_of_the_whole_search(name: str) -> None:
    """Floats may differ in the last digits, because XLA compiles two programs."""
    whole = WHOLE[name]
    chunk = to_chunk(whole, 16)
    number, rest = divmod(total_simulations(whole), total_simulations(chunk))
    assert (number > 1, rest) == (True, 0)
    rules, key = RULES["same player twice"]._replace(terminal=0.1), jax.random.key(1)
    root = hash_model.roots(np.arange(5), rules, NUM_ACTIONS)
    expected = jax.jit(search_function(whole))(rules, key, root)
    search = search_function(with_options(chunk, reuse_capacity=CAPACITY))

    def deepen(search_tree: Any) -> Any:
        output = search(rules, key, root, search_tree)
        return output, compact_tree(output.search_tree, reuse_capacity=CAPACITY)

    deepen, output = jax.jit(deepen), None
    tree = empty_tree(search, rules, root, reuse_capacity=CAPACITY)
    for _ in range(number):
        output, tree = deepen(tree)
    np.testing.assert_array_equal(output.action, expected.action)
    np.testing.assert_allclose(output.action_weights, expected.action_weights, atol=1e-6)
    found, wanted = nodes_of(tree), nodes_of(expected.search_tree)
    assert found.keys() == wanted.keys()
    for field, array in wanted.items():
        exact = np.issubdtype(array.dtype, np.integer)
        tolerance = {} if exact else {"rtol": 1e-6, "atol": 2e-6}
        np.testing.assert_allclose(found[field], array, **tolerance, err_msg=field)
    assert found[".edges"].shape[1] > 10


def test_chunks_are_whole_rounds() -> None:
    assert to_chunk(AlphaZero(85), 32) == AlphaZero(32)
    # Rounds of 10 and 7; a chunk has at least one round.
    for size in (1, 32):
        assert to_chunk(Dual((50, 35), 5), size) == Dual((10, 7), 1)
    assert to_chunk(Dual((50, 35), 5), 100) == Dual((50, 35), 5)
    # Rounds that differ are not separated.
    assert to_chunk(Dual((51, 35), 5), 32) == Dual((51, 35), 5)
    assert to_chunk(MPV((4, 4), (0, 0, 1, 1) * 2), 4) == MPV((2, 2), (0, 0, 1, 1))


def test_searches_that_plan_or_freeze_do_not_deepen() -> None:
    deepening = (AlphaZero(), Dual(), Chain(), MPV(), MuZero(), Contempt(frozen_visit_limit=None))
    assert all(map(can_deepen, deepening))
    assert not can_deepen(Gumbel())
    assert not can_deepen(Contempt(frozen_visit_limit=5))


def test_buckets_double() -> None:
    buckets = [to_bucket(Gumbel(), number, 16).num_simulations for number in (1, 16, 17, 100)]
    assert buckets == [16, 16, 32, 128]
