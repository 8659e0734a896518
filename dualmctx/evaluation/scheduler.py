"""Serves requests: by priority, in batches of one kind, and in steps that others may interrupt."""

import heapq
import itertools
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from dualmctx.errors import UserError
from dualmctx.evaluation.answers import error_row
from dualmctx.evaluation.compiled_searches import CompiledSearches
from dualmctx.evaluation.questions import Question, Row
from dualmctx.evaluation.requests import Analysis, Inbox, Request
from dualmctx.evaluation.tasks import Planner, Program, Task, TaskSearch, cancelled_row


class Setup(NamedTuple):
    """The fixed parts of a scheduler.

    Attributes:
      planner: chooses the programs of tasks.
      load: compiles a program. Raises a ValueError if it does not fit into memory.
      batch_size: the largest number of positions in a batch.
      max_programs: the largest number of programs that are kept.
      about: the answer to the command `version`.
    """

    planner: Planner
    load: Callable[[Program], TaskSearch]
    batch_size: int
    max_programs: int
    about: Row


class Scheduler:
    """Requests that wait or run.

    Plain requests have no settings of their own. They wait for `batches`, whose caller evaluates
    them. The other requests are tasks, which run here. Requests with the highest priority are
    served first. At equal priority, the plain requests and the programs of tasks take turns, and
    within these the request that came first is first. Commands and invalid lines are answered at
    once.
    """

    def __init__(self, inbox: Inbox, setup: Setup, write: Callable[[list[Row]], None]) -> None:
        """Takes the source of requests, the setup and the writer of the tasks' rows."""
        self._inbox, self._setup, self._write = inbox, setup, write
        self._order = itertools.count()
        self._plain: list[tuple[int, int, Request]] = []
        self._sizes: deque[int] = deque()
        self._tasks: dict[Program, list[Task]] = {}
        self._searches = CompiledSearches(setup.load, setup.max_programs)
        self._turns: dict[Program | None, int] = {}

    def batches(self) -> Iterator[list[Question]]:
        """Yields batches of plain questions for `answers.answer`, and runs tasks between them.

        An empty batch asks the caller to finish the batch in progress.
        """
        while True:
            is_idle = not self._plain and not self._tasks
            if is_idle and self._inbox.is_empty:
                yield []
            requests = self._inbox.take(wait=is_idle)
            if is_idle and not requests:
                return
            for request in requests:
                self._receive(request)
            yield from self._serve()

    def release(self, number: int) -> None:
        """Makes room for more requests: `number` plain questions have been answered."""
        self._inbox.release(number, sum(self._sizes.popleft() for _ in range(number)))

    def _serve(self) -> Iterator[list[Question]]:
        """Serves the requests whose turn it is, if there are any."""
        heads = {key: min(tasks, key=_rank).rank[0] for key, tasks in self._tasks.items()}
        plain = {None: self._plain[0][0]} if self._plain else {}
        turns: dict[Program | None, int] = {**plain, **heads}
        for key in sorted(turns, key=lambda key: (turns[key], self._turns.get(key, -1))):
            if key is None:
                self._take_turn(None)
                yield self._pop_plain()
                return
            if self._searches.make_room(key, self._tasks):
                self._take_turn(key)
                yield []
                self._run(key)
                return

    def _take_turn(self, key: Program | None) -> None:
        self._turns[key] = next(self._order)
        if len(self._turns) > 2 * (1 + self._setup.max_programs):
            del self._turns[min(self._turns, key=self._turns.__getitem__)]

    def _pop_plain(self) -> list[Question]:
        number = min(len(self._plain), self._setup.batch_size)
        requests = [heapq.heappop(self._plain)[2] for _ in range(number)]
        self._sizes.extend(request.size for request in requests)
        return [request.question for request in requests]

    # Receiving

    def _receive(self, request: Request) -> None:
        if request.question.error is not None:
            self._answer(request, error_row(request.question, request.question.error))
        elif request.command is not None:
            self._answer(request, self._obey(request))
        elif request.analysis is not None:
            self._add_task(request, request.analysis)
        else:
            heapq.heappush(self._plain, (-request.priority, next(self._order), request))

    def _answer(self, request: Request, row: Row) -> None:
        """Writes the last row of a request, and makes room for another one."""
        self._write([row])
        self._inbox.release(1, request.size)

    def _add_task(self, request: Request, analysis: Analysis) -> None:
        try:
            task = self._setup.planner.plan(request, analysis, next(self._order))
        except UserError as error:
            self._answer(request, error_row(request.question, str(error)))
        else:
            self._tasks.setdefault(task.program, []).append(task)

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
        waiting = [x for *_, x in self._plain if matches(x.question)]
        if waiting:
            self._plain = [x for x in self._plain if not matches(x[2].question)]
            heapq.heapify(self._plain)
        for request in waiting:
            self._answer(request, cancelled_row(request.question))
        running = [x for tasks in self._tasks.values() for x in tasks]
        running = [x for x in running if matches(x.request.question)]
        for task in running:
            self._finish(task, is_cancelled=True)
        return len(waiting) + len(running)

    def _status(self) -> Row:
        tasks = [task for tasks in self._tasks.values() for task in tasks]
        running = sum(task.started is not None for task in tasks)
        return {
            "waiting": len(self._plain) + len(tasks) - running,
            "running": running,
            "programs": len(self._searches),
            "kept_trees": self._searches.num_kept,
        }

    # Tasks

    def _run(self, key: Program) -> None:
        """Runs a step of the first tasks of a program."""
        try:
            search = self._searches.use(key)
        except UserError as error:
            for task in self._tasks.pop(key):
                self._answer(task.request, error_row(task.request.question, str(error)))
            return
        tasks = sorted(self._tasks[key], key=_rank)[: self._setup.batch_size]
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

    def _finish(self, task: Task, *, is_cancelled: bool = False) -> None:
        """Writes the last row of a task."""
        if task.result is None:
            row = cancelled_row(task.request.question)
        else:
            row = task.row(is_final=True) | ({"cancelled": True} if is_cancelled else {})
        self._remove(task, task.program)
        self._searches.finish(task)
        self._answer(task.request, row)

    def _remove(self, task: Task, key: Program) -> None:
        self._tasks[key].remove(task)
        if not self._tasks[key]:
            del self._tasks[key]


def _rank(task: Task) -> tuple[int, int]:
    return task.rank
