"""Kernels that run a function on each tree of a batch."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dualmctx.search.keys import is_per_element
from dualmctx.search.launch import launch
from dualmctx.search.references import with_fill
from dualmctx.search.threefry import TreeKey
from dualmctx.search.tree import Tree


class Result(NamedTuple):
    """The results of a kernel: the trees, the sums and the outputs."""

    tree: Tree
    sums: Any
    outputs: Any


def run_per_tree(
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
) -> Result:
    """Calls a function of a tree, its rows and its sums for each tree of the batch.

    The arguments are those of `launch`. `writes` tells whether the function writes to the tree; it
    may write to the sums in any case. It cannot read `root_invalid_actions`, which is `None`.
    """
    nodes = tree.replace(embeddings=None, extra_data=None, root_invalid_actions=None)

    def run(read: Any, rows: Any, updated: Any) -> Any:
        return function(_tree_of(updated[0] if writes else read), rows, updated[1])

    (updated, sums), found = launch(
        run,
        None if writes else nodes,
        rows,
        (nodes if writes else None, sums),
        outputs,
        name=name,
        lanes=max(
            lanes,
            tree.num_actions,
            *(x.size // x.shape[0] for x in jax.tree.leaves(rows) if x.ndim),
        ),
        interpret=interpret,
    )
    if writes:
        tree = updated.replace(
            embeddings=tree.embeddings,
            extra_data=tree.extra_data,
            root_invalid_actions=tree.root_invalid_actions,
        )
    return Result(tree, sums, found)


def run_per_row(
    function: Callable[[Any], Any],
    rows: Any,
    *,
    outputs: Any,
    name: str,
    lanes: int,
    interpret: bool,
) -> Any:
    """Calls a function of rows alone for each tree of the batch; the arguments are `launch`'s."""

    def run(_: None, rows: Any, __: None) -> Any:
        return function(rows)

    options: Any = {"name": name, "lanes": lanes, "interpret": interpret}
    return launch(run, None, rows, None, outputs, **options)[1]


def _tree_of(nodes: Tree) -> Tree:
    """Returns the tree that a program reads; entries past the last action are illegal actions."""
    prior = -np.inf if nodes.prior_is_logits else 0.0
    return nodes.replace(
        children_index=with_fill(nodes.children_index, Tree.UNVISITED),
        children_prior=with_fill(nodes.children_prior, prior),
    )


def key_words(rng_key: Array) -> tuple[Array, Array]:
    """Returns the two words of a key: scalars, or `[B]` for a key per element."""
    is_typed = jnp.issubdtype(rng_key.dtype, jax.dtypes.prng_key)
    data = jax.random.key_data(rng_key) if is_typed else rng_key
    return data[..., 0], data[..., 1]


def tree_key(rng_key: Array, words: tuple[Array, Array] | None) -> Any:
    """Returns the key of a program, from the words that it loaded.

    Without words, no rule reads the key, which is then arbitrary.
    """
    from jax.experimental import pallas

    element = jnp.full((1,), pallas.program_id(0), jnp.uint32)
    if words is None:
        words = jnp.zeros_like(element), jnp.zeros_like(element)
    return TreeKey(words, element, is_per_element(rng_key))
