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
from dualmctx.search.node import LastEdge, NodeInit
from dualmctx.search.spec import Backend, SearchSpec
from dualmctx.search.tree import Tree

T = TypeVar("T")
# `sum_paths` compares all leaves of a tree with each other; more leaves take several kernels.
_MAX_LEAVES = 64


@dataclasses.dataclass(frozen=True)
class GpuKernels:
    """The loops of a search as kernels, in programs for CUDA.

    Each method gives the same result as that of `loops`, which runs on other platforms, and if a
    kernel cannot: with a rule or a statistic that is not made for kernels, or with another kind of
    key. On a GPU, results may differ in their last bits, so that a choice between nearly equal
    scores may differ.
    """

    loops: Backend
    """XLA's loops."""
    interpret: bool
    """Whether XLA operations interpret the kernels, on every platform."""

    def _run(self, kernel: Callable[..., T], loops: Callable[[], T]) -> T:
        """Calls one of two functions; the first one with its argument `interpret`."""
        if self.interpret:
            return kernel(interpret=True)
        return jax.lax.platform_dependent(
            cuda=functools.partial(kernel, interpret=False), default=loops
        )

    def descend(
        self, spec: SearchSpec, rng_key: Any, tree: Tree, is_active: Array | None = None
    ) -> LastEdge:
        """Descends as `select.descend`."""
        loops = functools.partial(self.loops.descend, spec, rng_key, tree, is_active)
        if not (spec.walks_in_kernels and can_sample(rng_key)):
            return loops()
        arrays, others = spec.split()

        def walk(tree: Tree, rows: tuple[Any, ...], _: None) -> LastEdge:
            words, arrays, is_active = rows
            return select.descend(
                others.join(arrays), launch.tree_key(rng_key, words), tree, is_active
            )

        shape: Any = jax.ShapeDtypeStruct(tree.edges.shape[:1], jnp.int32)
        outputs = LastEdge(*(shape,) * len(LastEdge._fields))
        # XLA then removes the splits of a key that nothing reads.
        rows = launch.key_words(rng_key) if spec.samples else None, arrays, is_active
        run = functools.partial(
            launch.run_per_tree, walk, tree, rows, outputs=outputs, name="descend"
        )
        return self._run(lambda interpret: run(interpret=interpret).outputs, loops)

    def insert_and_backup(
        self,
        spec: SearchSpec,
        tree: Tree,
        path: LastEdge,
        new: NodeInit,
        node_index: Array | int,
        is_active: Array | None = None,
    ) -> Tree:
        """Inserts and backs up as `backup.insert_and_backup`."""
        inputs = tree, path, new, node_index, is_active
        loops = functools.partial(self.loops.insert_and_backup, spec, *inputs)
        if not spec.backs_up_in_kernels:
            return loops()
        arrays, others = _without_rules(spec).split()

        def update(tree: Tree, rows: tuple[Any, ...], _: None) -> None:
            arrays, *inputs = rows
            backup.insert_and_backup(others.join(arrays), tree, *inputs)

        rows = arrays, path, new, jnp.asarray(node_index, jnp.int32), is_active
        name = "insert_and_backup"
        run = functools.partial(launch.run_per_tree, update, tree, rows, writes=True, name=name)
        return self._run(lambda interpret: run(interpret=interpret).tree, loops)

    def simulate_existing(
        self, spec: SearchSpec, rng_key: Array, tree: Tree, first: Array, end: Array
    ) -> tuple[Tree, Array]:
        """Simulates as `simulate.simulate_existing`."""
        loops = functools.partial(self.loops.simulate_existing, spec, rng_key, tree, first, end)
        is_possible = spec.walks_in_kernels and spec.backs_up_in_kernels and can_sample(rng_key)
        if not is_possible:
            return loops()
        arrays, others = spec.split()

        def update(tree: Tree, rows: tuple[Any, ...], _: None) -> Array:
            words, arrays, first, end = rows
            key, spec = launch.tree_key(rng_key, words), others.join(arrays)
            return simulate.simulate_existing(spec, key, tree, first, end)[1]

        rows, outputs = (launch.key_words(rng_key), arrays, first, end), _shape_of(first)
        options: Any = {"outputs": outputs, "writes": True, "name": "simulate_existing"}
        run = functools.partial(launch.run_per_tree, update, tree, rows, **options)
        return self._run(lambda interpret: _updated(run(interpret=interpret)), loops)

    def select_leaves(
        self, spec: SearchSpec, rng_key: Any, tree: Tree, first_slot: Array, limit: Array
    ) -> tuple[Tree, Leaves]:
        """Selects as `parallel_leaves.select_leaves`."""
        inputs = spec, rng_key, tree, first_slot, limit
        loops = functools.partial(self.loops.select_leaves, *inputs)
        if not (spec.walks_in_kernels and can_sample(rng_key)):
            return loops()
        arrays, others = spec.split()

        def update(tree: Tree, rows: tuple[Any, ...], _: None) -> Leaves:
            words, arrays, first_slot, limit = rows
            key, spec = launch.tree_key(rng_key, words), others.join(arrays)
            return parallel_leaves.select_leaves(spec, key, tree, first_slot, limit)[1]

        def run(interpret: bool) -> tuple[Tree, Leaves]:
            shape: Any = jax.ShapeDtypeStruct(
                (tree.edges.shape[0], spec.leaves_per_step), jnp.int32
            )
            found = launch.run_per_tree(
                update,
                tree,
                (launch.key_words(rng_key), arrays, first_slot, limit),
                outputs=Leaves(*(shape,) * len(Leaves._fields)),
                writes=True,
                name="select_leaves",
                interpret=interpret,
            )
            return found.tree, found.outputs._replace(is_new=found.outputs.is_new != 0)

        return self._run(run, loops)

    def backup_parallel(self, spec: SearchSpec, tree: Tree, leaves: Leaves) -> Tree:
        """Backs up as `parallel_leaves.backup_parallel`."""
        num_leaves = leaves.node.shape[1]

        def update(tree: Tree, rows: Leaves, _: None) -> None:
            depth = mask_lanes(rows.depth, num_leaves, -1)
            parallel_leaves.backup_parallel(spec, tree, rows._replace(depth=depth))

        name, lanes = "backup_parallel", num_lanes(num_leaves) ** 2
        run = functools.partial(launch.run_per_tree, update, tree, leaves, lanes=lanes, name=name)
        return self._run(
            lambda interpret: run(writes=True, interpret=interpret).tree,
            functools.partial(self.loops.backup_parallel, spec, tree, leaves),
        )

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
        """Adds up paths as `backup.sum_paths`."""
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
        return self._run(run, loops)

    def log_gamma(self, rng_key: Array, alphas: Array) -> Array:
        """Samples as `keys.log_gamma`."""
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
        return self._run(lambda interpret: run(interpret=interpret)[1], loops)


def _without_rules(spec: SearchSpec) -> SearchSpec:
    """Returns a specification for kernels that do not descend, and so do not load rules' arrays."""
    return spec._replace(rule=None, root_rule=None)  # pyright: ignore[reportArgumentType]


def _shape_of(array: Array) -> Any:
    return jax.ShapeDtypeStruct(array.shape, array.dtype)


def _updated(found: Any) -> tuple[Tree, Array]:
    return found.tree, found.outputs
