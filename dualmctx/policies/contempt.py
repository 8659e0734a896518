"""search-contempt: AlphaZero against an opponent who stops thinking after a few visits."""

import dataclasses
from typing import Self

import chex
import mctx

from dualmctx.checks import MOST, check, check_budget, check_positive, is_whole
from dualmctx.policies.one_tree import search_one_tree
from dualmctx.policies.options import (
    Puct,
    make_rule,
    track_together,
    with_window_exploration,
)
from dualmctx.policies.top_actions import Inputs
from dualmctx.search.frozen_visits import follow_visits, sample_frozen, start_frozen, take_sides
from dualmctx.search.simulate import SearchSpec
from dualmctx.search.tree import Tree
from dualmctx.types import Params, RecurrentFn, RefineFn


@dataclasses.dataclass(frozen=True)
class Contempt:
    """AlphaZero's search with an opponent of limited sight; called like a policy of mctx.

    Formula, at a node s of the side that freezes, the root never:
        Σ_b N(s,b) ≥ |N_scl|:  a ~ N_scl(s,·)^(1/T) / Σ_b N_scl(s,b)^(1/T),   otherwise PUCT

    with N_scl(s,a) = N(s,a) at the moment when Σ_b N(s,b) = |N_scl|, frozen until the search ends.
    Backups are the ordinary ones.

    Raises:
      ValueError: when an option is out of range, or excluded by another, in one line.

    Source: Joshi 2025 (arXiv 2504.07757); negative limits and the temperature are from an open
    proposal for a chess engine. Readings: the paper's "odd depth" stands for the opponent's nodes;
    where a player may move twice we go by who is to move. A search that goes on from a kept tree
    starts with N_scl(s,·) = N(s,·), so that nodes with more visits than the limit are frozen at
    once. Counts are those that the backup updates, so under a window the truncated ones.
    """

    num_simulations: int = 85
    """Simulations a search, the root's own evaluation apart; at least 1."""
    frozen_visit_limit: int | None = 5
    """N_scl, visits after which a node's counts freeze: the opponent's nodes if positive, one's own
    but for the root if negative; none for no limit, which is AlphaZero."""
    frozen_temperature: float = 1.0
    """T, positive: below 1 the opponent is surer of the frozen counts' best action."""
    puct: Puct = dataclasses.field(default_factory=Puct)
    """How the tree is searched."""
    reuse_capacity: int = 0
    """Room for nodes of the last move's tree, the root apart; 0 starts every search afresh."""

    heads = (-1,)
    """The network's heads that it evaluates: the last, by `recurrent_fn`."""

    def __post_init__(self) -> None:
        """Checks the options."""
        check_budget(self)
        limit, leaves = self.frozen_visit_limit, self.puct.leaves_per_step
        is_right = limit is None or (is_whole(limit) and 0 < abs(limit) <= MOST)
        remedy = f"positive, negative, or none for no limit; a whole number, {MOST} at most in size"
        check(is_right, "frozen_visit_limit", limit, remedy)
        check_positive(self, "frozen_temperature")
        remedy = "1 with a frozen_visit_limit, as counts freeze between two simulations"
        check(leaves == 1 or limit is None, "leaves_per_step", leaves, remedy)
        remedy = "0 with a frozen_visit_limit, which needs single leaves"
        lost = self.puct.virtual_loss
        check(lost == 0 or limit is None, "virtual_loss", lost, remedy)

    def for_evaluation(self) -> Self:
        """Returns the policy as it is for evaluation: no noise at the root, the best action.

        The opponent's frozen nodes are still sampled, as that is the algorithm.
        """
        return dataclasses.replace(self, puct=self.puct.for_evaluation())

    def __call__(
        self,
        params: Params,
        rng_key: chex.PRNGKey,
        root: mctx.RootFnOutput,
        recurrent_fn: RecurrentFn,
        refine_fn: RefineFn | None = None,
        *,
        invalid_actions: chex.Array | None = None,
        search_tree: Tree | None = None,
    ) -> mctx.PolicyOutput:
        """Searches from a batch of roots; arguments and results are those of `AlphaZero`.

        The key also gives the draws at frozen nodes. The tree's layer holds a `Frozen` in `tracked`
        unless there is no limit.
        """
        inputs = Inputs(root, recurrent_fn, refine_fn, invalid_actions)
        limit, sides = self.frozen_visit_limit, None
        if limit is None:
            return search_one_tree(self, params, rng_key, inputs, search_tree=search_tree)
        if search_tree is not None:
            sides, search_tree = take_sides(search_tree)

        def freeze(tree: Tree, spec: SearchSpec) -> tuple[Tree, SearchSpec]:
            rule = sample_frozen(make_rule(self.puct), limit, self.frozen_temperature)
            rule = with_window_exploration(self.puct, rule)
            track_fn = track_together(spec.track_fn, follow_visits(limit))
            spec = spec._replace(root_select_fn=rule, interior_select_fn=rule, track_fn=track_fn)
            return start_frozen(tree, sides), spec

        return search_one_tree(
            self, params, rng_key, inputs, search_tree=search_tree, change_fn=freeze
        )
