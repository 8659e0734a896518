"""search-contempt: AlphaZero against an opponent who searches each position with few visits."""

import dataclasses

import mctx
from jax import Array

from dualmctx.checks import (
    MAX_COUNT,
    check,
    check_positive,
    describe,
    is_whole,
)
from dualmctx.policies.base import (
    check_frozen_visits,
    check_no_speculation,
)
from dualmctx.policies.call_checks import checked_init, composed
from dualmctx.policies.single_tree import SingleTree, init_single_tree
from dualmctx.policies.top_actions import Inputs
from dualmctx.search.frozen_visits import FrozenRule, frozen_visits
from dualmctx.search.phases import SearchState
from dualmctx.search.tree import Tree
from dualmctx.types import Params, RecurrentFn, RefineFn


@dataclasses.dataclass(frozen=True)
class Contempt(SingleTree):
    """AlphaZero's search against an opponent of limited depth; called like a policy of mctx.

    Formula, at a node s of the player whose visits freeze, but never at the root:
        Σ_b N(s,b) ≥ |N_scl|:  a ~ N_scl(s,·)^(1/T) / Σ_b N_scl(s,b)^(1/T)
        otherwise:             PUCT

    N_scl(s,a) is N(s,a) at the moment when Σ_b N(s,b) = |N_scl|, and stays frozen until the search
    ends. Backups do not change.

    Raises:
      ValueError: if an option is out of range, or if options conflict.

    Source: Joshi 2025 (arXiv 2504.07757); negative limits and the temperature are from an open
    proposal for a chess engine. Our readings: "odd depth" in the paper means the opponent's nodes,
    so where a player may move twice, the player to move decides, not the depth. A search that
    reuses a tree starts with N_scl(s,·) = N(s,·), so nodes with more visits than the limit are
    frozen from the start. Visits are those that the backup updates; with a window they are
    truncated.
    """

    frozen_visit_limit: int | None = 5
    """N_scl, the number of visits after which the visits of a node freeze. Positive: nodes of the
    opponent. Negative: nodes of the searching player, except the root. None: no limit, which gives
    AlphaZero."""
    frozen_temperature: float = 1.0
    """Temperature T for sampling from the frozen visits, positive; below 1 it favours the most
    visited action; not used without a limit."""

    def __post_init__(self) -> None:
        """Checks the options."""
        super().__post_init__()
        limit = self.frozen_visit_limit
        is_valid = limit is None or (is_whole(limit) and 0 < abs(limit) <= MAX_COUNT)
        remedy = (
            f"positive, negative, or none for no limit; a whole number, {MAX_COUNT} at most in size"
        )
        check(is_valid, "frozen_visit_limit", describe(limit), remedy)
        check_positive(self, "frozen_temperature")
        check_frozen_visits(self, limit)
        check_no_speculation(self, "whose rule samples")

    @checked_init
    def init(
        self,
        params: Params,
        rng_key: Array,
        root: mctx.RootFnOutput,
        recurrent_fn: RecurrentFn,
        refine_fn: RefineFn | None = None,
        *,
        invalid_actions: Array | None = None,
        search_tree: Tree | None = None,
    ) -> SearchState:
        """Sets up a search from a batch of roots; arguments and results are those of `AlphaZero`.

        Sampling at frozen nodes uses the key as well. With a limit, the tree has the additional
        statistic "frozen", a `dualmctx.search.frozen_visits.Frozen`.
        """
        inputs = Inputs(root, recurrent_fn, refine_fn, invalid_actions)
        limit = self.frozen_visit_limit
        if limit is None:
            return init_single_tree(self, params, rng_key, inputs, search_tree=search_tree)
        return init_single_tree(
            self,
            params,
            rng_key,
            inputs,
            search_tree=search_tree,
            wrap_rule=lambda rule: FrozenRule(rule, self.frozen_temperature, limit),
            statistics=(frozen_visits(limit),),
        )

    __call__ = composed(init)
