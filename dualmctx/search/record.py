"""The end of a simulation: the new node and the backup of its value."""

from typing import Any

from jax import Array

from dualmctx.search.arrays import synchronize
from dualmctx.search.backup import backup
from dualmctx.search.expand import insert_node
from dualmctx.search.tree import Tree
from dualmctx.types import NodeInit, Path


def record(
    tree: Tree,
    path: Path,
    new: NodeInit,
    is_new: Array | None,
    node_index: Array | int,
    is_active: Array | None = None,
    **options: Any,
) -> Tree:
    """Inserts the nodes at the ends of paths and backs up their values.

    Args:
      tree: the trees, with the embeddings of the new nodes.
      path: the last edge of each path.
      new: the evaluations at the ends of the paths.
      is_new: `[B]` bool, elements that get a new node; if `None`, those whose path ends at a node
        that does not exist yet.
      node_index: scalar, the slot for the new nodes.
      is_active: `[B]` bool, elements that may change; all if `None`.
      **options: further arguments of `backup`.

    Returns:
      The trees.
    """
    if is_new is None:
        is_new = path.child == Tree.UNVISITED
    tree, leaf = insert_node(tree, path, new, is_new, node_index)
    synchronize(tree.edges)  # The backup reads the new node.
    return backup(tree, leaf, is_active, **options)
