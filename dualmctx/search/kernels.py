"""Kernels for GPUs: the walk, the new node with its backup, and climbs from many leaves.

XLA runs a loop whose length is not known in advance by asking the GPU after each iteration whether
to go on. A walk and a climb are such loops, so a simulation would wait for the host twice per
level. Here a kernel runs each of them as a whole, with one program per tree. The programs call the
functions that run on the other platforms as well, with references in place of arrays (see
`references`). The simulations are a loop of fixed length, so a search with one tree and one leaf
per step never waits for the host.

Each function equals the one of the same name in another module, whole trees included; on a GPU,
sums over actions may be rounded differently.
"""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dualmctx.search import parallel_leaves, path_sums, select
from dualmctx.search.arrays import mask_lanes, synchronize
from dualmctx.search.backup import backup
from dualmctx.search.expand import insert_node
from dualmctx.search.keys import is_per_element
from dualmctx.search.launch import launch
from dualmctx.search.parallel_leaves import Leaves
from dualmctx.search.path_sums import Sums
from dualmctx.search.references import num_lanes, with_fill
from dualmctx.search.threefry import TreeKey, can_sample
from dualmctx.search.tree import Tree
from dualmctx.types import Kernels, NodeInit, Path, SelectFn

T = TypeVar("T")
# The largest position in an array that an int32 can hold.
_MAX_POSITION = 2**31 - 1


def choose(
    kernels: Kernels,
    rng_key: Array | None,
    tree: Tree,
    run_kernel: Callable[[bool], T],
    run_loops: Callable[[], T],
) -> T:
    """Runs a kernel where the platform has kernels, and XLA's loops elsewhere.

    The platform is that for which the program is lowered. If a kernel cannot address the arrays of
    the trees by int32, or cannot sample the numbers of `jax.random` with the key, the loops run on
    all platforms.

    Args:
      kernels: the option of the search, see `SearchSpec`.
      rng_key: the key from which the kernel samples; `None` if it does not.
      tree: the trees.
      run_kernel: runs the kernel; called with true if it is to be interpreted.
      run_loops: runs the same computation by XLA's loops.

    Returns:
      The result of one of the two.
    """
    # With several statistics, arrays have up to two numbers per edge.
    is_possible = 2 * tree.children_prior.size <= _MAX_POSITION
    is_possible &= rng_key is None or can_sample(rng_key)
    if kernels == "off" or not is_possible:
        return run_loops()
    if kernels == "interpret":
        return run_kernel(True)
    # A process without a GPU needs no time to trace the kernels.
    if kernels == "auto" and jax.default_backend() != "gpu":
        return run_loops()
    return jax.lax.platform_dependent(cuda=lambda: run_kernel(False), default=run_loops)


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
    """Descends as `select.descend`.

    A root rule that differs from the rule below the root runs before the kernel, because it may
    close over arrays of the batch.
    """
    is_same = root_select_fn is interior_select_fn
    root = jnp.zeros(tree.edges.shape[0], jnp.int32)
    first = None if is_same else root_select_fn(rng_key, tree, root, jnp.int32(0))

    def walk(tree: Tree, rows: tuple[Any, ...], _: None) -> Path:
        words, action, is_active = rows

        def take_first(rng_key: Any, tree: Any, node_index: Any, depth: Any) -> Array:
            del rng_key, tree, node_index, depth
            return action

        return select.descend(
            _tree_key(rng_key, words),
            tree,
            interior_select_fn if is_same else take_first,
            interior_select_fn,
            max_depth=max_depth,
            tree_index=tree_index,
            is_active=_as_mask(is_active),
        )

    shape: Any = jax.ShapeDtypeStruct(root.shape, root.dtype)
    outputs = Path(*(shape,) * len(Path._fields))
    rows = _key_words(rng_key), first, is_active
    return _run(walk, tree, rows, outputs=outputs, name="descend", interpret=interpret).outputs


def record(
    tree: Tree,
    path: Path,
    new: NodeInit,
    is_new: Array,
    node_index: Array | int,
    is_active: Array | None = None,
    *,
    interpret: bool = False,
    **options: Any,
) -> Tree:
    """Inserts the new nodes as `expand.insert_node`, and backs them up as `backup.backup`.

    The options are those of `backup.backup`.
    """

    def grow(tree: Tree, rows: tuple[Any, ...], _: None) -> None:
        path, new, is_new, node_index, is_active = rows
        tree, leaf = insert_node(tree, path, new, is_new != 0, node_index)
        synchronize(tree.edges)  # The backup reads the new node.
        backup(tree, leaf, _as_mask(is_active), **options)

    rows = path, new, is_new, jnp.asarray(node_index, jnp.int32), is_active
    return _run(grow, tree, rows, writes=True, name="record", interpret=interpret).tree


