"""Serves requests: by priority, in batches of one kind, and in steps that others may interrupt."""

import itertools
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from dualmctx.errors import UserError
from dualmctx.evaluation.answers import error_row
from dualmctx.evaluation.batches import Inbox
from dualmctx.game_files.questions import Question, Row
from dualmctx.serving.requests import Request
from dualmctx.serving.tasks import EngineOptions, Planner, Program, Task, TaskSearch


class Setup(NamedTuple):
    """The fixed parts of a scheduler.

    Attributes:
      planner: chooses the programs of tasks.
      load: compiles a program, see `compile_search`.
      about: the answer to the command `version`.
      default: the search of requests without settings; `None` if there are none.
    """

    planner: Planner
    load: Callable[[Program], TaskSearch]
    about: Row
    default: TaskSearch | None = None

    @property
    def options(self) -> EngineOptions:
        """The options of the searches."""
        return self.planner.options


class Scheduler:
    """Requests that wait or run.

    Requests with the highest priority are served first. At equal priority, the programs take turns,
    and within a program the request that came first is first. Commands and invalid lines are
    answered at once.
    """

    def __init__(
        self, inbox: Inbox[Request], setup: Setup, write: Callable[[list[Row]], None]
    ) -> None:
        self._inbox, self._setup, self._write = inbox, setup, write
        self._order = itertools.count()
        self._tasks: dict[Program, list[Task]] = {}
        self._searches = CompiledSearches(setup)
        self._turns: dict[Program, int] = {}

    def run(self) -> None:
        """Serves requests until the input has ended and all of them are answered."""
        while True:
            requests = self._inbox.take(wait=not self._tasks)
            if not requests and not self._tasks:
                return
            for request in requests:
                self._receive(request)
            self._serve()

    def _serve(self) -> None:
        """Runs a step of the program whose turn it is."""
        heads = {program: min(map(_rank, tasks))[0] for program, tasks in self._tasks.items()}
        for program in sorted(heads, key=lambda x: (heads[x], self._turns.get(x, -1))):
            if self._searches.make_room(program, self._tasks):
                self._turns[program] = next(self._order)
                if len(self._turns) > 2 * (1 + self._setup.options.max_programs):
                    del self._turns[min(self._turns, key=self._turns.__getitem__)]
                self._run(program)
                return

    # Receiving

    def _receive(self, request: Request) -> None:
        question = request.question
        if question.error is not None:
            self._answer(request, error_row(question, question.error))
        elif request.command is not None:
            self._answer(request, self._obey(request))
        else:
            try:
                task = self._setup.planner.plan(request, next(self._order))
            except UserError as error:
                self._answer(request, error_row(question, str(error)))
            else:
                self._tasks.setdefault(task.program, []).append(task)

    def _answer(self, request: Request, row: Row) -> None:
        """Writes the last row of a request, and makes room for another one."""
        self._write([row])
        self._inbox.release(1, request.size)

    # Commands

    def _obey(self, request: Request) -> Row:
        """Carries out a command; returns its answer."""
        question = request.question
        row: Row = {"id": question.id, "line": question.line, "command": request.command}
        match request.command:
            case "cancel":
                target = str(request.target)
                return row | {"cancelled": self._cancel(lambda other: str(other.id) == target)}
            case "cancel_all":
                return row | {"cancelled": self._cancel(lambda other: True)}
            case "clear":
                self._searches.clear()
                return row
            case "status":
                return row | self._status()
            case _:
                return row | self._setup.about

    def _cancel(self, matches: Callable[[Question], bool]) -> int:
        """Ends requests that wait or run; returns their number."""
        found = [x for tasks in self._tasks.values() for x in tasks if matches(x.request.question)]
        for task in sorted(found, key=_rank):
            self._finish(task, is_cancelled=True)
        return len(found)

    def _status(self) -> Row:
        tasks = [task for tasks in self._tasks.values() for task in tasks]
        running = sum(task.started is not None for task in tasks)
        return {
            "waiting": len(tasks) - running,
            "running": running,
            "programs": len(self._searches),
            "kept_trees": self._searches.num_kept,
        }

    # Tasks

    def _run(self, program: Program) -> None:
        """Runs a step of the first tasks of a program."""
        try:
            search = self._searches.use(program)
        except UserError as error:
            for task in list(self._tasks[program]):
                self._fail(task, str(error))
            return
        tasks = sorted(self._tasks[program], key=_rank)[: self._setup.options.batch_size]
        begin = time.monotonic()
        for task in tasks:
            if task.started is None:
                task.started = task.reported = begin
        search.step(tasks)
        now = time.monotonic()
        for task in tasks:
            if task.is_finished(now, now - begin):
                self._finish(task)
            else:
                self._go_on(task, now)

    def _go_on(self, task: Task, now: float) -> None:
        """Reports an interim result if it is due, and chooses the next step."""
        every = task.analysis.report_every
        if every is not None and now - task.reported >= every:
            task.reported = now
            self._write([task.row(is_final=False)])
        before = task.program
        self._setup.planner.advance(task)
        if task.program != before:
            self._remove(task, before)
            self._tasks.setdefault(task.program, []).append(task)

    def _fail(self, task: Task, error: str) -> None:
        """Ends a task whose next step is not possible; a limit of time keeps the result so far."""
        if task.result is not None and task.analysis.max_time is not None:
            self._finish(task)
        else:
            self._remove(task, task.program)
            self._answer(task.request, error_row(task.request.question, error))

    def _finish(self, task: Task, *, is_cancelled: bool = False) -> None:
        """Writes the last row of a task."""
        question = task.request.question
        row: Row = {"id": question.id, "line": question.line}
        if task.result is not None:
            row = task.row(is_final=True)
        row |= {"cancelled": True} if is_cancelled else {}
        self._remove(task, task.program)
        self._searches.finish(task)
        self._answer(task.request, row)

    def _remove(self, task: Task, program: Program) -> None:
        self._tasks[program].remove(task)
        if not self._tasks[program]:
            del self._tasks[program]


def _rank(task: Task) -> tuple[int, int]:
    return task.rank


class CompiledSearches:
    """Compiled searches by program, the least recently used one first, and the default."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
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
          UserError: if it does not fit into memory.
        """
        if program.is_default:
            assert self._setup.default is not None
            return self._setup.default
        if program not in self._searches:
            self._searches[program] = self._setup.load(program)
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
        is_compiled = program.is_default or program in self._searches
        if is_compiled or len(self._searches) < self._setup.options.max_programs:
            return True
        priorities = {x: max(task.request.priority for task in y) for x, y in tasks.items()}
        unused = [x for x in self._searches if x not in tasks]
        lower = [x for x in self._searches if x in tasks and priorities[x] < priorities[program]]
        for dropped in (*unused, *sorted(lower, key=priorities.__getitem__))[:1]:
            search = self._searches.pop(dropped)
            for task in tasks.get(dropped, ()):
                search.finish(task)
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
