"""Tasks: requests with a search of their own, which runs in steps."""

import abc
import dataclasses
import math
from collections.abc import Callable
from typing import NamedTuple

from dualmctx.errors import UserError
from dualmctx.game_files.questions import Row
from dualmctx.policies import Contempt, named_options, with_options
from dualmctx.policies.several_trees import SeveralTrees
from dualmctx.runs.saved_policy import with_simulations
from dualmctx.serving.requests import Analysis, Request
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
    number = len(rounds)
    # If n does not divide the number of rounds, the repetition is shorter than the rounds, so it is
    # not equal to them.
    periods = [n for n in range(1, number + 1) if rounds[:n] * (number // n) == rounds]
    fitting = [n for n in periods if sum(map(sum, rounds[:n])) <= size]
    return policy.with_rounds(rounds[: max(fitting, default=periods[0])])


def total_simulations(policy: Policy) -> int:
    """Returns the simulations of all trees together."""
    return sum(tree_budgets(policy))


def to_bucket(policy: Policy, num_simulations: int, size: int) -> Policy:
    """Returns a search with a rounded budget, so that few programs serve all budgets.

    It is the smallest budget of `size`, 2 `size`, 4 `size`, … with `num_simulations` for all trees.
    """
    doublings = max(0, math.ceil(math.log2(num_simulations / size)))
    return with_simulations(policy, size * 2**doublings)


class Program(NamedTuple):
    """A search to compile for tasks of one kind, which share batches.

    Attributes:
      policy: the search of one step, without noise; `None` for that of requests without settings.
      deepens: whether steps continue from trees; otherwise each step is a search from the start.
    """

    policy: Policy | None
    deepens: bool

    @property
    def is_default(self) -> bool:
        """Whether it is the search of requests without settings, which have one step."""
        return self.policy is None


DEFAULT = Program(None, deepens=False)
"""The search of requests without settings."""


@dataclasses.dataclass(eq=False)
class Task:
    """A request in progress.

    Attributes:
      request: the request.
      order: its number in the order of arrival.
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
        """The settings of the search; of the default search, those without any limit."""
        return self.request.analysis or Analysis()

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
        """Returns the result so far with the state of the search.

        An error, and the result of a request without settings, stay as they are.
        """
        assert self.result is not None
        row = self.result()
        if "error" in row or self.request.analysis is None:
            return row
        state = {"final": is_final, "simulations": self.simulations, "reused": self.reused}
        return row | state


class TaskSearch(abc.ABC):
    """A compiled program, which runs the steps of tasks; one without trees has nothing to keep."""

    num_kept: int = 0
    """The number of kept trees."""

    @abc.abstractmethod
    def step(self, tasks: list[Task]) -> None:
        """Runs a step of at most a batch of tasks, and updates them."""

    def finish(self, task: Task) -> None:  # noqa: B027
        """Ends a task, whether it has had a step or not."""

    def clear(self) -> None:  # noqa: B027
        """Drops the trees of finished tasks."""


class EngineOptions(NamedTuple):
    """The options of the searches of a network.

    Attributes:
      batch_size: the number of positions that are searched at once.
      max_simulations: the largest number of simulations of a position.
      tree_memory: bytes for the kept trees of each search.
      seed: seed of the random numbers of searches.
      chunk_size: about the number of simulations of a step.
      max_programs: the largest number of compiled searches; the least recently used one is dropped.
      devices: the number of devices of searches that start anew; `None` for all.
    """

    batch_size: int = 2
    max_simulations: int = 2000
    tree_memory: int = 2**26
    seed: int = 0
    chunk_size: int = 32
    max_programs: int = 8
    devices: int | None = 1


class Planner(NamedTuple):
    """Chooses the programs of tasks.

    Attributes:
      build: builds the search that a request names; `None` for the default search. Raises a
        UserError if there is no such search.
      options: the options of the searches.
      is_exact: whether budgets that a step would exceed, and those of searches that start anew, get
        a program of their own. Otherwise they are rounded up, so that few programs serve them all.
    """

    build: Callable[[str | None], Policy]
    options: EngineOptions
    is_exact: bool = False

    def plan(self, request: Request, order: int) -> Task:
        """Returns the task of a request.

        Raises:
          UserError: if the network has no such search, or its budget is too large.
        """
        analysis = request.analysis
        if analysis is None:
            return Task(request, order, DEFAULT, 0)
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
            if target < 1:
                raise UserError(f"simulations is {list(numbers)}; the sum must be at least 1")
        elif analysis.max_time is not None:
            target = self.options.max_simulations
        self._check(target, "simulations")
        if self.is_exact and can_deepen(policy):
            chunk = to_chunk(policy, self.options.chunk_size)
            if target < total_simulations(chunk):
                policy = with_simulations(policy, target)
        program = self._first_program(policy, target, analysis)
        return Task(request, order, program, target)

    def _first_program(self, policy: Policy, target: int, analysis: Analysis) -> Program:
        if can_deepen(policy):
            chunk = to_chunk(policy, self._chunk_size(policy))
            self._check(total_simulations(chunk), "a round of the search")
            return Program(chunk, deepens=True)
        # Without a limit of time, smaller searches would be of no use.
        is_staged = analysis.max_time is not None or analysis.report_every is not None
        if self.is_exact and not is_staged:
            return Program(with_simulations(policy, target), deepens=False)
        first = min(target, self.options.chunk_size) if is_staged else target
        return Program(to_bucket(policy, first, self.options.chunk_size), deepens=False)

    def _chunk_size(self, policy: Policy) -> int:
        size = total_simulations(policy)
        return min(size, self.options.chunk_size) if self.is_exact else self.options.chunk_size

    def _check(self, number: int, name: str) -> None:
        most = self.options.max_simulations
        if number > most:
            raise UserError(
                f"{name} is {number}; it must be at most {most}, unless the server is started with"
                " a larger --max-simulations"
            )

    def advance(self, task: Task) -> None:
        """Chooses the program of the next step of a task that is not finished."""
        policy = task.program.policy
        if policy is not None and not task.program.deepens:
            policy = to_bucket(policy, 2 * total_simulations(policy), self.options.chunk_size)
            task.program = Program(policy, deepens=False)
