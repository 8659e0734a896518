"""The networks of a server: loaded when they are first used; the searches of a few are compiled."""

import threading
import time
from collections.abc import Callable, Mapping

from dualmctx.errors import UserError
from dualmctx.evaluation.questions import Question
from dualmctx.runs.saved_network import Trained
from dualmctx.web.engine import Engine, EngineOptions
from dualmctx.web.game_evaluation import GameEvaluator
from dualmctx.web.positions import describe_position, open_position
from dualmctx.web.search_rows import Build


class Network:
    """A loaded network with its searches.

    Attributes:
      trained: the network with its game.
      build: builds its searches.
      games: evaluates its games.
      seed: seed of the random numbers of reviews and recordings.
    """

    def __init__(self, trained: Trained, build: Build, seed: int) -> None:
        self.seed = seed
        self.trained, self.build, self.games = trained, build, GameEvaluator(trained, seed)
        self._lock, self._is_ready = threading.Lock(), False

    @property
    def is_ready(self) -> bool:
        """Whether the programs for positions are compiled."""
        return self._is_ready

    def compile_positions(self) -> None:
        """Compiles the programs for positions, once."""
        with self._lock:
            if not self._is_ready:
                env = self.trained.env
                describe_position(env, open_position(env, Question(0, 0)))
                self._is_ready = True


class Engines:
    """The networks by name, and the engines that search with them.

    Loaded networks stay, because programs refer to their games. At most `max_engines` have an
    engine; then the idle one that was not used for the longest time makes room. All methods may be
    called from any thread, and may take seconds.
    """

    def __init__(
        self,
        load: Mapping[str, Callable[[], Network]],
        options: EngineOptions,
        max_engines: int,
    ) -> None:
        """Takes a function for each name that loads its network."""
        self._load, self._options, self._max_engines = load, options, max_engines
        self._locks = {name: threading.Lock() for name in load}
        self._networks: dict[str, Network] = {}
        self._lock = threading.Lock()
        self._engines: dict[str, Engine] = {}
        self._is_closed = False

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called, after which no engine starts."""
        return self._is_closed

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
            if self._is_closed:
                raise UserError("the server is ending; start it again")
            if name not in self._engines:
                self._make_room()
                self._engines[name] = Engine(network.trained, network.build, self._options)
            return self._engines[name]

    def close(self, seconds: float) -> bool:
        """Ends all engines; returns whether all their threads have ended within some seconds."""
        with self._lock:
            # A thread of an engine must not outlive Python.
            self._is_closed = True
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
