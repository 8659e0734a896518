"""The searches of one network, which run in a thread of their own."""

import contextlib
import itertools
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from dualmctx.evaluation.compiled_searches import SearchLoader, release_memory
from dualmctx.evaluation.questions import Question, Row
from dualmctx.evaluation.requests import Analysis, Inbox, Request
from dualmctx.evaluation.scheduler import Scheduler, Setup
from dualmctx.evaluation.tasks import Planner, Program, TaskSearch
from dualmctx.runs.saved_network import Trained
from dualmctx.training.divergence import first_line
from dualmctx.types import Policy
from dualmctx.version import __version__

Receive = Callable[[Row], None]
"""Receives a row of a request; called in the thread of the engine. It must not wait."""
MAX_PROGRAMS = 8
"""The largest number of compiled searches of an engine; the least recently used one is dropped."""


class EngineOptions(NamedTuple):
    """The options of all engines.

    Attributes:
      batch_size: the number of positions that are searched at once.
      max_simulations: the largest number of simulations of a position.
      tree_memory: bytes for the kept trees of each search.
      seed: seed of the random numbers of searches.
      chunk_size: about the number of simulations of a step.
    """

    batch_size: int = 2
    max_simulations: int = 2000
    tree_memory: int = 2**26
    seed: int = 0
    chunk_size: int = 32


class Engine:
    """Serves requests with the scheduler of `dualmctx serve`.

    Every request has exactly one last row. After a failure, such as a device without memory, the
    next request starts with new trees. All methods may be called from any thread.
    """

    def __init__(
        self, trained: Trained, build: Callable[[str | None], Policy], options: EngineOptions
    ) -> None:
        """Starts the thread, which compiles the default search first.

        Args:
          trained: the network with its game.
          build: as in `Planner`.
          options: the options.
        """
        self._trained, self._build, self._options = trained, build, options
        self._lock, self._numbers = threading.Lock(), itertools.count(1)
        self._receivers: dict[str, Receive] = {}
        self._requests: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._stage: str | None = "starting the searches"
        self._is_closed = False
        self.last_used = time.monotonic()
        # The default search is compiled for a request whose rows nobody receives.
        self._requests.put(Request(Question(0, 0), 0, priority=-1, analysis=Analysis()))
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
            self._requests.put(Request(question._replace(id=name), 0, priority, analysis))
        return name

    def cancel(self, name: str) -> None:
        """Ends a request soon; its last row has the result so far."""
        command = Request(Question(0, 0), 0, command="cancel", target=name)
        with self._lock:
            self._requests.put(command)

    def clear(self) -> None:
        """Drops the trees of finished requests."""
        with self._lock:
            self._requests.put(Request(Question(0, 0), 0, command="clear"))

    def close(self) -> None:
        """Ends all requests and the thread, after the step in progress."""
        with self._lock:
            self._is_closed = True
            self._requests.put(Request(Question(0, 0), 0, command="cancel_all"))
            self._requests.put(None)

    def join(self, seconds: float) -> bool:
        """Waits until the thread has ended after `close`; returns whether it has."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    # In the thread of the engine.

    def _run(self) -> None:
        setup: Setup | None = None
        while True:
            try:
                setup = setup or self._make_setup()
                self._stage = None
                inbox = Inbox(iter(self._requests.get, None))
                for _ in Scheduler(inbox, setup, self._write).batches():
                    pass
                break
            except Exception as error:
                if self._fail(f"the search failed: {first_line(error)}"):
                    break
                self._wait_for_request()
        del setup
        release_memory()

    def _make_setup(self) -> Setup:
        options = self._options
        loader = SearchLoader(
            trained=self._trained,
            batch_size=options.batch_size,
            max_simulations=options.max_simulations,
            tree_memory=options.tree_memory,
            seed=options.seed,
            devices=1,
        )

        def load(program: Program) -> TaskSearch:
            self._stage = "compiling the search"
            try:
                return loader.load(program)
            finally:
                self._stage = None

        sizes = options.chunk_size, options.max_simulations
        planner = Planner(self._build, *sizes, is_exact=True)
        return Setup(planner, load, options.batch_size, MAX_PROGRAMS, {"version": __version__})

    def _wait_for_request(self) -> None:
        """Waits, so that an engine that fails at once does not try again and again."""
        request = self._requests.get()
        self._requests.put(request)

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
            # The reader of the old queue ends; requests from now on go to a new one.
            self._requests.put(None)
            self._requests = queue.SimpleQueue()
            is_closed = self._is_closed
        for receive in failed.values():
            _call(receive, {"error": error})
        return is_closed


def _call(receive: Receive, row: dict[str, Any]) -> None:
    # The event loop may have been closed meanwhile.
    with contextlib.suppress(RuntimeError):
        receive(row)
