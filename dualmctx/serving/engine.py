"""The searches of one network: compiled when they are needed, and run in a thread of their own."""

import contextlib
import ctypes
import gc
import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

import jax

from dualmctx.errors import UserError
from dualmctx.evaluation.answers import answer
from dualmctx.evaluation.batches import Inbox
from dualmctx.evaluation.evaluator import Evaluator
from dualmctx.evaluation.factory import build_evaluator
from dualmctx.game_files.questions import Question, Row
from dualmctx.runs.saved_network import Trained
from dualmctx.serving.deepening_search import DeepeningSearch
from dualmctx.serving.requests import Analysis, Request
from dualmctx.serving.scheduler import Scheduler, Setup
from dualmctx.serving.tasks import (
    EngineOptions,
    Planner,
    Program,
    Task,
    TaskSearch,
    total_simulations,
)
from dualmctx.serving.tree_pool import TreePool, choose_pool_size
from dualmctx.training.divergence import first_line
from dualmctx.types import Policy
from dualmctx.version import __version__

Receive = Callable[[Row], None]
"""Receives a row of a request; called in the thread of the engine. It must not wait."""


class RestartingSearch(TaskSearch):
    """Tasks whose search cannot continue from its trees: each step is a search from the start."""

    def __init__(self, evaluator: Evaluator) -> None:
        """Takes the evaluator of the search with the budget of a step."""
        policy = evaluator.policy
        self._evaluator = evaluator
        self._simulations = 0 if policy is None else total_simulations(policy)

    def step(self, tasks: list[Task]) -> None:
        """Searches from the start; see `TaskSearch`."""
        questions = [task.request.question for task in tasks]
        rows = [row for part in answer(self._evaluator, [questions]) for row in part.rows]
        for task, row in zip(tasks, rows, strict=True):
            task.result = lambda row=row: row
            task.is_over = row.get("action") is None
            task.simulations = self._simulations


def compile_search(trained: Trained, program: Program, options: EngineOptions) -> TaskSearch:
    """Compiles a program.

    Raises:
      UserError: if it does not fit into memory.
    """
    policy = program.policy
    assert policy is not None
    try:
        if program.deepens:
            pool_size = choose_pool_size(trained, policy, options)
            pool = TreePool(trained, policy, pool_size, options)
            return DeepeningSearch(trained.env, pool)
        evaluator = build_evaluator(
            trained,
            policy,
            batch_size=options.batch_size,
            seed=options.seed,
            devices=options.devices,
        )
        return RestartingSearch(evaluator)
    except (jax.errors.JaxRuntimeError, MemoryError) as error:
        # The server goes on without this search.
        raise UserError(first_line(error)) from None
    finally:
        release_memory()


def release_memory() -> None:
    """Frees dropped programs and trees, and gives free memory of this process back to the system.

    The compilation of a search needs hundreds of MB for a moment. The allocator of glibc keeps
    them, in pieces that it can seldom use again, so that a server would grow with each compilation.
    Other systems have no such function; there, only the garbage is collected.
    """
    gc.collect()
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


class Engine:
    """Serves requests with the scheduler of `dualmctx serve`.

    Every request has exactly one last row. After a failure, such as a device without memory, the
    next request starts with new trees. All methods may be called from any thread.
    """

    def __init__(
        self, trained: Trained, build: Callable[[str | None], Policy], options: EngineOptions
    ) -> None:
        """Starts the thread, which compiles the default search first; see `Planner` for `build`."""
        self._trained, self._options = trained, options
        self._planner = Planner(build, options, is_exact=True)
        self._lock, self._numbers = threading.Lock(), itertools.count(1)
        self._receivers: dict[str, Receive] = {}
        self._inbox = Inbox[Request]()
        self._stage: str | None = "starting the searches"
        self._is_closed = False
        self.last_used = time.monotonic()
        # The default search is compiled for a request whose rows nobody receives.
        self._inbox.put(Request(Question(0, 0), priority=-1, analysis=Analysis()))
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    @property
    def stage(self) -> str | None:
        """The compilation in progress, during which no search runs; `None` if there is none."""
        return self._stage

    @property
    def is_idle(self) -> bool:
        """Whether no request waits or runs."""
        return not self._receivers

    def submit(
        self, question: Question, analysis: Analysis, receive: Receive, *, priority: int = 0
    ) -> str:
        """Adds a request.

        Args:
          question: the position; its id is replaced.
          analysis: the settings of the search.
          receive: receives the rows, the last one of which has no `"final": False`.
          priority: requests with a higher priority are served first.

        Returns:
          The name of the request, for `cancel`.
        """
        with self._lock:
            name = f"request-{next(self._numbers)}"
            self.last_used = time.monotonic()
            if self._is_closed:
                receive({"error": "the network was unloaded; send the message again"})
                return name
            self._receivers[name] = receive
            self._inbox.put(Request(question._replace(id=name), 0, priority, analysis))
        return name

    def cancel(self, name: str) -> None:
        """Ends a request soon; its last row has the result so far."""
        self._command("cancel", name)

    def clear(self) -> None:
        """Drops the trees of finished requests."""
        self._command("clear")

    def close(self) -> None:
        """Ends all requests and the thread, after the step in progress."""
        with self._lock:
            self._is_closed = True
            self._inbox.put(Request(Question(0, 0), command="cancel_all"))
            self._inbox.end()

    def join(self, seconds: float) -> bool:
        """Waits until the thread has ended after `close`; returns whether it has."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _command(self, command: str, target: str | None = None) -> None:
        with self._lock:
            self._inbox.put(Request(Question(0, 0), command=command, target=target))

    # In the thread of the engine.

    def _run(self) -> None:
        setup = Setup(self._planner, self._load, {"version": __version__})
        while True:
            try:
                Scheduler(self._inbox, setup, self._write).run()
                break
            except Exception as error:
                if self._fail(f"the search failed: {first_line(error)}"):
                    break
                # An engine that fails at once does not try again and again.
                self._inbox.wait()
        release_memory()

    def _load(self, program: Program) -> TaskSearch:
        self._stage = "compiling the search"
        try:
            return compile_search(self._trained, program, self._options)
        finally:
            self._stage = None

    def _write(self, rows: list[Row]) -> None:
        for row in rows:
            is_last = row.get("final") is not False
            with self._lock:
                receive = self._receivers.get(row["id"])
                if is_last:
                    self._receivers.pop(row["id"], None)
            if receive is not None:
                _call(receive, row)

    def _fail(self, error: str) -> bool:
        """Ends all requests with an error; returns whether the engine is closed."""
        with self._lock:
            failed, self._receivers = self._receivers, {}
            # Requests from now on go to a new inbox.
            self._inbox = Inbox()
            is_closed = self._is_closed
        for receive in failed.values():
            _call(receive, {"error": error})
        return is_closed


def _call(receive: Receive, row: dict[str, Any]) -> None:
    # The event loop may have been closed meanwhile.
    with contextlib.suppress(RuntimeError):
        receive(row)
