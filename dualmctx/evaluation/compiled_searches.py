"""Compiles the searches of tasks, and keeps a limited number of them."""

import ctypes
import gc
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

import jax

from dualmctx.errors import UserError
from dualmctx.evaluation.answers import answer
from dualmctx.evaluation.deepening_search import DeepeningSearch
from dualmctx.evaluation.evaluator import Evaluator
from dualmctx.evaluation.factory import build_evaluator
from dualmctx.evaluation.tasks import Program, Task, TaskSearch, total_simulations
from dualmctx.evaluation.tree_pool import TreePool, choose_pool_size
from dualmctx.runs.saved_network import Trained
from dualmctx.training.divergence import first_line


class RestartingSearch:
    """Tasks whose search cannot continue from its trees: each step is a search from the start.

    It runs steps with an evaluator; a `TaskSearch`.
    """

    num_kept = 0

    def __init__(self, evaluator: Evaluator) -> None:
        """Takes the evaluator of the search with the budget of a step."""
        assert evaluator.policy is not None
        self._evaluator = evaluator
        self._simulations = total_simulations(evaluator.policy)

    def step(self, tasks: list[Task]) -> None:
        """Searches from the start; see `TaskSearch`."""
        questions = [task.request.question for task in tasks]
        rows = [row for part in answer(self._evaluator, [questions]) for row in part.rows]
        for task, row in zip(tasks, rows, strict=True):
            task.result = lambda row=row: row
            task.is_over = row.get("action") is None
            task.simulations = self._simulations

    def finish(self, task: Task) -> None:
        """Does nothing, because there is no tree."""

    def clear(self) -> None:
        """Does nothing, because there are no trees."""


class SearchLoader(NamedTuple):
    """The network and the settings that all its compiled searches share.

    Attributes:
      trained: the network with its game.
      batch_size: the number of positions in a batch.
      max_simulations: the largest number of simulations of a position.
      tree_memory: bytes for the kept trees of each search.
      seed: seed of the random numbers.
      devices: the number of devices of searches that start anew; `None` for all.
    """

    trained: Trained
    batch_size: int
    max_simulations: int
    tree_memory: int
    seed: int = 0
    devices: int | None = None

    def load(self, program: Program) -> TaskSearch:
        """Compiles a program; see `scheduler.Setup`.

        Raises:
          ValueError: if it does not fit into memory.
        """
        try:
            return self._compile(program)
        except (jax.errors.JaxRuntimeError, MemoryError) as error:
            # The server goes on without this search.
            raise UserError(first_line(error)) from None

    def _compile(self, program: Program) -> TaskSearch:
        trained, policy, batch_size = self.trained, program.policy, self.batch_size
        if not program.deepens:
            return RestartingSearch(
                build_evaluator(
                    trained, policy, batch_size=batch_size, seed=self.seed, devices=self.devices
                )
            )
        size = choose_pool_size(
            trained,
            policy,
            max_simulations=self.max_simulations,
            batch_size=batch_size,
            num_bytes=self.tree_memory,
        )
        pool = TreePool(trained, policy, size, batch_size=batch_size, seed=self.seed)
        return DeepeningSearch(trained.env, pool)


class CompiledSearches:
    """Compiled searches by program, the least recently used one first."""

    def __init__(self, load: Callable[[Program], TaskSearch], max_programs: int) -> None:
        """Takes the function that compiles a program, and the largest number of programs kept."""
        self._load, self._max_programs = load, max_programs
        self._searches: OrderedDict[Program, TaskSearch] = OrderedDict()

    def __len__(self) -> int:
        return len(self._searches)

    @property
    def num_kept(self) -> int:
        """The number of kept trees."""
        return sum(search.num_kept for search in self._searches.values())

    def use(self, program: Program) -> TaskSearch:
        """Returns the search of a program, which is compiled if necessary.

        Raises:
          ValueError: if it does not fit into memory.
        """
        if program not in self._searches:
            self._searches[program] = self._load(program)
            release_memory()
        self._searches.move_to_end(program)
        return self._searches[program]

    def make_room(self, program: Program, tasks: dict[Program, list[Task]]) -> bool:
        """Returns whether a program is compiled or may be; drops another program if necessary.

        A program is dropped if it has no tasks, the least recently used one first, or if its tasks
        have a lower priority; these start again later.

        Args:
          program: the program of some of the tasks.
          tasks: the tasks of each program, at least one.
        """
        if program in self._searches or len(self._searches) < self._max_programs:
            return True
        priorities = {x: max(task.request.priority for task in y) for x, y in tasks.items()}
        unused = [x for x in self._searches if x not in tasks]
        lower = [x for x in self._searches if x in tasks and priorities[x] < priorities[program]]
        for dropped in (*unused, *sorted(lower, key=priorities.__getitem__))[:1]:
            search = self._searches.pop(dropped)
            for task in tasks.get(dropped, ()):
                search.finish(task)
                task.simulations = task.reused = 0
            return True
        return False

    def finish(self, task: Task) -> None:
        """Ends a task, whose program may not be compiled."""
        search = self._searches.get(task.program)
        if search is not None:
            search.finish(task)

    def clear(self) -> None:
        """Drops the trees of finished tasks."""
        for search in self._searches.values():
            search.clear()


def release_memory() -> None:
    """Frees dropped programs and trees, and gives free memory of this process back to the system.

    The compilation of a search needs hundreds of MB for a moment. The allocator of glibc keeps
    them, in pieces that it can seldom use again, so that a server would grow with each compilation.
    Other systems have no such function; there, only the garbage is collected.
    """
    gc.collect()
    trim = _find_trim()
    if trim is not None:
        trim(0)


def _find_trim() -> Callable[[int], int] | None:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return None
