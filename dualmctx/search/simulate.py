"""Simulations of one tree, one at a time or several at once."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from dualmctx.search import kernels
from dualmctx.search.backup import insert_and_backup, simulate_existing
from dualmctx.search.dispatch import choose
from dualmctx.search.expand import Expansion, evaluate_path, insert_embeddings
from dualmctx.search.keys import split_key
from dualmctx.search.node import RuleFn
from dualmctx.search.parallel_leaves import Leaves, backup_parallel, expand_leaves, select_leaves
from dualmctx.search.select import Descent, descend
from dualmctx.search.statistics import Statistic
from dualmctx.search.tree import EvaluateFn, LastEdge, Tree
from dualmctx.types import Kernels, Params


class SearchSpec(NamedTuple):
    """The functions and limits of the simulations of one tree.

    Attributes:
      evaluate_fn: plays an action and evaluates the resulting state.
      rule: the selection rule.
      max_depth: the largest number of edges of a simulation.
      window: the number of edges that a backup updates; `None` for all.
      tree_index: the tree that grows.
      leaves_per_step: K, the largest number of simulations that one step of `run_parallel` runs;
        must be 1 with a window or with statistics.
      statistics: the additional statistics of the tree, as in `add_statistics`.
      virtual_loss: n_vl; with K > 1, a leaf counts as this many lost visits until its value is
        known. 0 for one visit that leaves Q unchanged.
      speculation: the largest number of leaves of a tree that `search_with_guesses` evaluates in
        one call, all but one of them guessed; see `speculation`. Above 1, `leaves_per_step` must be
        1, and the rules must not sample.
      kernels: whether simulations run in GPU kernels, as far as the rules and statistics do.
      root_rule: the selection rule at the root; `None` for the same one.
    """

    evaluate_fn: EvaluateFn
    rule: RuleFn
    max_depth: int
    window: int | None = None
    tree_index: int = 0
    leaves_per_step: int = 1
    statistics: tuple[Statistic, ...] = ()
    virtual_loss: int = 0
    speculation: int = 1
    kernels: Kernels = "off"
    root_rule: RuleFn | None = None

    @property
    def descent(self) -> Descent:
        """The descent by the rules and limits of this record."""
        return Descent(self.rule, self.root_rule, self.max_depth, self.tree_index)

    def descend(self, rng_key: Array, tree: Tree, is_active: Array | None = None) -> LastEdge:
        """Descends by the rules and limits of this record; consumes the key."""
        return choose(
            self.kernels,
            tree,
            (kernels.descend, descend),
            *(rng_key, tree, self.descent, is_active),
            rng_key=rng_key,
            in_kernels=self.descent.in_kernels,
        )

    def insert_and_backup(
        self,
        tree: Tree,
        path: LastEdge,
        found: Expansion,
        node_index: Array | int,
        is_active: Array | None = None,
    ) -> Tree:
        """Calls `backup.insert_and_backup` with the options of this record."""
        # Without `is_active`, a kernel computes the mask itself.
        is_new = None if is_active is None else found.is_new
        return choose(
            self.kernels,
            tree,
            (kernels.insert_and_backup, insert_and_backup),
            *(tree, path, found.node, is_new, node_index, is_active),
            window=self.window,
            statistics=self.statistics,
            tree_index=self.tree_index,
            in_kernels=self._has_own_kernels,
        )

    def select_leaves(
        self, rng_key: Array, tree: Tree, first_slot: Array, limit: Array
    ) -> tuple[Tree, Leaves]:
        """Calls `parallel_leaves.select_leaves` with the rules and limits of this record."""
        return choose(
            self.kernels,
            tree,
            (kernels.select_leaves, select_leaves),
            *(rng_key, tree, self.descent, first_slot, limit),
            num_leaves=self.leaves_per_step,
            virtual_loss=self.virtual_loss,
            tree_index=self.tree_index,
            rng_key=rng_key,
            in_kernels=self.descent.in_kernels,
        )

    def simulate_existing(
        self, rng_key: Array, tree: Tree, first: Array, end: Array
    ) -> tuple[Tree, Array]:
        """Calls `backup.simulate_existing` with the rules and options of this record."""
        return choose(
            self.kernels,
            tree,
            (kernels.simulate_existing, simulate_existing),
            *(rng_key, tree, self.descent, first, end),
            window=self.window,
            statistics=self.statistics,
            tree_index=self.tree_index,
            rng_key=rng_key,
            in_kernels=self.descent.in_kernels and self._has_own_kernels,
        )

    @property
    def _has_own_kernels(self) -> bool:
        return all(statistic.in_kernels for statistic in self.statistics)

    def backup_parallel(self, tree: Tree, leaves: Leaves) -> Tree:
        """Calls `parallel_leaves.backup_parallel` with the tree of this record."""
        functions = kernels.backup_parallel, backup_parallel
        return choose(self.kernels, tree, functions, tree, leaves, tree_index=self.tree_index)


def simulate(
    params: Params,
    rng_key: Array,
    tree: Tree,
    spec: SearchSpec,
    node_index: Array | int,
    is_active: Array | None = None,
) -> tuple[Array, Tree]:
    """Runs one simulation: select, expand, back up.

    Args:
      params: passed on to the evaluation.
      rng_key: consumed; split as `mctx.search` splits it.
      tree: the trees.
      spec: the simulations of the tree.
      node_index: scalar, the slot for a new node.
      is_active: `[B]` bool, elements that may change; all if `None`.

    Returns:
      A new key and the trees.
    """
    rng_key, select_key, expand_key = split_key(rng_key, 3)
    path = spec.descend(select_key, tree)
    return rng_key, expand_and_backup(params, expand_key, tree, spec, path, node_index, is_active)


def expand_and_backup(
    params: Params,
    rng_key: Array,
    tree: Tree,
    spec: SearchSpec,
    path: LastEdge,
    node_index: Array | int,
    is_active: Array | None = None,
) -> Tree:
    """Ends a simulation: expands the end of its path and backs up the value; see `simulate`."""
    found = evaluate_path(params, rng_key, tree, spec.evaluate_fn, path, is_active)
    tree = insert_embeddings(tree, found, node_index)
    return spec.insert_and_backup(tree, path, found, node_index, is_active)


def simulate_parallel(
    params: Params,
    rng_key: Array,
    tree: Tree,
    spec: SearchSpec,
    first_slot: Array,
    limit: Array,
) -> tuple[Array, Tree, Array]:
    """Runs up to K simulations of each root with one batched evaluation.

    Args:
      params: passed on to the evaluation.
      rng_key: consumed; split as in `simulate`.
      tree: the trees.
      spec: the simulations of the tree, with K leaves per step and without a window.
      first_slot: `[B]` int32; this slot and all later ones are empty.
      limit: `[B]` int32, the largest number of simulations of each root; 0 for a tree that must not
        change.

    Returns:
      A new key; the trees; and `[B]` int32, the number of simulations of each root: at least 1 if
      the limit is at least 1, and fewer than K if a descent ended at a leaf of the same step.
    """
    rng_key, select_key, expand_key = split_key(rng_key, 3)
    tree, leaves = spec.select_leaves(select_key, tree, first_slot, limit)
    tree = expand_leaves(params, expand_key, tree, spec.evaluate_fn, leaves)
    return rng_key, spec.backup_parallel(tree, leaves), leaves.num_simulations


def run_simulations(
    params: Params,
    rng_key: Array,
    tree: Tree,
    spec: SearchSpec,
    begin: Array | int,
    end: Array | int,
    *,
    first_slot: Array | int,
) -> tuple[Array, Tree]:
    """Runs simulations `begin` to `end - 1` of a tree; simulation i writes slot `first_slot + i`.

    Args:
      params: passed on to the evaluation.
      rng_key: consumed.
      tree: the trees.
      spec: the simulations of the tree, one leaf per step.
      begin: scalar; if both limits are integers, a GPU need not ask whether the loop goes on.
      end: scalar.
      first_slot: scalar, the slot of simulation 0.

    Returns:
      A new key and the trees.
    """

    def body(i: Array, carry: tuple[Array, Tree]) -> tuple[Array, Tree]:
        return simulate(params, *carry, spec, first_slot + i)

    return jax.lax.fori_loop(begin, end, body, (rng_key, tree))


def run_parallel(
    params: Params,
    rng_key: Array,
    tree: Tree,
    spec: SearchSpec,
    done: Array,
    num_simulations: int,
    until: Array | int,
    *,
    first_slot: int,
) -> tuple[Array, Tree, Array]:
    """Runs steps of several simulations until each tree has had `until` of them, or more.

    Trees need different numbers of steps. A tree whose simulations are complete does not change
    while others continue.

    Args:
      params: passed on to the evaluation.
      rng_key: consumed.
      tree: the trees.
      spec: the simulations of the tree, with K leaves per step.
      done: `[B]` int32, the simulations of each tree so far.
      num_simulations: the simulations of each tree in the whole search.
      until: scalar int32.
      first_slot: the slot of the first simulation.

    Returns:
      A new key, the trees, and the new `done`.
    """
    spec = spec._replace(leaves_per_step=min(spec.leaves_per_step, num_simulations))

    def step(carry: tuple[Array, Tree, Array]) -> tuple[Array, Tree, Array]:
        rng_key, tree, done = carry
        slot, limit = first_slot + done, num_simulations - done
        rng_key, tree, number = simulate_parallel(params, rng_key, tree, spec, slot, limit)
        return rng_key, tree, done + number

    return jax.lax.while_loop(lambda carry: jnp.any(carry[2] < until), step, (rng_key, tree, done))
