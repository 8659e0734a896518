"""Launches of kernels: a function of one tree becomes a GPU kernel with one program per tree.

The kernels are Pallas kernels for Triton. JAX has announced that it will remove this backend; its
authors name `jax_triton` as the successor. A port changes this module and `TreeRef` only: `launch`
becomes a call of `jax_triton.triton_call` with one program per tree, the same aliases between
inputs and outputs and the same number of warps, and the loads, stores and barriers of `TreeRef`
become those of `triton.language`. As `jax_triton` does not trace JAX, the functions that the
kernels call would also need a translation of their jaxprs, or a second version in that language.
The alternative that the authors of Pallas name, Mosaic GPU, is made for tiles of matrices and not
for walks along pointers.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dualmctx.search.gpu.random import TreeKey
from dualmctx.search.gpu.references import TreeRef, with_fill
from dualmctx.search.keys import is_per_element
from dualmctx.search.tree import Tree


def launch(
    function: Callable[[Any, Any, Any], Any],
    read: Any,
    rows: Any,
    updated: Any,
    outputs: Any,
    *,
    name: str,
    lanes: int,
    interpret: bool = False,
) -> tuple[Any, Any]:
    """Calls a function once for each tree of a batch, in one kernel.

    Args:
      function: called with the three pytrees below. In place of each array of `read` and `updated`
        it gets a `TreeRef`; in place of each array of `rows`, the row of its tree, `[1]` or
        `[1, L]`, padded with zeros or false. It writes to the references in `updated` and returns
        the outputs as rows of the same form.
      read: a pytree of `[B, N, ...]` arrays.
      rows: a pytree of `[B]`, `[B, L]` and scalar arrays.
      updated: a pytree of `[B, N, ...]` arrays, which the kernel may change in place.
      outputs: the shapes and types of the outputs, a pytree of `[B]` or `[B, L]`.
      name: the name of the kernel in a profile.
      lanes: the length of the longest vector; it determines the number of warps.
      interpret: whether XLA operations interpret the kernel, on any platform.

    Returns:
      The updated arrays and the outputs.
    """
    from jax.experimental import pallas
    from jax.experimental.pallas import triton

    changed, changed_def = jax.tree.flatten(updated)
    kept, kept_def = jax.tree.flatten(read)
    row_leaves, rows_def = jax.tree.flatten(rows)
    is_mask = [row.dtype == jnp.bool_ for row in row_leaves]
    row_leaves = [x.astype(jnp.int32) if y else x for x, y in zip(row_leaves, is_mask, strict=True)]
    out_leaves, out_def = jax.tree.flatten(outputs)
    num_inputs = len(changed) + len(kept) + len(row_leaves)

    def kernel(*refs: Any) -> None:
        def refer(ref: Any, array: Any, shape: tuple[int, ...]) -> TreeRef:
            first = pallas.program_id(0) * math.prod(shape) if array.ndim else jnp.int32(0)
            return TreeRef(ref, first, (1, *shape), interpret=interpret)

        def refer_row(ref: Any, row: Any) -> TreeRef:
            return refer(ref, row, (1, *row.shape[1:]))

        def refer_node(ref: Any, array: Any) -> TreeRef:
            return refer(ref, array, array.shape[1:])

        inputs, results = refs[len(changed) : num_inputs], refs[num_inputs:]
        in_place = map(refer_node, results, changed)
        fixed = map(refer_node, inputs, kept)
        found_rows = map(lambda *x: refer_row(*x).gather(0), inputs[len(kept) :], row_leaves)
        values = [x != 0 if y else x for x, y in zip(found_rows, is_mask, strict=True)]
        found = function(
            jax.tree.unflatten(kept_def, list(fixed)),
            jax.tree.unflatten(rows_def, values),
            jax.tree.unflatten(changed_def, list(in_place)),
        )
        for ref, leaf, value in zip(
            results[len(changed) :], out_leaves, jax.tree.leaves(found), strict=True
        ):
            refer_row(ref, leaf).scatter(0, value)

    batch_size = (changed or kept or out_leaves)[0].shape[0]
    operands: list[Array] = [array.reshape(-1) for array in (*changed, *kept, *row_leaves)]
    flat = [(x.size, x.dtype) for x in (*changed, *out_leaves)]
    memory = pallas.BlockSpec(memory_space=pallas.ANY)
    results: list[Array] = pallas.pallas_call(
        kernel,
        grid=(batch_size,),
        in_specs=[memory] * len(operands),
        out_specs=[memory] * len(flat),
        out_shape=[jax.ShapeDtypeStruct((size,), dtype) for size, dtype in flat],
        input_output_aliases={i: i for i in range(len(changed))},
        compiler_params=triton.CompilerParams(num_warps=_num_warps(lanes), num_stages=1),
        interpret=interpret,
        name=name,
    )(*operands)
    leaves = (*changed, *out_leaves)
    shaped = [x.reshape(y.shape) for x, y in zip(results, leaves, strict=True)]
    return (
        jax.tree.unflatten(changed_def, shaped[: len(changed)]),
        jax.tree.unflatten(out_def, shaped[len(changed) :]),
    )


def _num_warps(lanes: int) -> int:
    """Returns the warps of a program; more for longer vectors."""
    return 1 if lanes <= 128 else 2 if lanes <= 512 else 4 if lanes <= 2048 else 8


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
