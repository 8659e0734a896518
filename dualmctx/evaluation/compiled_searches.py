"""The compiled searches of `dualmctx serve`, of which a limited number is kept."""

import ctypes
import gc
from collections import OrderedDict
from collections.abc import Callable

from dualmctx.evaluation.tasks import Program, Task, TaskSearch


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
