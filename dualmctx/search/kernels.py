"""Kernels for GPUs: the walk, the new node with its backup, and climbs from many leaves.

XLA runs a loop whose length is not known in advance by asking the GPU after each iteration whether
to go on. A walk and a climb are such loops, so a simulation would wait for the host twice per
level. Here a kernel runs each of them as a whole, with one program per tree. The programs call the
functions that run on the other platforms as well, with references in place of arrays (see
`references`). The simulations are a loop of fixed length, so the engine never waits for the host in
a search with one tree and one leaf per step. The noise at the root, the game and the network may
have loops of their own.

Each function gives the same trees as the function of the same name in `select`, `record`,
`parallel_leaves` or `path_sums`. On a GPU, results may differ in their last bits, so that a choice
between nearly equal scores may differ.
"""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportAttributeAccessIssue=false

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import Array

from dualmctx.search import parallel_leaves, path_sums, select
from dualmctx.search.arrays import mask_lanes, row_length
from dualmctx.search.parallel_leaves import DescendFn, Leaves
from dualmctx.search.path_sums import Sums
from dualmctx.search.per_tree import key_words, run_per_tree, tree_key
from dualmctx.search.record import record as record_in_loops
from dualmctx.search.references import num_lanes
from dualmctx.search.rule_inputs import captures_arrays, find_inputs
from dualmctx.search.select import RowRule
from dualmctx.search.threefry import can_sample
from dualmctx.search.tree import Tree
from dualmctx.types import Kernels, NodeInit, Path, SelectFn

T = TypeVar("T")
# The largest position in an array that an int32 can hold.
_MAX_POSITION = 2**31 - 1


def choose(
    kernels: Kernels,
    tree: Tree,
    functions: tuple[Callable[..., T], Callable[..., T]],
    *args: Any,
    rng_key: Array | None = None,
    **options: Any,
) -> T:
    """Runs a kernel where the platform has kernels, and XLA's loops elsewhere.

    The platform is that for which the program is lowered. The loops run on all platforms if a
    kernel cannot address the arrays of the trees by int32, if the numbers in them have 16 bits (see
    `NodeInit.prior`), in 64-bit mode, if a kernel cannot sample with the key, and if a rule closes
    over an array or a traced number, such as a constant of exploration over which `jax.vmap` maps.

    Args:
      kernels: the option of the search, see `SearchSpec`.
      tree: the trees.
      functions: the function that runs the kernel and the one that runs the loops. The first has
        an additional argument `interpret`.
      *args: their arguments.
      rng_key: the key from which they sample; `None` if they do not.
      **options: their named arguments.

    Returns:
      The result of one of the two.
    """
    in_kernel, in_loops = functions
    # A process without a GPU needs no time to trace the kernels.
    is_elsewhere = kernels == "auto" and jax.default_backend() != "gpu"
    if kernels == "off" or is_elsewhere or not _is_possible(tree, rng_key):
        return in_loops(*args, **options)
    if captures_arrays(in_loops, args, options):
        return in_loops(*args, **options)
    if kernels == "interpret":
        return in_kernel(*args, **options, interpret=True)
    return jax.lax.platform_dependent(
        cuda=lambda: in_kernel(*args, **options), default=lambda: in_loops(*args, **options)
    )


def _is_possible(tree: Tree, rng_key: Array | None) -> bool:
    """Returns whether kernels can read the trees, and sample with the key if there is one."""
    # A statistic may have two numbers per edge.
    is_small = 2 * tree.children_prior.size <= _MAX_POSITION
    # Triton cannot divide numbers of 16 bits.
    is_wide = tree.children_prior.dtype.itemsize >= 4 and not jax.config.jax_enable_x64
    return is_small and is_wide and (rng_key is None or can_sample(rng_key))


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

    rows, pairs = (leaves, values, is_active), num_lanes(leaves.shape[1]) ** 2
    return run_per_tree(
        run, tree, rows, sums=sums, name="sum_paths", lanes=pairs, interpret=interpret
    ).sums
