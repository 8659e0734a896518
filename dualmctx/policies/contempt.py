"""search-contempt: AlphaZero against an opponent who stops thinking after a few visits."""

import dataclasses
from typing import Self

import chex
import mctx

from dualmctx.contempt import follow_visits, sample_frozen, start_frozen, take_sides
from dualmctx.keys import split_key
from dualmctx.policies.children import Inputs
from dualmctx.policies.opening import add_root_noise, close_one_tree, open_search
from dualmctx.policies.options import (
    Puct,
    check,
    explore,
    make_grow,
    make_rule,
    track_together,
)
from dualmctx.search import search
from dualmctx.tree import Tree
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
    kept_nodes: int = 0
    """Room for nodes of the last move's tree, the root apart; 0 starts every search afresh."""

    heads = (-1,)
    """The network's heads that it evaluates: the last, by `recurrent_fn`."""

    def __post_init__(self) -> None:
        """Checks the options."""
        number, limit = self.num_simulations, self.frozen_visit_limit
        check(number >= 1, "num_simulations", number, "at least 1")
        check(self.kept_nodes >= 0, "kept_nodes", self.kept_nodes, "at least 0")
        check(limit != 0, "frozen_visit_limit", limit, "positive, negative, or none for no limit")
        heat = self.frozen_temperature
        check(0 < heat < float("inf"), "frozen_temperature", heat, "positive and finite")
        leaves = self.puct.leaves_per_step
        remedy = "1 with a frozen_visit_limit, as counts freeze between two simulations"
        check(leaves == 1 or limit is None, "leaves_per_step", leaves, remedy)

    def noiseless(self) -> Self:
        """Returns the policy as it is for evaluation: no noise at the root, the best action.

        The opponent's frozen nodes are still sampled, as that is the algorithm.
        """
        return dataclasses.replace(self, puct=self.puct.noiseless())

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
        noise_key, search_key, action_key = split_key(rng_key, 3)
        budget, limit = self.num_simulations, self.frozen_visit_limit
        sides = None
        if limit is not None and search_tree is not None:
            sides, search_tree = take_sides(search_tree)
        opening = open_search(
            self.puct,
            Inputs(root, recurrent_fn, refine_fn, invalid_actions),
            num_new=budget,
            kept_nodes=self.kept_nodes,
            search_tree=search_tree,
        )
        tree = add_root_noise(noise_key, opening.tree, self.puct)
        grow = make_grow(self.puct, opening.evaluate_fn, num_simulations=opening.longest)
        if limit is not None:
            tree = start_frozen(tree, sides)
            rule = sample_frozen(make_rule(self.puct), limit, self.frozen_temperature)
            rule = explore(self.puct, rule)
            track_fn = track_together(grow.track_fn, follow_visits(limit))
            grow = grow._replace(root_select_fn=rule, interior_select_fn=rule, track_fn=track_fn)
        tree = search(params, search_key, tree, grow, budget, first_slot=opening.first_slot)
        return close_one_tree(action_key, self.puct, opening, tree)
