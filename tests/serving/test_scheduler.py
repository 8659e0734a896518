"""The scheduler of `dualmctx serve`: priorities, turns, limits, cancelling; without a search."""

import io
import json
from typing import Any

import pytest

from dualmctx.commands.search import build_search
from dualmctx.errors import UserError
from dualmctx.game_files.questions import Question
from dualmctx.serving import scheduler as schedulers
from dualmctx.serving.requests import Analysis, Request, read_requests
from dualmctx.serving.scheduler import Scheduler, Setup
from dualmctx.serving.tasks import (
    DEFAULT,
    EngineOptions,
    Planner,
    Program,
    Task,
    TaskSearch,
    total_simulations,
)


def read(*lines: Any) -> list[Request]:
    text = "\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines)
    return list(read_requests(io.BytesIO(text.encode())))


def task(name: Any, **fields: Any) -> dict[str, Any]:
    """Returns a request that takes two steps of the fake search."""
    return {"id": name, "moves": "", "variant": "alphazero", "simulations": 20} | fields


OPTIONS = EngineOptions(chunk_size=10, max_simulations=100)
CLOCK = [100.0]


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the scheduler read `CLOCK`."""
    monkeypatch.setattr(schedulers.time, "monotonic", lambda: CLOCK[0])


class Arrivals:
    """An inbox from which each call takes the next list of lines."""

    def __init__(self, *arrivals: list[Any]) -> None:
        lines = [line for lines in arrivals for line in lines]
        requests = iter(read(*lines))
        self.waiting = [[next(requests) for _ in lines] for lines in arrivals]
        self.number = len(lines)
        self.size = sum(request.size for x in self.waiting for request in x)

    def take(self, *, wait: bool) -> list[Request]:
        while wait and self.waiting and not self.waiting[0]:
            self.waiting.pop(0)
        return self.waiting.pop(0) if self.waiting else []

    def release(self, number: int, size: int) -> None:
        self.number -= number
        self.size -= size


class FakeSearch(TaskSearch):
    """Adds 10 simulations to each task of a step, or searches anew; it takes a second."""

    def __init__(self, served: "Served", program: Program) -> None:
        self.served, self.program = served, program
        self.simulations = dict[Task, int]()

    def step(self, tasks: list[Task]) -> None:
        CLOCK[0] += 1
        self.served.steps.append([task.request.question.id for task in tasks])
        for task in tasks:
            before = self.simulations.get(task, 0) if self.program.deepens else 0
            policy = self.program.policy
            task.simulations = before + (total_simulations(policy) if policy else 0)
            self.simulations[task] = task.simulations
            question = task.request.question
            task.result = lambda question=question: {"id": question.id, "line": question.line}

    def finish(self, task: Task) -> None:
        self.served.finished.append(task.request.question.id)

    def clear(self) -> None:
        self.served.finished.append("cleared")


class Served:
    """A scheduler that has served all requests.

    Attributes:
      steps: the ids of each step.
      rows: all rows, in order.
      finished: the ids of the tasks for which `finish` was called.
      loaded: the programs, in the order of their compilation.
    """

    def __init__(
        self,
        *arrivals: list[Any],
        batch_size: int = 2,
        max_programs: int = 2,
        error: str | None = None,
        fitting: int = 0,
    ) -> None:
        self.steps, self.rows = list[list[Any]](), list[Any]()
        self.finished, self.loaded, self.error = list[Any](), list[Program](), error
        self.fitting = fitting

        def build(variant: str | None) -> Any:
            return build_search({}, variant or "alphazero").for_evaluation()

        options = OPTIONS._replace(batch_size=batch_size, max_programs=max_programs)
        inbox: Any = Arrivals(*arrivals)
        default = FakeSearch(self, DEFAULT)
        setup = Setup(Planner(build, options), self.load, {"version": "1"}, default)
        Scheduler(inbox, setup, self.rows.extend).run()
        # Every request has been answered and released.
        assert (inbox.number, inbox.size) == (0, 0)
        final = [x["line"] for x in self.rows if x.get("final", True)]
        assert sorted(final) == list(range(1, 1 + sum(map(len, arrivals))))

    def load(self, program: Program) -> Any:
        if self.error is not None and len(self.loaded) >= self.fitting:
            raise UserError(self.error)
        self.loaded.append(program)
        return FakeSearch(self, program)

    def row(self, name: Any) -> Any:
        [row] = [x for x in self.rows if x["id"] == name and x.get("final", True)]
        return row


PLAIN = {"id": "x", "moves": ""}
URGENT, SLOW = task("urgent", priority=1), task("slow", simulations=30)


@pytest.mark.parametrize(
    ("arrivals", "batch_size", "steps"),
    [
        # A higher priority comes first.
        (
            [[task("low", priority=-1), PLAIN, task("high", priority=7)]],
            *(1, ["high", "high", "x", "low", "low"]),
        ),
        # Requests of one search share batches, with any simulations; the first come first.
        (
            [[task("a", simulations=40), task("b", simulations=11), task("c")]],
            *(2, ["ab", "ab", "ac", "ac"]),
        ),
        # Searches of equal priority take turns.
        ([[PLAIN, task("a"), task("b", variant="muzero")], [], [PLAIN]], 2, [*"xabxab"]),
        # An urgent request interrupts a search, which then goes on where it was.
        ([[SLOW], [URGENT]], 2, ["slow", "urgentslow", "urgentslow"]),
        ([[SLOW], [URGENT]], 1, ["slow", "urgent", "urgent", "slow", "slow"]),
    ],
)
def test_order_of_steps(arrivals: list[Any], batch_size: int, steps: list[str]) -> None:
    served = Served(*arrivals, batch_size=batch_size)
    assert ["".join(step) for step in served.steps] == steps
    assert len(served.loaded) == len({x.get("variant") for y in arrivals for x in y} - {None})


def test_time_limit_is_not_exceeded_by_a_further_step() -> None:
    fields = {"id": 1, "moves": "", "variant": "alphazero"}
    for limit, steps in ((0.01, 1), (1.9, 1), (3.5, 3), (1e300, 10)):
        served = Served([fields | {"max_time": limit}])
        assert len(served.steps) == steps
        assert served.rows == [
            {"id": 1, "line": 1, "final": True, "simulations": 10 * steps, "reused": 0}
        ]
    served = Served([fields | {"max_time": 9, "simulations": 15}])
    assert served.rows[0]["simulations"] == 20


def test_interim_results_are_reported() -> None:
    served = Served([task("a", simulations=60, report_every=1.5)])
    assert [(x["final"], x["simulations"]) for x in served.rows] == [
        *((False, 20), (False, 40), (True, 60))
    ]


def test_searches_that_cannot_deepen_start_again() -> None:
    """Without a time limit the budget is rounded up; with one it grows until the time is up."""
    gumbel = {"variant": "gumbel", "simulations": 60}
    requests = [task("a", **gumbel), task("b", **gumbel, max_time=100)]
    served = Served(requests, max_programs=9)
    budgets = [x.policy.num_simulations for x in served.loaded]
    assert budgets == [80, 10, 20, 40]
    assert [x["simulations"] for x in served.rows] == [80, 80]
    assert served.finished == ["a", "b"]


def test_requests_are_cancelled() -> None:
    requests = [task(1, simulations=100), task("b", simulations=100), task("b")]
    plain = {"id": "p", "moves": ""}
    cancel = {"id": "c", "command": "cancel", "target": "b"}
    served = Served([*requests, plain, {**cancel, "target": "p"}], [], [cancel])
    assert served.row("p") == {"id": "p", "line": 4, "cancelled": True}
    rows = [x for x in served.rows if x["id"] == "b"]
    assert rows[0] == {
        **{"id": "b", "line": 2, "final": True, "simulations": 20, "reused": 0},
        "cancelled": True,
    }
    # The second request with this id has not run.
    assert rows[1] == {"id": "b", "line": 3, "cancelled": True}
    assert [x["cancelled"] for x in served.rows if "command" in x] == [1, 2]
    assert served.row(1)["simulations"] == 100
    # Ids are compared as text; unknown ids cancel nothing.
    served = Served(requests, [cancel | {"target": "1"}, cancel | {"target": "?"}])
    assert [x["cancelled"] for x in served.rows if "command" in x] == [1, 0]


def test_commands_are_answered_at_once() -> None:
    requests = [task(1, simulations=100), task(2), {"id": 3, "moves": ""}]
    served = Served(
        [*requests, {"id": "s", "command": "status"}],
        [{"command": "version"}],
        [{"id": "t", "command": "status"}, {"command": "clear"}, {"command": "cancel_all"}],
    )
    status = {"id": "s", "line": 4, "command": "status"}
    counts = {"waiting": 3, "running": 0, "programs": 0, "kept_trees": 0}
    assert served.row("s") == status | counts
    assert served.row(5) == {"id": 5, "line": 5, "command": "version", "version": "1"}
    # The plain request was first, then a step of both tasks.
    assert (served.row("t")["waiting"], served.row("t")["running"]) == (0, 2)
    assert served.row("t")["programs"] == 1
    assert served.row(7) == {"id": 7, "line": 7, "command": "clear"}
    assert served.row(8)["cancelled"] == 2
    assert served.finished == ["cleared", 1, 2]


def test_programs_are_dropped_when_unused() -> None:
    requests = [task(x, variant=f"alphazero:c_puct={x}") for x in (1, 2, 1, 3, 1)]
    served = Served(*([x] for x in requests), max_programs=2)
    constants = [x.policy.puct.c_puct for x in served.loaded]
    assert sorted(constants[:3]) == [1, 2, 3]
    assert len(constants) <= 4


def test_urgent_search_replaces_another_program() -> None:
    """The search whose program is dropped starts again."""
    urgent = task("urgent", variant="muzero", priority=1)
    served = Served([task("slow")], [urgent], max_programs=1)
    assert served.steps == [["slow"], ["urgent"], ["urgent"], ["slow"], ["slow"]]
    assert served.row("slow")["simulations"] == 20
    assert len(served.loaded) == 3
    # One that is cancelled before has its result with the simulations of that result.
    cancel = {"id": "c", "command": "cancel", "target": "slow"}
    served = Served([task("slow")], [urgent], [cancel], max_programs=1)
    assert served.row("slow") == {
        **{"id": "slow", "line": 1, "final": True, "simulations": 10, "reused": 0},
        "cancelled": True,
    }


def test_search_that_does_not_fit_is_an_error() -> None:
    served = Served([task("a"), task("b"), {"id": "c", "moves": ""}], error="too big")
    errors = {x["id"]: x.get("error") for x in served.rows}
    assert errors == {"a": "too big", "b": "too big", "c": None}
    # With a limit of time, the last complete search counts.
    gumbel = {"variant": "gumbel", "simulations": 60}
    tasks = [task("a", **gumbel, max_time=100), task("b", **gumbel, report_every=100)]
    served = Served(tasks, error="too big", fitting=2)
    assert served.row("a")["simulations"] == 20
    assert served.row("b") == {"id": "b", "line": 2, "error": "too big"}


def test_errors_do_not_wait_for_other_requests() -> None:
    wrong = [{"id": "w", "moves": "", "simulations": 0}, "nonsense", task("v", variant="x")]
    served = Served([{"id": "p", "moves": ""}, task("a", simulations=100), *wrong])
    assert [x["line"] for x in served.rows] == [3, 4, 5, 1, 2]
    assert all(x["error"] for x in served.rows[:3])
    assert served.steps == [["p"], *[["a"]] * 10]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"variant": "x" * 10_000}, "it must be text of at most 300"),
        ({"variant": "alpha"}, "it must be one of dual"),
        ({"variant": "alphazero:c_puct=-1"}, "c_puct is -1.0; it must be positive"),
        ({"variant": "runs/a+alphazero"}, "runs/a+alphazero"),
        ({"simulations": 0}, "simulations is 0; it must be a whole number of at least 1"),
        ({"simulations": []}, "simulations is []"),
        ({"variant": "gumbel", "simulations": [0]}, "is [0]; the sum must be at least 1"),
        ({"simulations": [50, 35]}, "simulations is [50, 35]; the search has one tree"),
        ({"simulations": 101}, "simulations is 101; it must be at most 100"),
        ({"variant": "dual:num_simulations=400,400"}, "has no option num_simulations"),
        ({"max_time": 0}, "max_time is 0; it must be a positive number of seconds"),
        ({"reuse": 1}, "reuse is 1; it must be true or false"),
        ({"priority": 1.5}, "priority is 1.5; it must be a whole number"),
        ({"command": "stop"}, "command is 'stop'; it must be one of 'cancel', 'cancel_all'"),
        ({"command": "cancel"}, "the command cancel needs a target"),
        ({"command": "status", "priority": 1}, "the command status has no field priority"),
        ({"target": 1}, "others have none"),
        ({"simulation": 5}, "there is no field 'simulation'"),
        ({"final": 1, "input_final": 2}, "final would be input_final in the results"),
    ],
    ids=str,
)
def test_invalid_settings_are_errors(fields: dict[str, Any], message: str) -> None:
    served = Served([{"id": "q", "moves": ""} | fields])
    assert message in served.row("q")["error"]


def test_passed_fields_do_not_say_whether_a_request_has_ended() -> None:
    [request] = read({"moves": "4", "final": False, "cancelled": 1, "value": 2})
    assert request.question.extra == {"input_final": False, "input_cancelled": 1, "input_value": 2}


def test_settings_of_null_are_absent() -> None:
    names = ("variant", "simulations", "max_time", "report_every", "reuse", "priority", "command")
    [request] = read({"moves": "4", "id": 1} | dict.fromkeys(names))
    assert request == Request(request.question, request.size)


@pytest.mark.parametrize(
    ("variant", "simulations", "first", "target"),
    [
        ("alphazero", (4,), 4, 4),
        ("alphazero", (35,), 10, 35),
        ("gumbel", (35,), 35, 35),
        ("dual:num_rounds=1", (5, 3), (5, 3), 8),
        ("dual", (10,), (6, 4), 10),
        ("dual", (85,), (10, 7), 85),
    ],
)
def test_exact_planner_keeps_small_budgets(
    variant: str, simulations: tuple[int, ...], first: Any, target: int
) -> None:
    def build(variant: str | None) -> Any:
        return build_search({}, variant).for_evaluation()

    planner = Planner(build, OPTIONS, is_exact=True)
    analysis = Analysis(variant, simulations)
    planned = planner.plan(Request(Question(1, 1), analysis=analysis), 0)
    policy: Any = planned.program.policy
    assert (policy.num_simulations, planned.target) == (first, target)
