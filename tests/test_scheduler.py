"""The scheduler of `dualmctx serve`: priorities, turns, limits, cancelling; without a search."""

import io
import json
from collections.abc import Callable
from typing import Any

import pytest

from dualmctx.commands.search_spec import build_search
from dualmctx.evaluation import inbox as inboxes
from dualmctx.evaluation import scheduler as schedulers
from dualmctx.evaluation.inbox import Inbox
from dualmctx.evaluation.requests import Request, read_requests
from dualmctx.evaluation.scheduler import Scheduler, Setup
from dualmctx.evaluation.tasks import Planner, Program, Task


def requests_of(*lines: Any) -> list[Request]:
    text = "\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines)
    return list(read_requests(io.BytesIO(text.encode())))


class Clock:
    """A clock that a step moves on by a second."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


class FakeSearch:
    """Adds 10 simulations to each task of a step and takes a second."""

    num_kept = 0

    def __init__(self, program: Program, log: list[Any], clock: Clock) -> None:
        self.program, self.log, self.clock = program, log, clock

    def step(self, tasks: list[Task]) -> None:
        self.clock.now += 1
        self.log.append([task.request.question.id for task in tasks])
        for task in tasks:
            task.simulations += 10
            question = task.request.question
            task.result = lambda question=question: {"id": question.id, "line": question.line}

    def finish(self, task: Task) -> None:
        self.log.append(("finished", task.request.question.id))

    def clear(self) -> None:
        self.log.append("cleared")


class Served:
    """A scheduler after it has served all requests.

    Attributes:
      log: the steps of tasks and the batches of plain requests, as lists of ids.
      rows: the rows that the scheduler wrote.
    """

    def __init__(
        self,
        requests: Any,
        *,
        batch_size: int = 2,
        max_programs: int = 2,
        load: Callable[[Program], Any] | None = None,
        monkeypatch: pytest.MonkeyPatch | None = None,
    ) -> None:
        self.log: list[Any] = []
        self.rows: list[Any] = []
        clock = Clock()
        if monkeypatch is not None:
            monkeypatch.setattr(schedulers, "time", clock)

        def fake(program: Program) -> FakeSearch:
            return FakeSearch(program, self.log, clock)

        def build(variant: str | None) -> Any:
            return build_search({}, variant or "alphazero").for_evaluation()

        planner = Planner(build, chunk_size=10, max_simulations=100)
        setup = Setup(planner, load or fake, batch_size, max_programs, {"version": "1"})
        self.scheduler = Scheduler(Inbox(requests), setup, self.rows.extend)
        for batch in self.scheduler.batches():
            if batch:
                self.log.append([question.id for question in batch])
                self.rows += [{"id": x.id, "line": x.line, "error": x.error} for x in batch]
                self.scheduler.release(len(batch))

    @property
    def steps(self) -> list[list[Any]]:
        return [x for x in self.log if isinstance(x, list)]

    def row(self, name: Any) -> Any:
        [row] = [x for x in self.rows if x["id"] == name]
        return row


def wait_for_all(count: int) -> Callable[[Any], Any]:
    """Returns requests that all arrive before the first one is taken."""
    raise NotImplementedError


def task(name: Any, **fields: Any) -> dict[str, Any]:
    return {"id": name, "moves": "", "variant": "alphazero", "simulations": 20} | fields
