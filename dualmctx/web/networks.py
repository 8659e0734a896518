"""The networks of a server: loaded when they are first used; the searches of a few are compiled."""

import functools
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

import games
from dualmctx.errors import UserError
from dualmctx.evaluation.evaluations import join
from dualmctx.evaluation.evaluator import Evaluator
from dualmctx.evaluation.factory import build_evaluator
from dualmctx.runs.saved_network import Trained, model_kwargs_of
from dualmctx.serving.engine import Engine, EngineOptions, release_memory
from dualmctx.serving.tasks import total_simulations
from dualmctx.types import Policy
from dualmctx.visualization import record_trained
from dualmctx.visualization.recording import recorded_searches
from dualmctx.web.descriptions import Build, describe_position, find_exact
from dualmctx.web.protocol import MAX_RECORDED, Message, Row
from dualmctx.web.review import make_rows
from games import GamePosition

BATCH_SIZE = 32
MAX_EVALUATORS = 2
"""The largest number of compiled searches for the reviews of one network."""


class Stopped(Exception):
    """Ends work that was stopped."""


class Counter:
    """The progress of work in another thread."""

    def __init__(self) -> None:
        self._done, self._total, self._is_stopped = 0, 0, False

    def __call__(self, done: int, total: int) -> None:
        """Says that `done` of `total` parts are done; 0 for a total that is not known.

        Raises:
          Stopped: if the work is to end.
        """
        self._done, self._total = done, total
        if self._is_stopped:
            raise Stopped

    def stop(self) -> None:
        """Ends the work at its next call."""
        self._is_stopped = True

    def fields(self) -> Row:
        """Returns the fields of a message `progress`; none without a total."""
        return {"done": self._done, "total": self._total} if self._total else {}


class Network:
    """A loaded network with all work that needs it.

    Attributes:
      trained: the network with its game.
      build: builds its searches.
      is_ready: whether the programs for positions are compiled.
    """

    def __init__(self, trained: Trained, build: Build, seed: int) -> None:
        """Takes the network, its searches, and the seed of reviews and recordings."""
        self.trained, self.build, self._seed = trained, build, seed
        self._lock, self.is_ready = threading.Lock(), False
        self._step = jax.jit(trained.env.step)
        # The compiled searches that were used last.
        self._evaluator = functools.lru_cache(maxsize=MAX_EVALUATORS)(self._build_evaluator)

    def compile_positions(self) -> None:
        """Compiles the programs for positions, once."""
        with self._lock:
            if not self.is_ready:
                env = self.trained.env
                describe_position(env, games.open_position(env))
                self.is_ready = True

    def start_engine(self, options: EngineOptions) -> Engine:
        """Returns an engine that searches with the network."""
        return Engine(self.trained, self.build, options)

    def check_recorded(self, policy: Policy, *, compare: bool) -> None:
        """Raises a UserError if a search, or its comparison, is too large for a page."""
        trained = self.trained
        kwargs = model_kwargs_of(trained.record)
        searches = recorded_searches(policy, trained.network, compare=compare, **kwargs)
        for name, search in searches.items():
            number = total_simulations(search)
            if number > MAX_RECORDED:
                raise UserError(
                    f"{name} has {number:,} simulations; the recording of a page has at most"
                    f" {MAX_RECORDED}: choose fewer, or write a larger recording with dualmctx tree"
                )

    def record(
        self, opened: GamePosition, message: Message, policy: Policy, counter: Counter
    ) -> Row:
        """Returns the recording of a search.

        Args:
          opened: the position of the message.
          message: the message.
          policy: the search.
          counter: counts the simulations.

        Raises:
          ValueError: if the search cannot be recorded.
          Stopped: if the work was stopped.
        """
        recording = record_trained(
            self.trained,
            opened.actions,
            fen=message.fen,
            policy=policy,
            seed=self._seed,
            compare=message.compare,
            progress=counter,
            name=message.checkpoint,
        )
        release_memory()
        return recording

    def review(self, message: Message, policy: Policy, counter: Counter) -> list[Row]:
        """Returns the rows of the answer `reviewed`, see `review.make_rows`.

        Args:
          message: the message with the game.
          policy: the search.
          counter: counts the positions.

        Raises:
          ValueError: if the game is invalid, or a batch does not fit into memory.
          Stopped: if the work was stopped.
        """
        env = self.trained.env
        positions = self._list_positions(message)
        counter(0, len(positions))
        evaluations = self._evaluate(positions, policy, counter)
        exact: list[Row | None] = []
        for position in positions:
            exact.append(find_exact(env, position))
            counter(len(positions), len(positions))
        return make_rows(
            evaluations,
            [position.side for position in positions],
            positions[-1].actions,
            lambda ply, action: games.format_action(env, positions[ply].state, action),
            exact,
        )

    def _list_positions(self, message: Message) -> list[GamePosition]:
        """Returns the positions of a game, from its start to its end."""
        env = self.trained.env
        actions = games.open_position(env, message.moves, message.fen).actions
        begin = games.open_position(env, (), message.fen)
        states = [begin.state]
        for action in actions:
            states.append(jax.device_get(self._step(states[-1], action)))
        return [
            begin._replace(state=state, before=states[max(0, ply - 1)], actions=actions[:ply])
            for ply, state in enumerate(states)
        ]

    def _evaluate(self, positions: list[GamePosition], policy: Policy, counter: Counter) -> Any:
        evaluator = self._evaluator(policy)
        parts = [evaluator.empty]
        for begin in range(0, len(positions), BATCH_SIZE):
            piece = [x.state for x in positions[begin : begin + BATCH_SIZE]]
            states = jax.tree.map(lambda *leaves: np.stack(leaves), *piece)
            ids = range(begin, begin + len(piece))
            parts.append(evaluator(states, ids))
            counter(begin + len(piece), len(positions))
        return join(parts, len(positions))

    def _build_evaluator(self, policy: Policy) -> Evaluator:
        found = build_evaluator(
            self.trained, policy, batch_size=BATCH_SIZE, seed=self._seed, devices=1
        )
        release_memory()
        return found


