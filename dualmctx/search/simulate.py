"""Simulations, one at a time or several at once, and the search of one tree."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
from jax import Array

from dualmctx.search.backup import backup
from dualmctx.search.expand import expand
from dualmctx.search.keys import split_key
from dualmctx.search.parallel_leaves import backup_parallel, expand_leaves, select_leaves
from dualmctx.search.select import descend
from dualmctx.search.statistics import Statistic
from dualmctx.search.tree import Tree
from dualmctx.types import EvaluateFn, Params, Path, SelectFn


class SearchSpec(NamedTuple):
    """The functions and limits of the simulations of one tree.

    Attributes:
      evaluate_fn: plays an action and evaluates the resulting state.
      root_select_fn: the selection rule at the root.
      interior_select_fn: the selection rule below the root.
      max_depth: the largest number of edges of a simulation.
      window: the number of edges that a backup updates; `None` for all.
      tree_index: the tree that grows.
      leaves_per_step: K, the largest number of simulations that `search` runs at once; must be 1
        with a window or with statistics.
      statistics: the additional statistics of the tree, as in `add_statistics`.
      virtual_loss: n_vl; with K > 1, a leaf counts as this many lost visits until its value is
        known. 0 for one visit that leaves Q unchanged.
    """

    evaluate_fn: EvaluateFn
    root_select_fn: SelectFn
    interior_select_fn: SelectFn
    max_depth: int
    window: int | None = None
    tree_index: int = 0
    leaves_per_step: int = 1
    statistics: tuple[Statistic, ...] = ()
    virtual_loss: int = 0

    def descend(self, rng_key: Array, tree: Tree, is_active: Array | None = None) -> Path:
        """Calls `select.descend` with the rules and limits of this record; consumes the key."""
        return descend(
            rng_key,
            tree,
            self.root_select_fn,
            self.interior_select_fn,
            max_depth=self.max_depth,
            tree_index=self.tree_index,
            is_active=is_active,
        )


def simulate(
    params: Params,
    rng_key: Array,
    tree: Tree,
    spec: SearchSpec,
    node_index: Array | int,
    is_active: Array | None = None,
) -> tuple[Array, Tree]:
    """Runs one simulation: select, expand, back up.

    Args:
      params: passed on to the evaluation.
      rng_key: consumed; split as `mctx.search` splits it.
      tree: the trees.
      spec: the simulations of the tree.
      node_index: scalar, the slot for a new node.
      is_active: `[B]` bool, elements that may change; all if `None`.

    Returns:
      A new key and the trees.
    """
    rng_key, select_key, expand_key = split_key(rng_key, 3)
    path = spec.descend(select_key, tree)
    tree, leaf = expand(params, expand_key, tree, spec.evaluate_fn, path, node_index, is_active)
    tree = backup(
        tree,
        leaf,
        is_active,
        window=spec.window,
        statistics=spec.statistics,
        tree_index=spec.tree_index,
    )
    return rng_key, tree


def simulate_parallel(
    params: Params,
    rng_key: Array,
    tree: Tree,
    spec: SearchSpec,
    first_slot: Array,
    limit: Array,
) -> tuple[Array, Tree, Array]:
    """Runs up to K simulations of each root with one batched evaluation.

    Args:
      params: passed on to the evaluation.
      rng_key: consumed; split as by `simulate`.
      tree: the trees.
      spec: the simulations of the tree, with K leaves per step and without a window.
      first_slot: `[B]` int32; this slot and all later ones are empty.
      limit: `[B]` int32, the largest number of simulations of each root; 0 for a tree that must not
        change.

    Returns:
      A new key; the trees; and `[B]` int32, the number of simulations of each root: at least 1 if
      the limit is at least 1, and fewer than K if a descent ended at a leaf of the same step.
    """
    tree_index = spec.tree_index
    rng_key, select_key, expand_key = split_key(rng_key, 3)
    tree, leaves = select_leaves(
        select_key,
        tree,
        spec.descend,
        first_slot,
        limit,
        num_leaves=spec.leaves_per_step,
        virtual_loss=spec.virtual_loss,
        tree_index=tree_index,
    )
    tree = expand_leaves(params, expand_key, tree, spec.evaluate_fn, leaves)
    return rng_key, backup_parallel(tree, leaves, tree_index=tree_index), leaves.num_simulations


def search(
    params: Params,
    rng_key: Array,
    tree: Tree,
    spec: SearchSpec,
    num_simulations: int,
    *,
    first_slot: int = 1,
) -> Tree:
    """Runs simulations on one tree; simulation i, from 0, writes slot `first_slot + i`.

    With several leaves per step, trees need different numbers of steps. A tree whose simulations
    are complete does not change while others continue.

    Args:
      params: passed on to the evaluation.
      rng_key: consumed.
      tree: trees that hold their roots, with room for `num_simulations` more nodes.
      spec: the simulations of the tree.
      num_simulations: simulations of each tree, at least 1.
      first_slot: this slot and all later ones are empty.

    Returns:
      The trees after the search.
    """
    chex.assert_scalar_in(first_slot + num_simulations, 1, tree.num_nodes)

    def simulate_one(i: Array, carry: tuple[Array, Tree]) -> tuple[Array, Tree]:
        return simulate(params, *carry, spec, first_slot + i)

    if spec.leaves_per_step == 1:
        return jax.lax.fori_loop(0, num_simulations, simulate_one, (rng_key, tree))[1]
    spec = spec._replace(leaves_per_step=min(spec.leaves_per_step, num_simulations))

    def step(carry: tuple[Array, Tree, Array]) -> tuple[Array, Tree, Array]:
        rng_key, tree, done = carry
        slot, limit = first_slot + done, num_simulations - done
        rng_key, tree, number = simulate_parallel(params, rng_key, tree, spec, slot, limit)
        return rng_key, tree, done + number

    carry = rng_key, tree, jnp.zeros(tree.edges.shape[0], jnp.int32)
    return jax.lax.while_loop(lambda carry: jnp.any(carry[2] < num_simulations), step, carry)[1]
