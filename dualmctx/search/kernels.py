"""Kernels for GPUs: walks, new nodes with their backup, climbs from many leaves, noise at the root.

XLA runs a loop whose length is not known in advance by asking the GPU after each iteration whether
to go on. A walk and a climb are such loops, so a simulation would wait for the host twice per
level. Here a kernel runs each of them as a whole, with one program per tree. The programs call the
functions that run on the other platforms as well, with references in place of arrays (see
`references`). The simulations of a call are a loop of fixed length, so the engine never waits for
the host in a search with one tree and one leaf per step. The game and the network may have loops of
their own.

Each function gives the same result as the function of the same name in `select`, `backup`,
`parallel_leaves`, `climb` or `gamma`. On a GPU, results may differ in their last bits, so that a
choice between nearly equal scores may differ.
"""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportAttributeAccessIssue=false

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dualmctx.search import backup, climb, gamma, parallel_leaves
from dualmctx.search.arrays import mask_lanes
from dualmctx.search.climb import Sums
from dualmctx.search.node import join_arrays, split_arrays
from dualmctx.search.parallel_leaves import Leaves
from dualmctx.search.per_tree import key_words, run_per_row, run_per_tree, tree_key
from dualmctx.search.references import lane_index, num_lanes
from dualmctx.search.select import Descent
from dualmctx.search.tree import LastEdge, NodeInit, Tree

# `sum_paths` compares all leaves of a tree with each other; more leaves take several kernels.
_MAX_LEAVES = 64


def descend(
    rng_key: Array,
    tree: Tree,
    descent: Descent,
    is_active: Array | None = None,
    *,
    interpret: bool = False,
) -> LastEdge:
    """Descends as `descent` does."""
    arrays, others = split_arrays(descent)

    def walk(tree: Tree, rows: tuple[Any, ...], _: None) -> LastEdge:
        words, arrays, is_active = rows
        return join_arrays(arrays, others)(tree_key(rng_key, words), tree, is_active)

    shape: Any = jax.ShapeDtypeStruct(tree.edges.shape[:1], jnp.int32)
    outputs = LastEdge(*(shape,) * len(LastEdge._fields))
    # XLA then removes the splits of a key that nothing reads.
    rows = key_words(rng_key) if descent.samples else None, arrays, is_active
    return run_per_tree(
        walk, tree, rows, outputs=outputs, name="descend", interpret=interpret
    ).outputs


def insert_and_backup(
    tree: Tree,
    path: LastEdge,
    new: NodeInit,
    is_new: Array | None,
    node_index: Array | int,
    is_active: Array | None = None,
    *,
    interpret: bool = False,
    **options: Any,
) -> Tree:
    """Inserts and backs up as `backup.insert_and_backup`."""

    def run(tree: Tree, rows: tuple[Any, ...], _: None) -> None:
        backup.insert_and_backup(tree, *rows, **options)

    rows = path, new, is_new, jnp.asarray(node_index, jnp.int32), is_active
    return run_per_tree(
        run, tree, rows, writes=True, name="insert_and_backup", interpret=interpret
    ).tree


def select_leaves(
    rng_key: Array,
    tree: Tree,
    descent: Descent,
    first_slot: Array,
    limit: Array,
    *,
    num_leaves: int,
    interpret: bool = False,
    **options: Any,
) -> tuple[Tree, Leaves]:
    """Selects as `parallel_leaves.select_leaves`."""
    arrays, others = split_arrays(descent)

    def run(tree: Tree, rows: tuple[Any, ...], _: None) -> Leaves:
        words, arrays, first_slot, limit = rows
        inputs = tree_key(rng_key, words), tree, join_arrays(arrays, others), first_slot, limit
        return parallel_leaves.select_leaves(*inputs, num_leaves=num_leaves, **options)[1]

    shape: Any = jax.ShapeDtypeStruct((tree.edges.shape[0], num_leaves), jnp.int32)
    outputs = Leaves(*(shape,) * len(Leaves._fields))
    rows, name = (key_words(rng_key), arrays, first_slot, limit), "select_leaves"
    found = run_per_tree(
        run, tree, rows, outputs=outputs, writes=True, name=name, interpret=interpret
    )
    return found.tree, found.outputs._replace(is_new=found.outputs.is_new != 0)


def backup_parallel(
    tree: Tree, leaves: Leaves, *, tree_index: int = 0, interpret: bool = False
) -> Tree:
    """Backs up as `parallel_leaves.backup_parallel`."""
    num_leaves = leaves.node.shape[1]

    def run(tree: Tree, rows: Leaves, _: None) -> None:
        depth = mask_lanes(rows.depth, num_leaves, -1)
        parallel_leaves.backup_parallel(tree, rows._replace(depth=depth), tree_index=tree_index)

    name, pairs = "backup_parallel", num_lanes(num_leaves) ** 2
    return run_per_tree(
        run, tree, leaves, writes=True, name=name, lanes=pairs, interpret=interpret
    ).tree


def simulate_existing(
    rng_key: Array,
    tree: Tree,
    descent: Descent,
    first: Array,
    end: Array,
    *,
    interpret: bool = False,
    **options: Any,
) -> tuple[Tree, Array]:
    """Simulates as `backup.simulate_existing`."""
    arrays, others = split_arrays(descent)

    def run(tree: Tree, rows: tuple[Any, ...], _: None) -> Array:
        words, arrays, first, end = rows
        inputs = tree_key(rng_key, words), tree, join_arrays(arrays, others), first, end
        return backup.simulate_existing(*inputs, **options)[1]

    found = run_per_tree(
        run,
        tree,
        (key_words(rng_key), arrays, first, end),
        outputs=jax.ShapeDtypeStruct(first.shape, jnp.int32),
        writes=True,
        name="simulate_existing",
        interpret=interpret,
    )
    return found.tree, found.outputs


def sum_paths(
    tree: Tree,
    leaves: Array,
    values: Array,
    is_active: Array,
    sums: Sums,
    *,
    interpret: bool = False,
    **options: Any,
) -> Sums:
    """Adds paths as `climb.sum_paths`; the options are those of that function."""

    def run(tree: Tree, rows: tuple[Any, ...], sums: Sums) -> None:
        leaves, values, is_active = rows
        climb.sum_paths(tree, leaves, values, is_active, sums, **options)

    name = "sum_paths"
    for start in range(0, leaves.shape[1], _MAX_LEAVES):
        rows = tuple(x[:, start : start + _MAX_LEAVES] for x in (leaves, values, is_active))
        pairs = num_lanes(rows[0].shape[1]) ** 2
        sums = run_per_tree(
            run, tree, rows, sums=sums, name=name, lanes=pairs, interpret=interpret
        ).sums
    return sums


def log_gamma(rng_key: Array, alphas: Array, *, interpret: bool = False) -> Array:
    """Samples as `gamma.log_gamma`, in float32."""
    num = alphas.shape[1]

    def run(rows: tuple[Any, ...]) -> Array:
        words, own = rows
        key = tree_key(rng_key, words)
        lane = lane_index(own.shape, jnp.uint32)
        # One key of the batch is split into a key for each of its B·A numbers.
        first = np.uint32(0) if key.is_per_element else key.element[:, None] * np.uint32(num)
        return gamma.log_gamma_by_lane(key.lanes(first + lane), own)

    rows, outputs = (key_words(rng_key), alphas), jax.ShapeDtypeStruct(alphas.shape, alphas.dtype)
    return run_per_row(run, rows, outputs=outputs, name="log_gamma", lanes=num, interpret=interpret)
