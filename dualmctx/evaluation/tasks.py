"""Tasks: requests with a search of their own, which runs in steps."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from dualmctx.errors import UserError
from dualmctx.evaluation.questions import Question, Row
from dualmctx.evaluation.requests import Analysis, Request
from dualmctx.policies import Contempt, named_options, with_options
from dualmctx.policies.several_trees import SeveralTrees
from dualmctx.runs.saved_policy import with_simulations
from dualmctx.search.rounds import Rounds
from dualmctx.types import Policy, tree_budgets


def can_deepen(policy: Policy) -> bool:
    """Returns whether a search can continue from its own trees.

    Gumbel cannot, because Sequential Halving plans the budget of the whole search. Search-contempt
    with a limit cannot, because a search that starts from a tree freezes the visits it finds there.
    """
    if isinstance(policy, Contempt) and policy.frozen_visit_limit is not None:
        return False
    has_rounds = len(tree_budgets(policy)) == 1 or isinstance(policy, SeveralTrees)
    return has_rounds and "reuse_capacity" in named_options(policy)


def to_chunk(policy: Policy, size: int) -> Policy:
    """Returns the part of a search that runs without interruption.

    With one tree, it has `size` simulations. With several trees, it has the largest number of
    rounds with at most `size` simulations, but at least one round. Only numbers of rounds after
    which the schedule repeats are considered, so that the rounds of several chunks are the rounds
    of one search.

    Args:
      policy: the search; `can_deepen` is true for it.
      size: simulations of all trees, at least 1.

    Returns:
      The search of a chunk, without a capacity for reused nodes.
    """
    if len(tree_budgets(policy)) == 1:
        return with_options(policy, num_simulations=size)
    assert isinstance(policy, SeveralTrees)
    rounds = policy.rounds
    periods = [n for n in range(1, len(rounds) + 1) if _repeats(rounds, n)]
    fitting = [n for n in periods if sum(map(sum, rounds[:n])) <= size]
    return policy.with_rounds(rounds[: max(fitting, default=periods[0])])


def _repeats(rounds: Rounds, number: int) -> bool:
    """Returns whether the rounds are a whole number of repetitions of the first `number`."""
    return len(rounds) % number == 0 and rounds[:number] * (len(rounds) // number) == rounds


def total_simulations(policy: Policy) -> int:
    """Returns the simulations of all trees together."""
    return sum(tree_budgets(policy))


def keeping_trees(chunk: Policy, num_simulations: int) -> Policy:
    """Returns a chunk that continues from trees with up to `num_simulations` simulations."""
    return with_options(chunk, reuse_capacity=num_simulations)


def to_bucket(policy: Policy, num_simulations: int, size: int) -> Policy:
    """Returns a search with a rounded budget, so that few programs serve all budgets.

    It is the smallest budget of `size`, 2 `size`, 4 `size`, … with `num_simulations` for all trees.
    """
    doublings = max(0, math.ceil(math.log2(num_simulations / size)))
    return with_simulations(policy, size * 2**doublings)


class Program(NamedTuple):
    """A search to compile for tasks of one kind, which share batches.

    Attributes:
      policy: the search of one step, without noise.
      deepens: whether steps continue from trees; otherwise each step is a search from the start.
    """

    policy: Policy
    deepens: bool


@dataclasses.dataclass(eq=False)
class Task:
    """A request in progress.

    Attributes:
      request: the request.
      order: its number in the order of arrival.
      policy: the search, with the budget of one whole search.
      program: the program of the next step.
      target: the number of simulations after which the task is finished.
      simulations: simulations of all trees of the position so far.
      reused: those that were in a kept tree when the task began.
      started: the time of the first step in seconds, from any origin; `None` before it.
      reported: the time of the last report, or of the first step.
      is_over: whether further steps would change nothing: the game is over, or there is an error.
      result: returns the row of the result so far; `None` before the first step.
    """

    request: Request
    order: int
    policy: Policy
    program: Program
    target: int
    simulations: int = 0
    reused: int = 0
    started: float | None = None
    reported: float = 0.0
    is_over: bool = False
    result: Callable[[], Row] | None = None

    @property
    def rank(self) -> tuple[int, int]:
        """Tasks with a smaller rank are served first."""
        return -self.request.priority, self.order

    @property
    def analysis(self) -> Analysis:
        """The settings of the search."""
        assert self.request.analysis is not None
        return self.request.analysis

    def is_finished(self, now: float, duration: float) -> bool:
        """Returns whether a limit is reached, or another step would exceed the limit of time.

        Args:
          now: the time after the last step, in seconds, from the origin of `started`.
          duration: the seconds that the last step took.
        """
        assert self.started is not None
        # A search from the start has twice the budget of the one before it.
        expected = duration if self.program.deepens else 2 * duration
        limit = self.analysis.max_time
        is_late = limit is not None and now - self.started + expected > limit
        return self.is_over or self.simulations >= self.target or is_late

    def row(self, *, is_final: bool) -> Row:
        """Returns the result so far with the state of the search; an error stays as it is."""
        assert self.result is not None
        row = self.result()
        if "error" in row:
            return row
        state: dict[str, Any] = {"final": is_final, "simulations": self.simulations}
        return row | state | {"reused": self.reused}


def cancelled_row(question: Question) -> Row:
    """Returns the row of a request that was cancelled before its first step."""
    return {"id": question.id, "line": question.line, "cancelled": True}


class TaskSearch(Protocol):
    """A compiled program, which runs the steps of tasks."""

    def step(self, tasks: list[Task]) -> None:
        """Runs a step of at most a batch of tasks, and updates them."""
        ...

    def finish(self, task: Task) -> None:
        """Ends a task, whether it has had a step or not."""
        ...

    def clear(self) -> None:
        """Drops the trees of finished tasks."""
        ...

    @property
    def num_kept(self) -> int:
        """The number of kept trees."""
        ...


class Planner(NamedTuple):
    """Chooses the programs of tasks.

    Attributes:
      build: builds the search that a request names; `None` for the default search. Raises a
        ValueError if there is no such search.
      chunk_size: about the number of simulations of a step.
      max_simulations: the largest number of simulations of a position.
      is_exact: whether budgets that a step would exceed, and those of searches that start anew, get
        a program of their own. Otherwise they are rounded up, so that few programs serve them all.
    """

    build: Callable[[str | None], Policy]
    chunk_size: int
    max_simulations: int
    is_exact: bool = False

    def plan(self, request: Request, analysis: Analysis, order: int) -> Task:
        """Returns the task of a request.

        Raises:
          ValueError: if the network has no such search, or its budget is too large.
        """
        policy, numbers = self.build(analysis.variant), analysis.simulations
        if numbers is not None and len(numbers) > 1:
            if len(tree_budgets(policy)) == 1:
                raise UserError(
                    f"simulations is {list(numbers)}; the search has one tree, so it must be a"
                    " single number"
                )
            policy = with_simulations(policy, numbers)
        target = total_simulations(policy)
        if numbers is not None:
            target = sum(numbers)
        elif analysis.max_time is not None:
            target = self.max_simulations
        self._check(target, "simulations")
        if (
            self.is_exact
            and can_deepen(policy)
            and target < total_simulations(to_chunk(policy, self.chunk_size))
        ):
            policy = with_simulations(policy, target)
        program = self._first_program(policy, target, analysis)
        return Task(request, order, policy, program, target)

    def _first_program(self, policy: Policy, target: int, analysis: Analysis) -> Program:
        if can_deepen(policy):
            chunk = to_chunk(policy, self._chunk_size(policy))
            self._check(total_simulations(chunk), "a round of the search")
            return Program(chunk, deepens=True)
        # Without a limit of time, smaller searches would be of no use.
        is_staged = analysis.max_time is not None or analysis.report_every is not None
        if self.is_exact and not is_staged:
            return Program(with_simulations(policy, target), deepens=False)
        first = min(target, self.chunk_size) if is_staged else target
        return Program(to_bucket(policy, first, self.chunk_size), deepens=False)

    def _chunk_size(self, policy: Policy) -> int:
        size = total_simulations(policy)
        return min(size, self.chunk_size) if self.is_exact else self.chunk_size

    def _check(self, number: int, name: str) -> None:
        if number > self.max_simulations:
            raise UserError(
                f"{name} is {number}; it must be at most {self.max_simulations}, unless the server"
                " is started with a larger --max-simulations"
            )

    def advance(self, task: Task) -> None:
        """Chooses the program of the next step of a task that is not finished."""
        if not task.program.deepens:
            budget = 2 * total_simulations(task.program.policy)
            policy = to_bucket(task.policy, budget, self.chunk_size)
            task.program = Program(policy, deepens=False)
