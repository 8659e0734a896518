"""The frontier: the next nodes for a later tree, compared with a sort in Python."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dualmctx.search.expand import allocate
from dualmctx.search.refine import frontier
from dualmctx.search.tree import Tree, replace_stats

BATCH, NODES, LAYERS = 5, 40, 3


def tree_with_visits(visits: np.ndarray, *, windowed: bool) -> Tree:
    """Makes trees with the given `[LAYERS, B, N]` node visits."""
    zeros = jnp.zeros(BATCH)
    tree = allocate(
        jnp.full((BATCH, 2), 0.5),
        zeros,
        zeros,
        num_nodes=NODES,
        num_trees=LAYERS,
        windowed=windowed,
    )
    for tree_index, counts in enumerate(visits):
        stats = tree.stats[tree_index]
        if windowed:
            # A window reduces visits, but not the counts used here.
            stats = stats.replace(path_visits=counts)
            counts = np.minimum(counts, 1)
        stats = stats.replace(node_stats=stats.node_stats.at[..., 0].set(counts))
        tree = replace_stats(tree, tree_index, stats)
    return tree


def in_order(visits: np.ndarray, tree_index: int) -> list[list[int]]:
    """Sorts the nodes that are visited by another tree and not yet by this one."""
    others = [i for i in range(LAYERS) if i != tree_index]
    return [
        sorted(
            (
                n
                for n in range(NODES)
                if visits[tree_index, b, n] == 0 and visits[others, b, n].any()
            ),
            key=lambda n: (*(-visits[i, b, n] for i in reversed(range(tree_index))), n),
        )
        for b in range(BATCH)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scale", "tree_index", "windowed"),
    [(1, 1, False), (1_000, 2, True), (1_000_000, 2, False), (1_000_000, 1, True)],
)
def test_frontier_matches_sorting(scale: int, tree_index: int, windowed: bool) -> None:
    """Covers counts that fit into one packed number and counts that do not."""
    rng = np.random.default_rng(scale + tree_index)
    counts = np.maximum(rng.integers(-4, 4, (LAYERS, BATCH, NODES)), 0)
    visits = (scale * counts).astype(np.int32)
    # The last element of the batch has almost no waiting nodes.
    visits[:, -1, 2:] = 0
    expected = in_order(visits, tree_index)
    assert min(map(len, expected)) < 10 < max(map(len, expected))
    tree = tree_with_visits(visits, windowed=windowed)
    leaves, is_valid = jax.jit(lambda tree: frontier(tree, 10, tree_index=tree_index))(tree)
    for row, valid, nodes in zip(leaves, is_valid, expected, strict=True):
        assert row[valid].tolist() == nodes[:10]
        assert len(set(row.tolist())) == 10
        assert not np.any(valid[len(nodes) :])