class Engines:
    """The networks by name, and the engines that search with them.

    Loaded networks stay, because programs refer to their games. At most `max_engines` have an
    engine; then the idle one that was not used for the longest time makes room. All methods may be
    called from any thread, and may take seconds.

    Attributes:
      is_closed: whether `close` was called, after which no engine starts.
    """

    def __init__(
        self, load: Mapping[str, Callable[[], Network]], options: EngineOptions, max_engines: int
    ) -> None:
        """Takes a function for each name that loads its network."""
        self._load, self._options, self._max_engines = load, options, max_engines
        self._locks = {name: threading.Lock() for name in load}
        self._networks: dict[str, Network] = {}
        self._lock = threading.Lock()
        self._engines: dict[str, Engine] = {}
        self.is_closed = False

    @property
    def is_idle(self) -> bool:
        """Whether no search waits or runs."""
        with self._lock:
            return all(engine.is_idle for engine in self._engines.values())

    def is_ready(self, name: str) -> bool:
        """Returns whether a network is loaded and can open positions; never waits."""
        network = self._networks.get(name)
        return network is not None and network.is_ready

    def network(self, name: str) -> Network:
        """Returns a network that can open positions; it is loaded if necessary.

        Raises:
          ValueError: if there is no such network, or it cannot be loaded.
        """
        network = self._loaded(name)
        network.compile_positions()
        return network

    def _loaded(self, name: str) -> Network:
        if name not in self._load:
            known = ", ".join(self._load)
            raise UserError(f"checkpoint is {name[:100]!r}; it must be one of {known}")
        with self._locks[name]:
            if name not in self._networks:
                self._networks[name] = self._load[name]()
            return self._networks[name]

    def engine(self, name: str) -> Engine:
        """Returns the engine of a network, which is started if necessary.

        Raises:
          ValueError: as `network`; or if all engines are in use.
        """
        # The engine compiles its search at the same time as others compile the positions.
        network = self._loaded(name)
        with self._lock:
            if self.is_closed:
                raise UserError("the server is ending; start it again")
            if name not in self._engines:
                self._make_room()
                self._engines[name] = network.start_engine(self._options)
            return self._engines[name]

    def close(self, seconds: float) -> bool:
        """Ends all engines; returns whether all their threads have ended within some seconds."""
        with self._lock:
            # A thread of an engine must not outlive Python.
            self.is_closed = True
            engines = list(self._engines.values())
            self._engines.clear()
        for engine in engines:
            engine.close()
        deadline = time.monotonic() + seconds
        return all(engine.join(max(0.0, deadline - time.monotonic())) for engine in engines)

    def _make_room(self) -> None:
        if len(self._engines) < self._max_engines:
            return
        idle = [name for name, engine in self._engines.items() if engine.is_idle]
        if not idle:
            raise UserError(
                f"{self._max_engines} networks are searching; stop an analysis of another network"
            )
        oldest = min(idle, key=lambda name: self._engines[name].last_used)
        self._engines.pop(oldest).close()
