"""Simulations that end at existing nodes, which need no evaluation.

In a search with several trees, a later tree runs ordinary simulations once it has evaluated all
nodes. If the first tree has the larger budget, this happens mostly near the end of a game, where
nearly all of these simulations end at terminal nodes.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from dualmctx.search.arrays import any_true, synchronize
from dualmctx.search.backup import backup
from dualmctx.search.keys import fold_in_key, select_key
from dualmctx.search.select import Descent
from dualmctx.search.tree import Tree


def simulate_existing(
    rng_key: Array,
    tree: Tree,
    descent: Descent,
    first: Array,
    end: Array,
    **options: Any,
) -> tuple[Tree, Array]:
    """Runs simulations in each tree until one would need a new node.

    Args:
      rng_key: consumed; simulation j selects with the key that `simulate` derives from
        `fold_in_key(rng_key, j)`.
      tree: the trees.
      descent: descends from the roots.
      first: `[B]` int32, the number of the first simulation of each tree, at most `end`.
      end: scalar int32; all simulations have smaller numbers.
      **options: further arguments of `backup`.

    Returns:
      The trees; and `[B]` int32, the first simulation of each tree that needs a new node, or `end`.
    """

    def body(carry: tuple[Array, Tree, Array]) -> tuple[Array, Tree, Array]:
        number, tree, next_number = carry
        synchronize(tree.edges)  # The walk reads the backup of the simulation before.
        key = select_key(fold_in_key(rng_key, number))
        is_active = next_number == number
        path = descent(key, tree, is_active)
        is_active &= path.child != Tree.UNVISITED
        tree = backup(tree, jnp.maximum(path.child, 0), is_active, **options)
        return number + 1, tree, jnp.where(is_active, number + 1, next_number)

    def is_running(carry: tuple[Array, Tree, Array]) -> Array:
        number, _, next_number = carry
        return any_true((next_number >= number) & (number < end))

    _, tree, next_number = jax.lax.while_loop(is_running, body, (jnp.min(first), tree, first))
    return tree, next_number
