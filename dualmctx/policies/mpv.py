"""MPV-MCTS: a small network grows a tree, and a separate large network evaluates its best nodes."""

import dataclasses
import itertools
from typing import Literal, Self

import mctx
from jax import Array

from dualmctx.checks import are_counts, check, check_choice, show
from dualmctx.policies.call_checks import checked_init, composed
from dualmctx.policies.multi_tree import (
    ActionWeights,
    SeveralTrees,
    check_budgets,
    init_multi_tree,
)
from dualmctx.policies.top_actions import Inputs
from dualmctx.search.phases import SearchState
from dualmctx.search.rounds import Rounds, even_rounds
from dualmctx.search.tree import Tree
from dualmctx.types import Params, RecurrentFn, RefineFn, Traits


def in_rounds(num_simulations: tuple[int, int], num_rounds: int) -> tuple[int, ...]:
    """Returns a schedule of even rounds, as in `Dual`: 0 for a small step, 1 for a large step."""
    return _steps(even_rounds(num_simulations, num_rounds))


def _steps(rounds: Rounds) -> tuple[int, ...]:
    """Returns the schedule of rounds."""
    return tuple(step for small, large in rounds for step in (0,) * small + (1,) * large)


@dataclasses.dataclass(frozen=True)
class MPV(SeveralTrees):
    """Multiple-policy-value MCTS with two separate networks; called like a policy of mctx.

    A search has b_S + b_L steps, in the order of `schedule`. A small step is a PUCT simulation of
    the small tree T_S by the small network. A large step takes, of the nodes of T_S that the large
    tree T_L lacks, the one with the most visits in T_S, and evaluates it by the large network; if
    there is none, it is a PUCT simulation of T_L. Consecutive large steps depend on T_S alone, so
    they run as one call. Every schedule is therefore a sequence of rounds, and the search is that
    of `Dual`, except that no activations pass from one network to the other. The width of all calls
    is that of the longest run of large steps.

    Raises:
      ValueError: if an option is out of range, or if options conflict.

    Source: Lan, Li, Wei, Wu 2019 (arXiv 1905.13521), Algorithm 2. Its mixing weights and its rule
    for the final move are options here. Our readings: the large network evaluates the root before
    the first step, and both networks evaluate the nodes that T_L creates.
    """

    num_simulations: tuple[int, int] = (50, 35)
    """Simulations per search in each tree, b_S and b_L, each at least 1, not counting the
    evaluations of the roots."""
    schedule: Literal["small_first", "interleaved"] | tuple[int, ...] = "interleaved"
    """The order of the steps. small_first: all small steps, then the large ones. interleaved: the
    small steps spread evenly between the large ones. Or a number for each step, 0 for small and 1
    for large, with b_S zeros and b_L ones."""
    action_weights: ActionWeights = dataclasses.field(default="regularized", kw_only=True)
    """The policy returned. regularized: the regularised policy from the Q-values of the large tree.
    large_visits: smoothed visits of the large tree. all_visits: visits of both trees. small_visits:
    visits of the small tree, whose values the large network has corrected."""

    heads = (0, -1)
    """The networks that the policy evaluates: the first by `recurrent_fn`, the last by
    `refine_fn`."""

    def __post_init__(self) -> None:
        """Checks the options."""
        super().__post_init__()
        remedy = "two numbers, each at least 1"
        check_budgets(self.num_simulations, lambda x: len(x) == 2 and min(x) >= 1, remedy)
        (small, large), schedule = self.num_simulations, self.schedule
        if isinstance(schedule, str):
            others = ", or 0 or 1 for each step"
            check_choice("schedule", schedule, ("small_first", "interleaved"), others)
        else:
            remedy = f"{small} times 0 and {large} times 1"
            is_valid = are_counts(schedule) and sorted(schedule) == [0] * small + [1] * large
            check(is_valid, "schedule", show(schedule), remedy)

    @property
    def rounds(self) -> Rounds:
        """The simulations of both trees in each round, which has small steps, then large steps."""
        if self.schedule == "small_first":
            return (self.num_simulations,)
        if isinstance(self.schedule, str):
            return even_rounds(self.num_simulations, self.num_simulations[1])
        runs = [(step, len(list(run))) for step, run in itertools.groupby(self.schedule)]
        runs = [(0, 0)] * (runs[0][0] == 1) + runs + [(1, 0)] * (runs[-1][0] == 0)
        lengths = [length for _, length in runs]
        return tuple(zip(lengths[::2], lengths[1::2], strict=True))

    def with_rounds(self, rounds: Rounds) -> Self:
        """Returns the policy with other rounds; a named schedule keeps its name."""
        small, large = map(sum, zip(*rounds, strict=True))
        schedule = self.schedule if isinstance(self.schedule, str) else _steps(rounds)
        return dataclasses.replace(self, num_simulations=(small, large), schedule=schedule)

    @property
    def traits(self) -> Traits:
        """The rounds, the capacity for nodes reused between moves, and two separate networks."""
        return Traits(
            num_rounds=len(self.rounds), reuse_capacity=self.reuse_capacity, separate_trunks=True
        )

    @checked_init
    def init(
        self,
        params: Params,
        rng_key: Array,
        root: mctx.RootFnOutput,
        recurrent_fn: RecurrentFn,
        refine_fn: RefineFn,
        *,
        invalid_actions: Array | None = None,
        search_tree: Tree | None = None,
    ) -> SearchState:
        """Sets up a search from a batch of roots.

        Args:
          params: passed on to `recurrent_fn` and `refine_fn`.
          rng_key: consumed.
          root: `[B]` roots evaluated by the small network.
          recurrent_fn: as in mctx, by the small network; its logits must mask illegal actions.
          refine_fn: evaluates embeddings by the large network; its logits must mask illegal
            actions.
          invalid_actions: `[B, A]` true for actions that are not allowed at the root.
          search_tree: the previous move's trees, as returned by `dualmctx.get_subtree`; elements
            without a subtree start from `root`. Requires `reuse_capacity`.

        Returns:
          The state before the first step; see `output` for the result.
        """
        inputs = Inputs(root, recurrent_fn, refine_fn, invalid_actions)
        return init_multi_tree(self, params, rng_key, inputs, search_tree=search_tree)

    __call__ = composed(init)
