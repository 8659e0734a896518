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
import operator
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
from dualmctx.search.node import LastEdge, NodeInit
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
        loops = functools.partial(self.loops.descend, spec, rng_key, tree, is_active)
        if not (spec.walks_in_kernels and can_sample(rng_key)):
            return loops()
        arrays, others = spec.split()

        def walk(tree: Tree, rows: tuple[Any, ...], _: None) -> LastEdge:
            words, arrays, is_active = rows
            return select.descend(
                others.join(arrays), launch.tree_key(rng_key, words), tree, is_active
            )

        # XLA then removes the splits of a key that nothing reads.
        rows = launch.key_words(rng_key) if spec.samples else None, arrays, is_active
        outputs = _shapes(LastEdge, tree.edges.shape[:1])
        return self._run(loops, "descend", _outputs, walk, tree, rows, outputs)

    def insert_and_backup(
        self,
        spec: SearchSpec,
        tree: Tree,
        path: LastEdge,
        new: NodeInit,
        node_index: Array | int,
        is_active: Array | None = None,
    ) -> Tree:
        inputs = tree, path, new, node_index, is_active
        loops = functools.partial(self.loops.insert_and_backup, spec, *inputs)
        if not spec.backs_up_in_kernels:
            return loops()
        arrays, others = _without_rules(spec).split()

        def update(tree: Tree, rows: tuple[Any, ...], _: None) -> None:
            arrays, *inputs = rows
            backup.insert_and_backup(others.join(arrays), tree, *inputs)

        rows = arrays, path, new, jnp.asarray(node_index, jnp.int32), is_active
        return self._run(loops, "insert_and_backup", _tree, update, tree, rows, writes=True)

    def simulate_existing(
        self, spec: SearchSpec, rng_key: Array, tree: Tree, first: Array, end: Array
    ) -> tuple[Tree, Array]:
        loops = functools.partial(self.loops.simulate_existing, spec, rng_key, tree, first, end)
        is_possible = spec.walks_in_kernels and spec.backs_up_in_kernels and can_sample(rng_key)
        if not is_possible:
            return loops()
        arrays, others = spec.split()

        def update(tree: Tree, rows: tuple[Any, ...], _: None) -> Array:
            words, arrays, first, end = rows
            key, spec = launch.tree_key(rng_key, words), others.join(arrays)
            return simulate.simulate_existing(spec, key, tree, first, end)[1]

        rows, name = (launch.key_words(rng_key), arrays, first, end), "simulate_existing"
        return self._run(loops, name, _both, update, tree, rows, _shape_of(first), writes=True)

    def select_leaves(
        self, spec: SearchSpec, rng_key: Any, tree: Tree, first_slot: Array, limit: Array
    ) -> tuple[Tree, Leaves]:
        inputs = spec, rng_key, tree, first_slot, limit
        loops = functools.partial(self.loops.select_leaves, *inputs)
        if not (spec.walks_in_kernels and can_sample(rng_key)):
            return loops()
        arrays, others = spec.split()

        def update(tree: Tree, rows: tuple[Any, ...], _: None) -> Leaves:
            words, arrays, first_slot, limit = rows
            key, spec = launch.tree_key(rng_key, words), others.join(arrays)
            return parallel_leaves.select_leaves(spec, key, tree, first_slot, limit)[1]

        def read(found: launch.Result) -> tuple[Tree, Leaves]:
            return found.tree, found.outputs._replace(is_new=found.outputs.is_new != 0)

        rows = launch.key_words(rng_key), arrays, first_slot, limit
        outputs = _shapes(Leaves, (tree.edges.shape[0], spec.leaves_per_step))
        return self._run(loops, "select_leaves", read, update, tree, rows, outputs, writes=True)

    def backup_parallel(self, spec: SearchSpec, tree: Tree, leaves: Leaves) -> Tree:
        num_leaves = leaves.node.shape[1]

        def update(tree: Tree, rows: Leaves, _: None) -> None:
            depth = mask_lanes(rows.depth, num_leaves, -1)
            parallel_leaves.backup_parallel(spec, tree, rows._replace(depth=depth))

        name, lanes = "backup_parallel", num_lanes(num_leaves) ** 2
        loops = functools.partial(self.loops.backup_parallel, spec, tree, leaves)
        return self._run(loops, name, _tree, update, tree, leaves, writes=True, lanes=lanes)

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
            backup.add_paths(*paths, sums, with_rewards=with_rewards)

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
        loops: Callable[[], T],
        name: str,
        read: Callable[[launch.Result], T],
        function: Callable[..., Any],
        tree: Tree,
        rows: Any,
        outputs: Any = None,
        *,
        writes: bool = False,
        lanes: int = 0,
    ) -> T:
        """Runs a kernel and reads its result, or runs `loops`; see `launch.run_per_tree`."""
        options: Any = {"name": name, "outputs": outputs, "writes": writes, "lanes": lanes}
        run = functools.partial(launch.run_per_tree, function, tree, rows, **options)
        return self._choose(lambda interpret: read(run(interpret=interpret)), loops)

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


def _shapes(record: Any, shape: tuple[int, ...]) -> Any:
    """Returns a record whose fields are all int32 of one shape."""
    return record(*(jax.ShapeDtypeStruct(shape, jnp.int32),) * len(record._fields))


# The parts of a kernel's result that a function returns.
_tree: Any = operator.attrgetter("tree")
_outputs: Any = operator.attrgetter("outputs")
_both: Any = operator.attrgetter("tree", "outputs")
