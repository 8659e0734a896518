"""Kernels for GPUs: walks, new nodes with their backup, climbs from many leaves, noise at the root.

XLA runs a loop whose length is not known in advance by asking the GPU after each iteration whether
to go on. A walk and a climb are such loops, so a simulation would wait for the host twice per
level. Here a kernel runs each of them as a whole, with one program per tree. The programs call the
functions that run on the other platforms as well, with references in place of arrays (see
`references`). The simulations are a loop of fixed length, so the engine never waits for the host in
a search with one tree and one leaf per step. The game and the network may have loops of their own.

Each function gives the same result as the function of the same name in `select`, `record`,
`parallel_leaves`, `existing_ends`, `path_sums` or `gamma`. On a GPU, results may differ in their
last bits, so that a choice between nearly equal scores may differ.
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

from dualmctx.search import existing_ends, gamma, parallel_leaves, path_sums, select
from dualmctx.search.arrays import mask_lanes, row_length
from dualmctx.search.parallel_leaves import DescendFn, Leaves
from dualmctx.search.path_sums import Sums
from dualmctx.search.per_tree import key_words, run_per_row, run_per_tree, tree_key
from dualmctx.search.record import record as record_in_loops
from dualmctx.search.references import lane_index, num_lanes
from dualmctx.search.rule_inputs import find_inputs
from dualmctx.search.select import RowRule
from dualmctx.search.tree import Tree
from dualmctx.types import NodeInit, Path, SelectFn

# `sum_paths` compares all leaves of a tree with each other; more leaves take several kernels.
_MAX_LEAVES = 64


def descend(
    rng_key: Array,
    tree: Tree,
    root_select_fn: SelectFn,
    interior_select_fn: SelectFn,
    *,
    max_depth: int,
    tree_index: int = 0,
    is_active: Array | None = None,
    interpret: bool = False,
) -> Path:
    """Descends as `select.descend`; a root rule may be a `RowRule`."""
    root_rows = root_select_fn.rows if isinstance(root_select_fn, RowRule) else None
    is_read = find_inputs([root_select_fn, interior_select_fn], rng_key, tree)

    def walk(tree: Tree, rows: tuple[Any, ...], _: None) -> Path:
        words, own, is_active = rows
        if not is_read.invalid_actions:
            lanes = (1, row_length(tree.children_index))
            tree = tree.replace(root_invalid_actions=jnp.zeros(lanes, jnp.int32))
        at_root = root_select_fn
        if isinstance(at_root, RowRule):
            at_root = at_root._replace(rows=own)
        return select.descend(
            tree_key(rng_key, words),
            tree,
            at_root,
            interior_select_fn,
            max_depth=max_depth,
            tree_index=tree_index,
            is_active=is_active,
        )

    shape: Any = jax.ShapeDtypeStruct(tree.edges.shape[:1], jnp.int32)
    outputs = Path(*(shape,) * len(Path._fields))
    rows = key_words(rng_key) if is_read.key else None, root_rows, is_active
    return run_per_tree(
        walk,
        tree,
        rows,
        reads_invalid=is_read.invalid_actions,
        outputs=outputs,
        name="descend",
        interpret=interpret,
    ).outputs


def apply_at_root(rule: SelectFn, rng_key: Array, tree: Tree) -> RowRule:
    """Applies a rule at the roots; returns a rule that chooses these actions.

    The rule itself runs outside of the kernel, so it may close over arrays of the batch.
    """
    root = jnp.zeros(tree.edges.shape[0], jnp.int32)
    return RowRule(lambda action, *_: action, rule(rng_key, tree, root, jnp.int32(0)))


def record(
    tree: Tree,
    path: Path,
    new: NodeInit,
    is_new: Array | None,
    node_index: Array | int,
    is_active: Array | None = None,
    *,
    interpret: bool = False,
    **options: Any,
) -> Tree:
    """Records simulations as `record.record`."""

    def run(tree: Tree, rows: tuple[Any, ...], _: None) -> None:
        record_in_loops(tree, *rows, **options)

    rows = path, new, is_new, jnp.asarray(node_index, jnp.int32), is_active
    return run_per_tree(run, tree, rows, writes=True, name="record", interpret=interpret).tree


def select_leaves(
    rng_key: Array,
    tree: Tree,
    descend_fn: DescendFn,
    first_slot: Array,
    limit: Array,
    *,
    num_leaves: int,
    interpret: bool = False,
    **options: Any,
) -> tuple[Tree, Leaves]:
    """Selects as `parallel_leaves.select_leaves`."""

    def run(tree: Tree, rows: tuple[Any, ...], _: None) -> Leaves:
        words, first_slot, limit = rows
        inputs = tree_key(rng_key, words), tree, descend_fn, first_slot, limit
        return parallel_leaves.select_leaves(*inputs, num_leaves=num_leaves, **options)[1]

    shape: Any = jax.ShapeDtypeStruct((tree.edges.shape[0], num_leaves), jnp.int32)
    outputs = Leaves(*(shape,) * len(Leaves._fields))
    rows, name = (key_words(rng_key), first_slot, limit), "select_leaves"
    found = run_per_tree(
        run,
        tree,
        rows,
        reads_invalid=True,
        outputs=outputs,
        writes=True,
        name=name,
        interpret=interpret,
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
    descend_fn: DescendFn,
    first: Array,
    end: Array,
    *,
    interpret: bool = False,
    **options: Any,
) -> tuple[Tree, Array]:
    """Simulates as `existing_ends.simulate_existing`."""

    def run(tree: Tree, rows: tuple[Any, ...], _: None) -> Array:
        words, first, end = rows
        key = tree_key(rng_key, words)
        return existing_ends.simulate_existing(key, tree, descend_fn, first, end, **options)[1]

    found = run_per_tree(
        run,
        tree,
        (key_words(rng_key), first, end),
        reads_invalid=True,
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
    """Adds paths as `path_sums.sum_paths`; the options are those of that function."""

    def run(tree: Tree, rows: tuple[Any, ...], sums: Sums) -> None:
        leaves, values, is_active = rows
        path_sums.sum_paths(tree, leaves, values, is_active, sums, **options)

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
