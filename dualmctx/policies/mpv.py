"""MPV-MCTS: a small network grows a tree, and a separate large one evaluates its best nodes."""

import dataclasses
import itertools
from typing import Literal, Self

import mctx
from jax import Array

from dualmctx.checks import are_counts, check, show
from dualmctx.policies.multi_tree import (
    ActionWeights,
    check_budgets,
    check_multi_tree,
    search_multi_tree,
)
from dualmctx.policies.option_groups import Backup, Execution, Puct, Root
from dualmctx.policies.top_actions import Inputs
from dualmctx.search.rounds import Rounds, even_rounds
from dualmctx.search.tree import Tree
from dualmctx.types import Params, RecurrentFn, RefineFn, Traits


def in_rounds(num_simulations: tuple[int, int], num_rounds: int) -> tuple[int, ...]:
    """Returns a schedule of even rounds, as in `Dual`: 0 for a small slot, 1 for a large slot."""
    rounds = even_rounds(num_simulations, num_rounds)
    return tuple(slot for small, large in rounds for slot in (0,) * small + (1,) * large)


@dataclasses.dataclass(frozen=True)
class MPV:
    """Multiple-policy-value MCTS with two separate networks; called like a policy of mctx.

    A search has b_S + b_L slots, in the order of `schedule`. A small slot is a PUCT simulation of
    T_S by the small network. A large slot evaluates, by the large network, the node that T_S has
    visited most and T_L lacks; if there is none, it is a PUCT simulation of T_L. Consecutive large
    slots depend on T_S alone, so they are one call. Every schedule is thus a sequence of rounds,
    and the search is that of `Dual`, without activations passed from one network to the other. All
    calls are as wide as the longest run of large slots.

    Raises:
      ValueError: if an option is out of range, or excluded by another.

    Source: Lan, Li, Wei, Wu 2019 (arXiv 1905.13521), Algorithm 2. Its mixing weights and its rule
    for the final move are options here. Readings: the large network evaluates the root before the
    first slot, and both networks evaluate the nodes that T_L finds by itself.
    """

    num_simulations: tuple[int, int] = (50, 35)
    """Simulations per search in each tree, b_S and b_L, each at least 1; the roots' own evaluations
    apart."""
    schedule: Literal["small_first", "interleaved"] | tuple[int, ...] = "interleaved"
    """The order of the slots. small_first: all small slots, then the large ones. interleaved: the
    small slots evenly between the large ones. Or a number for each slot, 0 for small and 1 for
    large, with b_S zeros and b_L ones."""
    value_mix: float = 0.25
    """Weight α of the small network's value if both networks evaluated a state, in [0, 1]."""
    prior_mix: float = 0.25
    """Weight β of the small network's policy, likewise."""
    action_weights: ActionWeights = "regularized"
    """The policy returned. regularized: the regularised policy of the large tree's Q. large_visits:
    the large tree's visits, smoothed. all_visits: the visits of both trees. small_visits: the
    visits of the small tree, whose values the large network has corrected."""
    puct: Puct = dataclasses.field(default_factory=Puct)
    """The selection rule."""
    root: Root = dataclasses.field(default_factory=Root)
    """Noise at the root, and what is read off it."""
    backup: Backup = dataclasses.field(default_factory=Backup)
    """The window and its exploration."""
    execution: Execution = dataclasses.field(default_factory=Execution)
    """Depth, actions per node, and leaves in parallel."""
    reuse_capacity: int = 0
    """Nodes kept from the last move's trees, the root apart; 0 starts every search afresh."""

    heads = (0, -1)
    """The networks that it evaluates: the first by `recurrent_fn`, the last by `refine_fn`."""

    def __post_init__(self) -> None:
        """Checks the options."""
        remedy = "two numbers of at least 1"
        check_budgets(self.num_simulations, lambda x: len(x) == 2 and min(x) >= 1, remedy)
        (small, large), slots = self.num_simulations, self.schedule
        if isinstance(slots, str):
            words = ("small_first", "interleaved")
            remedy = f"{' or '.join(words)}, or 0 or 1 for each slot"
            check(slots in words, "schedule", slots, remedy)
        else:
            remedy = f"{small} times 0 and {large} times 1"
            is_right = are_counts(slots) and sorted(slots) == [0] * small + [1] * large
            check(is_right, "schedule", show(slots), remedy)
        check_multi_tree(self)

    @property
    def rounds(self) -> Rounds:
        """The simulations of both trees in each round; a round is small slots, then large ones."""
        if self.schedule == "small_first":
            return (self.num_simulations,)
        if isinstance(self.schedule, str):
            return even_rounds(self.num_simulations, self.num_simulations[1])
        runs = [(slot, len(list(run))) for slot, run in itertools.groupby(self.schedule)]
        runs = [(0, 0)] * (runs[0][0] == 1) + runs + [(1, 0)] * (runs[-1][0] == 0)
        lengths = [length for _, length in runs]
        return tuple(zip(lengths[::2], lengths[1::2], strict=True))

    @property
    def traits(self) -> Traits:
        """The rounds of the schedule, the nodes kept between moves, and two separate networks."""
        return Traits(
            num_rounds=len(self.rounds), reuse_capacity=self.reuse_capacity, separate_trunks=True
        )

    def for_evaluation(self) -> Self:
        """Returns the policy for evaluation: no noise at the root, the best action."""
        return dataclasses.replace(self, root=self.root.for_evaluation())

    def __call__(
        self,
        params: Params,
        rng_key: Array,
        root: mctx.RootFnOutput,
        recurrent_fn: RecurrentFn,
        refine_fn: RefineFn,
        *,
        invalid_actions: Array | None = None,
        search_tree: Tree | None = None,
    ) -> mctx.PolicyOutput:
        """Searches from a batch of roots.

        Args:
          params: passed on to `recurrent_fn` and `refine_fn`.
          rng_key: consumed.
          root: `[B]` roots evaluated by the small network.
          recurrent_fn: as mctx's, by the small network; its logits must mask illegal actions.
          refine_fn: evaluates embeddings by the large network; its logits must mask illegal ones.
          invalid_actions: `[B, A]` true for actions that are not allowed at the root.
          search_tree: the last move's trees as `dualmctx.get_subtree` returns them; elements
            without one start from `root`. Needs `reuse_capacity`.

        Returns:
          `action` `[B]`; `action_weights` `[B, A]`, which sum to 1; and `search_tree`, a
          `dualmctx.Tree` with the statistics of T_S and T_L; its action axis has the kept actions
          only with `max_children`.
        """
        inputs = Inputs(root, recurrent_fn, refine_fn, invalid_actions)
        return search_multi_tree(
            self, params, rng_key, inputs, rounds=self.rounds, search_tree=search_tree
        )
