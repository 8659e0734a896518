"""MPV-MCTS: a small network looks ahead, and a separate large one evaluates what it found."""

import dataclasses
import itertools
from typing import ClassVar, Literal, Self

import chex
import mctx

from dualmctx.checks import are_counts, check, show
from dualmctx.policies.options import Puct
from dualmctx.policies.top_actions import Inputs
from dualmctx.policies.trees import Weights, check_budgets, check_trees, search_trees
from dualmctx.search.simulate import Rounds, even_rounds
from dualmctx.search.tree import Tree
from dualmctx.types import Params, RecurrentFn, RefineFn


def in_rounds(num_simulations: tuple[int, int], num_rounds: int) -> tuple[int, ...]:
    """Returns a schedule in rounds as even as Dual's: 0 for a small slot, 1 for a large one."""
    rounds = even_rounds(num_simulations, num_rounds)
    return tuple(slot for small, large in rounds for slot in (0,) * small + (1,) * large)


@dataclasses.dataclass(frozen=True)
class MPV:
    """Multiple-policy-value MCTS with two separate networks; called like a policy of mctx.

    The b_S + b_L slots of a search come in the order of `schedule`. A small slot is a PUCT
    simulation of T_S by the small network. A large slot evaluates, by the large network, the node
    that T_L lacks and T_S counts most; where there is none, it is a PUCT simulation of T_L. Large
    slots in a row depend on T_S alone, so they are one call: every schedule is a sequence of
    rounds, and the search is that of `Dual`, with nothing that one network could hand to the other.
    A call is as wide as the longest run of large slots, however short the others are.

    Raises:
      ValueError: when an option is out of range, in one line.

    Source: Lan, Li, Wei, Wu 2019 (arXiv 1905.13521), Algorithm 2. Its mixing weights and its rule
    for the final move are options here. Readings: the large network evaluates the root before the
    first slot, and nodes that T_L finds by itself are evaluated by both.
    """

    num_simulations: tuple[int, int] = (50, 35)
    """Budgets b_S and b_L, each at least 1; the roots' own evaluations apart."""
    schedule: Literal["small_first", "interleaved"] | tuple[int, ...] = "interleaved"
    """The order of the slots: all small ones first; the small ones evenly between the large ones;
    or for each slot 0 for small or 1 for large, as many of each as the budgets say."""
    value_mix: float = 0.25
    """Weight of the small network's value where both networks evaluated a state; alpha."""
    prior_mix: float = 0.25
    """Weight of the small network's policy likewise; beta."""
    action_weights: Weights = "regularized"
    """The policy returned: the regularised policy of the large tree's Q; the large tree's visits,
    smoothed; the visits of both trees; or those of the small tree, whose values the large network
    has corrected."""
    puct: Puct = dataclasses.field(default_factory=Puct)
    """How both trees are searched."""
    reuse_capacity: int = 0
    """Room for nodes of the last move's trees, the root apart; 0 starts every search afresh."""

    heads = (0, -1)
    """The networks that it evaluates: the first by `recurrent_fn`, the last by `refine_fn`."""
    separate_trunks: ClassVar[bool] = True
    """Whether the heads are meant to be networks of their own."""

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
        check_trees(self)

    @property
    def rounds(self) -> Rounds:
        """The shares of both trees in each round; a round is small slots, then large ones."""
        if self.schedule == "small_first":
            return (self.num_simulations,)
        if isinstance(self.schedule, str):
            return even_rounds(self.num_simulations, self.num_simulations[1])
        runs = [(slot, len(list(run))) for slot, run in itertools.groupby(self.schedule)]
        runs = [(0, 0)] * (runs[0][0] == 1) + runs + [(1, 0)] * (runs[-1][0] == 0)
        lengths = [length for _, length in runs]
        return tuple(zip(lengths[::2], lengths[1::2], strict=True))

    @property
    def num_rounds(self) -> int:
        """How many rounds the schedule has."""
        return len(self.rounds)

    def for_evaluation(self) -> Self:
        """Returns the policy as it is for evaluation: no noise at the root, the best action."""
        return dataclasses.replace(self, puct=self.puct.for_evaluation())

    def __call__(
        self,
        params: Params,
        rng_key: chex.PRNGKey,
        root: mctx.RootFnOutput,
        recurrent_fn: RecurrentFn,
        refine_fn: RefineFn,
        *,
        invalid_actions: chex.Array | None = None,
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
          search_tree: what `dualmctx.get_subtree` made of the last move's trees, to go on from; the
            roots of elements that have none come from `root`. Needs `reuse_capacity`.

        Returns:
          `action` `[B]`; `action_weights` `[B, A]`, which sum to 1; and `search_tree`, a
          `dualmctx.Tree` with the layers T_S and T_L; over slots in place of actions with
          `max_children`.
        """
        inputs = Inputs(root, recurrent_fn, refine_fn, invalid_actions)
        return search_trees(
            self, params, rng_key, inputs, rounds=self.rounds, search_tree=search_tree
        )
