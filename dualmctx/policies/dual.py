"""Dual MCTS with two trees or more, and MPV-MCTS, whose trees two separate networks grow."""

import dataclasses
import itertools
from typing import Any, Literal, Self

from dualmctx.checks import are_counts, check, check_choice, check_count, show
from dualmctx.policies.options import Backup, Execution, Puct, Root, with_options
from dualmctx.policies.several_trees import (
    ActionWeights,
    SeveralTrees,
    check_budgets,
    check_rounds,
)
from dualmctx.search.simulate import even_rounds
from dualmctx.search.spec import Rounds
from dualmctx.types import Traits


@dataclasses.dataclass(frozen=True)
class Dual(SeveralTrees):
    """The search of Dual MCTS; called like a policy of mctx, with an additional `refine_fn`.

    The small tree T_sub is tree 0, which `recurrent_fn` evaluates by the intermediate head. The
    large tree T_full is tree 1, which `refine_fn` evaluates by the final head. The output of the
    final head is always mixed with that of the intermediate head for the same state.

    With b_full = 0 the tree equals AlphaZero's with the intermediate head, and with b_sub = 0
    AlphaZero's with the final head. Only one tree then has visits, so `all_visits` and, without a
    window, `small_visits` give AlphaZero's policy.

    Raises:
      ValueError: if an option is out of range, or if options conflict.

    Source: Kadam, Xu, Lieberherr 2021 (arXiv 2103.11517), section 3. `dualmctx/README.md` lists our
    readings where the paper is silent or contradicts itself.
    """

    num_simulations: tuple[int, int] = (50, 35)
    """Simulations per search in each tree, b_sub and b_full, not counting the evaluations of the
    roots."""
    num_rounds: int = 5
    """Number of rounds, from 1 (first the small tree, then the large one) to b_full
    (interleaved)."""

    @classmethod
    def paper(cls, **changes: Any) -> Self:
        """Returns the setting of the paper, which does not follow the defaults.

        The paper states the budgets, their order and the smoothed visits of the large tree. For the
        other options it gives no number, and these are our readings. The window depends on the
        size of the game, so it is left to the caller: `window=window_for(num_states, max_depth)`.
        The paper runs the whole network for the large tree, which is an option of the search
        function and not of the policy: `keep_activations=False`.

        Args:
          **changes: other values of options by short name, as in `dualmctx.with_options`.

        Raises:
          ValueError: if there is no such option, or if a value or combination is invalid.

        Source: Kadam, Xu, Lieberherr 2021, sections 3 and 4, Algorithm 2 and eq. 2.
        """
        # Every option is given: a later change of a default must not change this setting.
        setting = cls(
            num_simulations=(50, 35),
            num_rounds=1,
            value_mix=0.25,
            prior_mix=0.25,
            action_weights="large_visits",
            puct=Puct(c_puct=1.25, regularized=(), minimax_mix=0.0, rave_visits=None),
            root=Root(
                dirichlet_fraction=0.25,
                dirichlet_alpha=0.3,
                temperature=1.0,
                visit_weights="plain",
            ),
            backup=Backup(window=None, explore_fraction=0.05, explore_decay=0.5),
            execution=Execution(
                max_depth=None,
                max_children=None,
                leaves_per_step=1,
                virtual_loss=0,
                speculation=1,
                kernels="auto",
            ),
            reuse_capacity=0,
        )
        return with_options(setting, **changes)

    def __post_init__(self) -> None:
        """Checks the options."""
        super().__post_init__()
        remedy = "two numbers, each at least 0, not both 0"
        check_budgets(self.num_simulations, lambda x: len(x) == 2 and sum(x) >= 1, remedy)
        large = self.num_simulations[1]
        if large > 0:
            check_rounds(self.num_rounds, large, f"the large tree's {large} simulations")
        check_count("num_rounds", self.num_rounds, 1)

    @property
    def rounds(self) -> Rounds:
        """The simulations of each tree in each round."""
        # Without simulations of the large tree, the number of rounds has no effect.
        number = self.num_rounds if self.num_simulations[1] > 0 else 1
        return even_rounds(self.num_simulations, number)


@dataclasses.dataclass(frozen=True)
class Chain(SeveralTrees):
    """Dual MCTS with K trees by K heads of one network; called like a policy of mctx.

    The first head grows tree 0. In each round, tree k = 1 … K − 1 then evaluates, by head k, its
    share of the best nodes that it has not evaluated yet. The outputs of the heads for a node are
    mixed in the order of evaluation:

        V ← α V + (1 − α) v_k;   P ← β P + (1 − β) p_k

    Each change of V is backed up in all earlier trees that have visited the node. K = 2 is `Dual`.

    Raises:
      ValueError: if an option is out of range, or if options conflict.

    Source: Kadam, Xu, Lieberherr 2021 (arXiv 2103.11517), section 6, which only mentions the idea.
    Our readings: a tree may evaluate any existing node, in the order of the visits in the previous
    tree, then of the visits in the tree before that; a node that a later head has already evaluated
    is added to a tree unchanged.
    """

    num_simulations: tuple[int, ...] = (40, 25, 20)
    """Simulations per search in each of the K trees, first to last; K at least 2, each at least 1.
    The evaluations of the roots are not counted."""
    num_rounds: int = 5
    """Number of rounds, from 1 (one tree after the other) to the largest budget of a later tree
    (interleaved)."""

    def __post_init__(self) -> None:
        """Checks the options."""
        super().__post_init__()
        remedy = "two numbers or more, one for each tree, each at least 1"
        check_budgets(self.num_simulations, lambda x: len(x) >= 2 and min(x) >= 1, remedy)
        most = max(self.num_simulations[1:])
        check_rounds(self.num_rounds, most, f"the {most} simulations of a later tree")

    @property
    def rounds(self) -> Rounds:
        """The simulations of each tree in each round."""
        return even_rounds(self.num_simulations, self.num_rounds)


def in_rounds(num_simulations: tuple[int, int], num_rounds: int) -> tuple[int, ...]:
    """Returns a schedule of even rounds, as in `Dual`: 0 for a small step, 1 for a large step."""
    return _steps(even_rounds(num_simulations, num_rounds))


def _steps(rounds: Rounds) -> tuple[int, ...]:
    return tuple(step for shares in rounds for i, n in enumerate(shares) for step in (i,) * n)


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
        budgets = tuple(map(sum, zip(*rounds, strict=True)))
        # Checked before a step for each simulation is listed.
        policy = dataclasses.replace(self, num_simulations=budgets, schedule="small_first")
        schedule = self.schedule if isinstance(self.schedule, str) else _steps(rounds)
        changes: dict[str, Any] = {"num_simulations": budgets, "schedule": schedule}
        return dataclasses.replace(policy, **changes)

    @property
    def traits(self) -> Traits:
        """The rounds, the capacity for nodes reused between moves, and two separate networks."""
        return Traits(
            num_rounds=len(self.rounds), reuse_capacity=self.reuse_capacity, separate_trunks=True
        )
