"""Trees of many positions in the memory of a device, which searches continue."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dualmctx.distributed.devices import free_memory
from dualmctx.errors import UserError
from dualmctx.evaluation.evaluations import (
    Evaluations,
    evaluate_heads,
    position_keys,
    read_decision,
    to_evaluations,
)
from dualmctx.evaluation.factory import state_shapes
from dualmctx.models.search_fn import make_search_fn
from dualmctx.models.search_memory import num_bytes as size_in_bytes
from dualmctx.policies import with_options
from dualmctx.runs.saved_network import Trained, model_kwargs_of
from dualmctx.search.node import Node
from dualmctx.search.subtree import compact_tree, empty_tree, get_subtree
from dualmctx.search.tree import Tree
from dualmctx.serving.tasks import EngineOptions, total_simulations
from dualmctx.training.memory_budget import readable, require_batch_memory
from dualmctx.types import Policy


class Rows(NamedTuple):
    """The memory of a pool: positions and their trees, `[P, ...]` each."""

    states: Any
    trees: Tree


def _read(rows: Any, index: Array) -> Any:
    return jax.tree.map(lambda x: x.at[index].get(mode="clip"), rows)


def _write(rows: Any, index: Array, values: Any) -> Any:
    def write(array: Array, new: Array) -> Array:
        # A row that does not exist is not written.
        return array.at[index].set(new.astype(array.dtype), mode="drop")

    return jax.tree.map(write, rows, values)


def _chunk_keys(rng_keys: Array, number: Array) -> Array:
    """Returns the keys of a chunk; the first chunk has the keys of a search of its own."""
    folded = jax.vmap(jax.random.fold_in)(rng_keys, number)
    return jnp.where((number == 0)[:, None], rng_keys, folded)


def _count(tree: Tree) -> Array:
    """Returns `[B]` int32, the simulations of all trees that passed through an action."""
    nodes = [Node(tree, Tree.ROOT_INDEX, tree_index=i) for i in range(len(tree.stats))]
    passes = [jnp.sum(node.passes, axis=-1) for node in nodes]
    return jnp.sum(jnp.stack(passes), axis=0).astype(jnp.int32)


class PoolSize(NamedTuple):
    """The size of a pool.

    Attributes:
      capacity: the largest number of simulations of a tree, a multiple of those of a chunk.
      num_rows: P, the number of trees.
      shapes: the shapes of one row; `None` to find them by tracing a search.
    """

    capacity: int
    num_rows: int
    shapes: Any = None


def choose_pool_size(trained: Trained, chunk: Policy, options: EngineOptions) -> PoolSize:
    """Chooses the size of a pool for the memory for trees.

    Trees have room for the largest number of simulations, rounded up to whole chunks, or for as
    many as let two batches of trees fit. If more trees fit, there are more.

    Args:
      trained: the network with its game.
      chunk: the search of a chunk.
      options: the options of the searches.

    Raises:
      ValueError: if two batches of trees with one chunk do not fit; the message has the remedy.
    """
    step, num_bytes = total_simulations(chunk), options.tree_memory
    num_trees = 2 * options.batch_size
    largest = -(-options.max_simulations // step) * step
    shapes = _row_shapes(trained, chunk, largest)
    per_node = -(-size_in_bytes(shapes) // (1 + largest))
    fitting = num_bytes // (num_trees * per_node) - 1
    if fitting < step:
        needed = num_trees * per_node * (1 + step)
        raise UserError(
            f"{num_trees} trees of {step} simulations need {readable(needed)}, and the server"
            f" has {readable(num_bytes)} for them: start it with a larger --tree-memory or a"
            " smaller --batch"
        )
    capacity = min(largest, fitting // step * step)
    num_rows = num_bytes // (per_node * (1 + capacity))
    return PoolSize(capacity, num_rows, shapes if capacity == largest else None)


class TreePool:
    """Trees of P positions on one device, and the programs that deepen them in batches of B.

    The trees are arrays of a fixed size, so the pool never grows. A row that does not exist, such
    as P, stands for no row in the arguments of the methods.

    Attributes:
      capacity: the largest number of simulations of a position.
      batch_size: B.
      num_rows: P.
    """

    def __init__(
        self, trained: Trained, chunk: Policy, size: PoolSize, options: EngineOptions
    ) -> None:
        """Allocates the trees and compiles the programs, which must fit into memory.

        `chunk` is the search of a chunk, see `tasks.to_chunk`; B is at most half of the trees.
        """
        batch_size, seed = options.batch_size, options.seed
        self.capacity, self.num_rows, self.batch_size = size.capacity, size.num_rows, batch_size
        self._trained, policy = trained, with_options(chunk, reuse_capacity=self.capacity)
        self._search_fn = make_search_fn(
            trained.env, trained.network, policy, **_model_options(trained)
        )
        shapes = size.shapes or _row_shapes(trained, chunk, self.capacity)
        self._inputs = jax.device_put((trained.params, jax.random.PRNGKey(seed)))
        self._rows: Rows = jax.jit(lambda: jax.tree.map(self._zeros, shapes))()
        index = jax.ShapeDtypeStruct((), np.int32)
        indices = jax.ShapeDtypeStruct((batch_size,), np.int32)
        digests = jax.ShapeDtypeStruct((batch_size, 2), np.uint32)
        arguments = {
            self._deepen_rows: (self._inputs, indices, digests, indices),
            self._place_rows: (indices, state_shapes(trained.env, batch_size)),
            self._advance_row: (index, index, index),
        }
        self._deepen, self._place, self._advance = _compile(arguments, self._rows)
        _check_memory(self._deepen, batch_size)

    def _zeros(self, shape: Any) -> Array:
        return jnp.zeros((self.num_rows, *shape.shape[1:]), shape.dtype)

    # The compiled functions; the first argument is the memory of the pool, which they replace.

    def _place_rows(self, rows: Rows, index: Array, states: Any) -> Rows:
        """Writes `[B]` states with empty trees."""
        empty = jax.tree.map(lambda x: jnp.zeros((len(index), *x.shape[1:]), x.dtype), rows.trees)
        return _write(rows, index, Rows(states, empty))

    def _advance_row(
        self, rows: Rows, source: Array, target: Array, action: Array
    ) -> tuple[Rows, Array]:
        """Copies the subtree below an action; also returns its simulations."""
        tree = _read(rows.trees, source[None])
        subtree = get_subtree(tree, action[None], reuse_capacity=self.capacity)
        trees = _write(rows.trees, target[None], subtree)
        return rows._replace(trees=trees), _count(subtree)[0]

    def _deepen_rows(
        self, rows: Rows, inputs: Any, index: Array, digests: Array, number: Array
    ) -> tuple[Rows, Any]:
        """Adds a chunk of simulations to `[B]` trees; see `deepen`."""
        params, rng_key = inputs
        states, trees = _read(rows, index)
        keys = _chunk_keys(position_keys(rng_key, digests), number)
        output = self._search_fn(params, keys, states, trees)
        tree: Any = output.search_tree
        heads = evaluate_heads(self._trained.network, params, states)
        decision = read_decision(output, self._trained.env.num_actions)
        evaluations = to_evaluations(states, heads, decision)
        kept = compact_tree(tree, reuse_capacity=self.capacity)
        rows = rows._replace(trees=_write(rows.trees, index, kept))
        return rows, (evaluations, _count(tree))

    def place(self, rows: np.ndarray, states: Any) -> None:
        """Writes `[B]` states to `[B]` rows, with empty trees."""
        self._rows = self._place(self._rows, rows.astype(np.int32), states)

    def advance(self, source: int, target: int, action: int) -> int:
        """Copies the tree below an action of a row to a row, which may be the same one.

        Returns:
          The simulations of the copy, which is empty if the search has not visited the action.
        """
        indices = (np.int32(x) for x in (source, target, action))
        self._rows, simulations = self._advance(self._rows, *indices)
        return int(simulations)

    def deepen(
        self, rows: np.ndarray, digests: np.ndarray, number: np.ndarray
    ) -> tuple[Evaluations, Array]:
        """Adds a chunk of simulations to `[B]` rows, which must differ if they exist.

        Args:
          rows: `[B]` rows.
          digests: `[B, 2]` digests of the ids, from which the random keys are derived.
          number: `[B]` number of chunks before this one, which changes the keys.

        Returns:
          The evaluations, which describe the whole trees, and `[B]` int32 simulations of all trees
          of a position together; on the device, without waiting for it.
        """
        rows, number = rows.astype(np.int32), number.astype(np.int32)
        self._rows, deepened = self._deepen(self._rows, self._inputs, rows, digests, number)
        return deepened


def _compile(functions: dict[Any, tuple[Any, ...]], rows: Rows) -> list[Any]:
    """Compiles functions that replace the rows in place, given the shapes of other arguments.

    XLA compiles one function while Python traces the next one.
    """
    with ThreadPoolExecutor(len(functions)) as executor:
        compiling: list[Future[Any]] = []
        for function, shapes in functions.items():
            lowered = jax.jit(function, donate_argnums=0).lower(rows, *shapes)
            compiling.append(executor.submit(lowered.compile))
        return [future.result() for future in compiling]


def _model_options(trained: Trained) -> dict[str, Any]:
    # Activations would be most of the memory; without them the results are the same.
    return model_kwargs_of(trained.record) | {"keep_activations": False}


def _check_memory(deepen: Any, batch_size: int) -> None:
    """Checks the memory of a compiled search, besides the trees, which are allocated already.

    A prediction before the compilation would trace the search twice more.
    """
    report: Any = deepen.memory_analysis()
    if report is not None:
        results = report.output_size_in_bytes - report.alias_size_in_bytes
        needed = report.temp_size_in_bytes + max(0, results)
        require_batch_memory(batch_size, needed, free_memory())


def _row_shapes(trained: Trained, chunk: Policy, capacity: int) -> Rows:
    """Returns the shapes of a pool with one row, whose tree has room for `capacity`."""
    policy = with_options(chunk, reuse_capacity=capacity)
    search_fn = make_search_fn(trained.env, trained.network, policy, **_model_options(trained))
    states = state_shapes(trained.env, 1)

    def make(states: Any) -> Rows:
        trees = empty_tree(search_fn, trained.params, states, reuse_capacity=capacity)
        return Rows(states, trees)

    return jax.eval_shape(make, states)
