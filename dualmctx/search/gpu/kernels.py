"""Kernels for GPUs: walks, new nodes with their backup, climbs from many leaves, noise at the root.

XLA runs a loop whose length is not known in advance by asking the GPU after each iteration whether
to go on. A walk and a climb are such loops, so a simulation would wait for the host twice per
level. Here a kernel runs each of them as a whole, with one program per tree. The programs call the
functions that run on the other platforms as well, with references in place of arrays (see
`references`). The simulations of a call are a loop of fixed length, so the engine never waits for
the host in a search with one tree and one leaf per step. The game and the network may have loops of
their own.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from dualmctx.search import backup, parallel_leaves, select, simulate
from dualmctx.search.arrays import lane_index, mask_lanes, num_lanes
from dualmctx.search.climb import Sums
from dualmctx.search.expand import Leaves
from dualmctx.search.gpu import launch
from dualmctx.search.gpu.random import can_sample, log_gamma_by_lane
from dualmctx.search.node import LastEdge
from dualmctx.search.spec import Backend, SearchSpec
from dualmctx.search.tree import Tree

T = TypeVar("T")
# `sum_paths` compares all leaves of a tree with each other; more leaves take several kernels.
_MAX_LEAVES = 64


@functools.cache
def gpu_backend(loops: Backend, *, interpret: bool) -> Backend:
    """Returns a backend that runs kernels in programs for CUDA.

    Each function gives the same result as that of `loops`, which runs on other platforms, and if a
    kernel cannot: with a rule or a statistic that is not made for kernels, or with another kind of
    key. On a GPU, results may differ in their last bits, so that a choice between nearly equal
    scores may differ.

    Args:
      loops: XLA's loops.
      interpret: whether XLA operations interpret the kernels, on every platform.
    """
    kernels = _Kernels(loops, interpret)
    return Backend(*(getattr(kernels, name) for name in Backend._fields))


@dataclasses.dataclass(frozen=True)
class _Kernels:
    """The functions of `gpu_backend`, whose arguments these are."""

    loops: Backend
    interpret: bool

    def descend(
        self, spec: SearchSpec, rng_key: Any, tree: Tree, is_active: Array | None = None
    ) -> LastEdge:
        outputs = _records(LastEdge, (tree.edges.shape[0],))
        inputs = (is_active,)
        return self._run(select.descend, spec, tree, inputs, outputs, rng_key=rng_key, writes=False)

    def insert_and_backup(self, spec: SearchSpec, tree: Tree, *inputs: Any) -> Tree:
        return self._run(backup.insert_and_backup, spec, tree, inputs)

    def simulate_existing(
        self, spec: SearchSpec, rng_key: Array, tree: Tree, first: Array, end: Array
    ) -> tuple[Tree, Array]:
        inputs, outputs = (first, end), _shape_of(first)
        return self._run(simulate.simulate_existing, spec, tree, inputs, outputs, rng_key=rng_key)

    def select_leaves(
        self, spec: SearchSpec, rng_key: Any, tree: Tree, first_slot: Array, limit: Array
    ) -> tuple[Tree, Leaves]:
        outputs = _records(Leaves, (tree.edges.shape[0], spec.leaves_per_step))
        outputs = outputs._replace(is_new=outputs.is_new.update(dtype=jnp.bool_))
        function, inputs = parallel_leaves.select_leaves, (first_slot, limit)
        return self._run(function, spec, tree, inputs, outputs, rng_key=rng_key)

    def backup_parallel(self, spec: SearchSpec, tree: Tree, leaves: Leaves) -> Tree:
        num_leaves = leaves.node.shape[1]

        def backup_parallel(spec: SearchSpec, tree: Tree, leaves: Leaves) -> Tree:
            leaves = leaves._replace(depth=mask_lanes(leaves.depth, num_leaves, -1))
            return parallel_leaves.backup_parallel(spec, tree, leaves)

        return self._run(backup_parallel, spec, tree, (leaves,), lanes=num_lanes(num_leaves) ** 2)

    def sum_paths(
        self,
        spec: SearchSpec,
        tree: Tree,
        leaves: Array,
        values: Array,
        is_active: Array,
        *,
        with_rewards: bool,
    ) -> Sums:
        arrays, others = _without_rules(spec).split()

        def update(tree: Tree, rows: tuple[Any, ...], sums: Sums) -> None:
            arrays, leaves, values, is_active = rows
            paths = others.join(arrays), tree, leaves, values, is_active
            backup.sum_paths(*paths, sums, with_rewards=with_rewards)

        def run(interpret: bool) -> Sums:
            sums = backup.no_paths(tree)
            for start in range(0, leaves.shape[1], _MAX_LEAVES):
                part = [x[:, start : start + _MAX_LEAVES] for x in (leaves, values, is_active)]
                lanes = num_lanes(part[0].shape[1]) ** 2
                options: Any = {"name": "sum_paths", "lanes": lanes, "interpret": interpret}
                rows = arrays, *part
                sums = launch.run_per_tree(update, tree, rows, sums=sums, **options).sums
            return sums

        inputs = spec, tree, leaves, values, is_active
        loops = functools.partial(self.loops.sum_paths, *inputs, with_rewards=with_rewards)
        return self._choose(run, loops)

    def log_gamma(self, rng_key: Array, alphas: Array) -> Array:
        loops, num = functools.partial(self.loops.log_gamma, rng_key, alphas), alphas.shape[1]
        if alphas.dtype != jnp.float32 or not can_sample(rng_key):
            return loops()

        def sample(_: None, rows: tuple[Any, ...], __: None) -> Array:
            words, own = rows
            key = launch.tree_key(rng_key, words)
            lane = lane_index(own.shape, jnp.uint32)
            # One key of the batch is split into a key for each of its B·A numbers.
            first = np.uint32(0) if key.is_per_element else key.element[:, None] * np.uint32(num)
            return log_gamma_by_lane(key.lanes(first + lane), own)

        rows, outputs = (launch.key_words(rng_key), alphas), _shape_of(alphas)
        options: Any = {"name": "log_gamma", "lanes": num}
        run = functools.partial(launch.launch, sample, None, rows, None, outputs, **options)
        return self._choose(lambda interpret: run(interpret=interpret)[1], loops)

    def _run(
        self,
        function: Callable[..., Any],
        spec: SearchSpec,
        tree: Tree,
        inputs: tuple[Any, ...],
        outputs: Any = None,
        *,
        rng_key: Any = None,
        writes: bool = True,
        lanes: int = 0,
    ) -> Any:
        """Calls `function(spec, tree, *inputs)`, or with a key second, in a kernel if one can run.

        Args:
          function: one of those of `Backend`. It returns what it writes and its outputs, or one.
          spec: the specification.
          tree: the trees.
          inputs: rows, as in `launch.launch`.
          outputs: the shapes of the outputs, numbers of int32 or masks; `None` for none.
          rng_key: for a function that descends.
          writes: whether the function writes to the tree.
          lanes: as in `launch.launch`.
        """
        name, descends = function.__name__, rng_key is not None
        keys = (rng_key,) if descends else ()
        loops = functools.partial(getattr(self.loops, name), spec, *keys, tree, *inputs)
        walks = not descends or (spec.walks_in_kernels and can_sample(rng_key))
        if not walks or (writes and not spec.backs_up_in_kernels):
            return loops()
        # Other kernels do not load the arrays of rules.
        arrays, others = (spec if descends else _without_rules(spec)).split()
        # XLA then removes the splits of a key that nothing reads.
        words = launch.key_words(rng_key) if descends and spec.samples else None

        def update(tree: Tree, rows: tuple[Any, ...], _: None) -> Any:
            words, arrays, inputs = rows
            keys = (launch.tree_key(rng_key, words),) if descends else ()
            found = function(others.join(arrays), *keys, tree, *inputs)
            return None if outputs is None else found[1] if writes else found

        def run(interpret: bool) -> Any:
            rows = jax.tree.map(jnp.asarray, (words, arrays, inputs))
            numbers = jax.tree.map(lambda x: x.update(dtype=jnp.int32), outputs)
            options: Any = {"name": name, "writes": writes, "lanes": lanes, "interpret": interpret}
            result = launch.run_per_tree(update, tree, rows, outputs=numbers, **options)
            found = jax.tree.map(lambda x, y: x.astype(y.dtype), result.outputs, outputs)
            return result.tree if outputs is None else (result.tree, found) if writes else found

        return self._choose(run, loops)

    def _choose(self, kernel: Callable[[bool], T], loops: Callable[[], T]) -> T:
        """Calls one of two functions; the first one with its argument `interpret`."""
        if self.interpret:
            return kernel(True)
        return jax.lax.platform_dependent(cuda=functools.partial(kernel, False), default=loops)


def _without_rules(spec: SearchSpec) -> SearchSpec:
    """Returns a specification for kernels that do not descend, and so do not load rules' arrays."""
    return spec._replace(rule=None, root_rule=None)  # pyright: ignore[reportArgumentType]


def _shape_of(array: Array) -> Any:
    return jax.ShapeDtypeStruct(array.shape, array.dtype)


def _records(record: Any, shape: tuple[int, ...]) -> Any:
    """Returns a record whose fields are all int32 of one shape."""
    return record(*(jax.ShapeDtypeStruct(shape, jnp.int32),) * len(record._fields))