def select_leaves(
    rng_key: Array,
    tree: Tree,
    select_fn: SelectFn,
    first_slot: Array,
    limit: Array,
    *,
    max_depth: int,
    num_leaves: int,
    tree_index: int = 0,
    interpret: bool = False,
    **options: Any,
) -> tuple[Tree, Leaves]:
    """Selects as `parallel_leaves.select_leaves`, by one rule at all nodes."""

    def walk(rng_key: Array, tree: Tree, is_active: Array) -> Path:
        limits: dict[str, Any] = {"max_depth": max_depth, "tree_index": tree_index}
        return select.descend(rng_key, tree, select_fn, select_fn, **limits, is_active=is_active)

    def run(tree: Tree, rows: tuple[Any, ...], _: None) -> Leaves:
        words, first_slot, limit = rows
        arguments = _tree_key(rng_key, words), tree, walk, first_slot, limit
        options.update(num_leaves=num_leaves, tree_index=tree_index)
        return parallel_leaves.select_leaves(*arguments, **options)[1]

    shape: Any = jax.ShapeDtypeStruct((tree.edges.shape[0], num_leaves), jnp.int32)
    outputs = Leaves(*(shape,) * len(Leaves._fields))
    rows, name = (_key_words(rng_key), first_slot, limit), "select_leaves"
    found = _run(run, tree, rows, outputs=outputs, writes=True, name=name, interpret=interpret)
    return found.tree, found.outputs._replace(is_new=found.outputs.is_new != 0)


def backup_parallel(
    tree: Tree, leaves: Leaves, *, tree_index: int = 0, interpret: bool = False
) -> Tree:
    """Backs up as `parallel_leaves.backup_parallel`."""
    num_leaves = leaves.node.shape[1]

    def run(tree: Tree, rows: Leaves, _: None) -> None:
        depth = mask_lanes(rows.depth, num_leaves, -1)
        own = rows._replace(depth=depth, is_new=rows.is_new != 0)
        parallel_leaves.backup_parallel(tree, own, tree_index=tree_index)

    name, pairs = "backup_parallel", num_lanes(num_leaves) ** 2
    return _run(run, tree, leaves, writes=True, name=name, lanes=pairs, interpret=interpret).tree


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
        path_sums.sum_paths(tree, leaves, values, is_active != 0, sums, **options)

    rows, pairs = (leaves, values, is_active), num_lanes(leaves.shape[1]) ** 2
    return _run(run, tree, rows, sums=sums, name="sum_paths", lanes=pairs, interpret=interpret).sums


class _Result(NamedTuple):
    """The results of a kernel: the trees, the sums and the outputs."""

    tree: Tree
    sums: Any
    outputs: Any


def _run(
    function: Callable[[Tree, Any, Any], Any],
    tree: Tree,
    rows: Any,
    *,
    name: str,
    interpret: bool,
    lanes: int = 0,
    writes: bool = False,
    sums: Any = None,
    outputs: Any = None,
) -> _Result:
    """Calls a function of a tree, its rows and its sums for each tree of the batch.

    The arguments are those of `launch`. `writes` tells whether the function writes to the tree; it
    may write to the sums in any case.
    """
    nodes = tree.replace(embeddings=None, extra_data=None, root_invalid_actions=None)

    def run(read: Any, rows: Any, updated: Any) -> Any:
        own_rows, invalid = rows
        own_tree = _tree_of(updated[0] if writes else read, invalid)
        return function(own_tree, own_rows, updated[1])

    (updated, sums), found = launch(
        run,
        None if writes else nodes,
        (rows, tree.root_invalid_actions),
        (nodes if writes else None, sums),
        outputs,
        name=name,
        lanes=max(lanes, tree.num_actions),
        interpret=interpret,
    )
    if writes:
        tree = updated.replace(
            embeddings=tree.embeddings,
            extra_data=tree.extra_data,
            root_invalid_actions=tree.root_invalid_actions,
        )
    return _Result(tree, sums, found)


def _tree_of(nodes: Tree, root_invalid_actions: Array) -> Tree:
    """Returns the tree of a program; past the last action, rows are those of illegal actions."""
    prior = -np.inf if nodes.prior_is_logits else 0.0
    return nodes.replace(
        children_index=with_fill(nodes.children_index, Tree.UNVISITED),
        children_prior=with_fill(nodes.children_prior, prior),
        root_invalid_actions=mask_lanes(root_invalid_actions, nodes.num_actions, 1),
    )


def _as_mask(numbers: Array | None) -> Array | None:
    """Returns a mask that a kernel loaded as numbers."""
    return None if numbers is None else numbers != 0


def _key_words(rng_key: Array) -> tuple[Array, Array]:
    """Returns the two words of a key: scalars, or `[B]` for a key per element."""
    is_typed = jnp.issubdtype(rng_key.dtype, jax.dtypes.prng_key)
    data = jax.random.key_data(rng_key) if is_typed else rng_key
    return data[..., 0], data[..., 1]


def _tree_key(rng_key: Array, words: tuple[Array, Array]) -> Any:
    """Returns the key of a program, from the words that it loaded."""
    from jax.experimental import pallas

    element = jnp.full((1,), pallas.program_id(0), jnp.uint32)
    return TreeKey(words, element, is_per_element(rng_key))
