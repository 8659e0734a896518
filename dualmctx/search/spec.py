"""The specification of a search: its functions and limits, and the backend that runs its loops."""

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import jax
from jax import Array

from dualmctx.search.climb import Statistic, Sums
from dualmctx.search.expand import Leaves
from dualmctx.search.node import EvaluateFn, LastEdge, Rule
from dualmctx.search.tree import Tree
from dualmctx.types import RefineFn

Rounds = tuple[tuple[int, ...], ...]
"""The number of simulations of each tree, for each round."""


class Backend(NamedTuple):
    """The loops of a search, which are XLA's or kernels of a GPU; see `backend.choose_backend`.

    The functions are those of the same name in `select`, `backup`, `simulate`, `parallel_leaves`,
    and `keys`.
    """

    descend: Callable[..., LastEdge]
    insert_and_backup: Callable[..., Tree]
    simulate_existing: Callable[..., tuple[Tree, Array]]
    select_leaves: Callable[..., tuple[Tree, Leaves]]
    backup_parallel: Callable[..., Tree]
    sum_paths: Callable[..., Sums]
    log_gamma: Callable[[Array, Array], Array]


class Refinement(NamedTuple):
    """How a later tree evaluates the nodes of earlier ones again.

    Attributes:
      refine_fn: the later head.
      to_prior: converts its `[..., A]` logits into the prior that the selection rule reads.
      value_mix: α in [0, 1], the weight of the earlier value.
      prior_mix: β in [0, 1], the weight of the earlier prior.
    """

    refine_fn: RefineFn
    to_prior: Callable[[Array], Array]
    value_mix: float
    prior_mix: float


class SearchSpec(NamedTuple):
    """The functions and limits of the simulations of one tree.

    Attributes:
      evaluate_fn: plays an action and evaluates the resulting state.
      rule: the selection rule.
      max_depth: the largest number of edges of a simulation, at least 1.
      backend: runs the loops.
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
      root_rule: the selection rule at the root; `None` for the same one.
      refinement: by this tree, whose simulations run when no node is left to refine; `None` for
        the first tree.
    """

    evaluate_fn: EvaluateFn
    rule: Rule
    max_depth: int
    backend: Backend
    window: int | None = None
    tree_index: int = 0
    leaves_per_step: int = 1
    statistics: tuple[Statistic, ...] = ()
    virtual_loss: int = 0
    speculation: int = 1
    root_rule: Rule | None = None
    refinement: Refinement | None = None

    @property
    def samples(self) -> bool:
        """Whether a rule uses the key."""
        return any(rule.samples for rule in self._rules)

    @property
    def walks_in_kernels(self) -> bool:
        """Whether all rules run in kernels."""
        return all(rule.in_kernels for rule in self._rules)

    @property
    def backs_up_in_kernels(self) -> bool:
        """Whether all statistics run in kernels."""
        return all(statistic.in_kernels for statistic in self.statistics)

    @property
    def _rules(self) -> tuple[Rule, ...]:
        return (self.rule,) if self.root_rule is None else (self.rule, self.root_rule)

    def split(self) -> tuple[Any, Self]:
        """Returns the arrays of the rules and limits, and the specification without them."""
        arrays = jax.tree.map(lambda x: x if isinstance(x, jax.Array) else None, self)
        return arrays, jax.tree.map(lambda x: None if isinstance(x, jax.Array) else x, self)

    def join(self, arrays: Any) -> Self:
        """Returns the specification with the arrays that `split` has taken out."""
        return jax.tree.map(
            lambda x, y: y if x is None else x, arrays, self, is_leaf=lambda x: x is None
        )
