"""search-contempt: AlphaZero against an opponent who stops searching after a few visits."""

import dataclasses
from typing import Self

import mctx
from jax import Array

from dualmctx.checks import MOST, check, check_budget, check_positive, is_whole
from dualmctx.policies.combinations import check_frozen_visits, check_single_tree
from dualmctx.policies.option_groups import Backup, Execution, Puct, Root
from dualmctx.policies.options import make_rule
from dualmctx.policies.single_tree import search_single_tree
from dualmctx.policies.top_actions import Inputs
from dualmctx.search.frozen_visits import frozen_visits, sample_frozen
from dualmctx.search.tree import Tree
from dualmctx.types import Params, RecurrentFn, RefineFn, Traits


@dataclasses.dataclass(frozen=True)
class Contempt:
    """AlphaZero's search against an opponent of limited depth; called like a policy of mctx.

    Formula, at a node s of the side whose counts freeze, never at the root:
        Σ_b N(s,b) ≥ |N_scl|:  a ~ N_scl(s,·)^(1/T) / Σ_b N_scl(s,b)^(1/T),   otherwise PUCT

    with N_scl(s,a) = N(s,a) at the moment when Σ_b N(s,b) = |N_scl|, frozen until the search ends.
    Backups are the ordinary ones.

    Raises:
      ValueError: if an option is out of range, or excluded by another.

    Source: Joshi 2025 (arXiv 2504.07757); negative limits and the temperature are from an open
    proposal for a chess engine. Readings: the paper's "odd depth" stands for the opponent's nodes;
    where a player may move twice we go by who is to move. A search that goes on from a kept tree
    starts with N_scl(s,·) = N(s,·), so that nodes with more visits than the limit are frozen at
    once. Counts are those that the backup updates, so under a window the truncated ones.
    """

    num_simulations: int = 85
    """Simulations per search, the root's own evaluation apart; at least 1."""
    frozen_visit_limit: int | None = 5
    """N_scl, the number of visits after which the counts of a node freeze. Positive: the opponent's
    nodes. Negative: the searching player's own nodes, except the root. None: no limit, which is
    AlphaZero."""
    frozen_temperature: float = 1.0
    """Temperature T of the draws from the frozen counts, positive; below 1 it favours the action
    with the largest count."""
    puct: Puct = dataclasses.field(default_factory=Puct)
    """The selection rule."""
    root: Root = dataclasses.field(default_factory=Root)
    """Noise at the root, and what is read off it."""
    backup: Backup = dataclasses.field(default_factory=Backup)
    """The window and its exploration."""
    execution: Execution = dataclasses.field(default_factory=Execution)
    """Depth, actions per node, and leaves in parallel."""
    reuse_capacity: int = 0
    """Nodes kept from the last move's tree, the root apart; 0 starts every search afresh."""

    heads = (-1,)
    """The network's heads that the policy evaluates: the last, by `recurrent_fn`."""

    def __post_init__(self) -> None:
        """Checks the options."""
        check_budget(self)
        limit = self.frozen_visit_limit
        is_right = limit is None or (is_whole(limit) and 0 < abs(limit) <= MOST)
        remedy = f"positive, negative, or none for no limit; a whole number, {MOST} at most in size"
        check(is_right, "frozen_visit_limit", limit, remedy)
        check_positive(self, "frozen_temperature")
        check_frozen_visits(self, limit)
        check_single_tree(self)

    @property
    def traits(self) -> Traits:
        """The nodes kept between moves."""
        return Traits(reuse_capacity=self.reuse_capacity)

    def for_evaluation(self) -> Self:
        """Returns the policy for evaluation: no noise at the root, the best action.

        Actions at frozen nodes are still sampled, as that is the algorithm.
        """
        return dataclasses.replace(self, root=self.root.for_evaluation())

    def __call__(
        self,
        params: Params,
        rng_key: Array,
        root: mctx.RootFnOutput,
        recurrent_fn: RecurrentFn,
        refine_fn: RefineFn | None = None,
        *,
        invalid_actions: Array | None = None,
        search_tree: Tree | None = None,
    ) -> mctx.PolicyOutput:
        """Searches from a batch of roots; arguments and results are those of `AlphaZero`.

        The samples at frozen nodes use the key as well. Unless there is no limit, the tree keeps a
        `Frozen` as its statistic "frozen".
        """
        inputs = Inputs(root, recurrent_fn, refine_fn, invalid_actions)
        limit = self.frozen_visit_limit
        if limit is None:
            return search_single_tree(self, params, rng_key, inputs, search_tree=search_tree)
        return search_single_tree(
            self,
            params,
            rng_key,
            inputs,
            search_tree=search_tree,
            select_fn=sample_frozen(make_rule(self.puct), limit, self.frozen_temperature),
            statistics=(frozen_visits(limit),),
        )
