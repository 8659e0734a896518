"""Engines side by side: each game in progress has a process of its own."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from dualmctx.programs.engine import Engine
from dualmctx.types import Failure


class EnginePool:
    """As many engines as there are games in progress, of which a few think at a time."""

    def __init__(self, make: Callable[[], Engine], num_processes: int | None = None) -> None:
        """Starts nothing yet.

        Args:
          make: makes an engine.
          num_processes: how many engines think at the same time; by default one for each core.
        """
        self._make, self._number = make, num_processes or num_cores()
        self._engines: list[Engine] = []

    def begin(self) -> None:
        """Ends the games in progress: the next moves begin new ones."""
        for engine in self._engines:
            engine.new_game()

    def choose(
        self, histories: Sequence[Sequence[int | str]], seeds: Sequence[int]
    ) -> list[int | Failure]:
        """Chooses a move of each game; see `Engine.choose`."""
        engines = self._assign(histories)
        executor = ThreadPoolExecutor(self._number)
        try:
            return list(executor.map(_choose, engines, histories, seeds))
        except BaseException:
            # After Ctrl-C, the threads would wait for the answers.
            for engine in self._engines:
                engine.kill()
            raise
        finally:
            executor.shutdown(cancel_futures=True)

    def close(self) -> None:
        """Ends all programs."""
        for engine in self._engines:
            engine.close()
        self._engines = []

    def _assign(self, histories: Sequence[Sequence[int | str]]) -> list[Engine]:
        """Returns an engine for each game: the one that has played it, or else a free one."""
        unused, found = [*self._engines], list[Engine | None]()
        for history in histories:
            known = [engine.count_known(history) for engine in unused]
            is_known = any(known)
            found.append(unused.pop(known.index(max(known))) if is_known else None)
        free = [engine for engine in unused if engine.is_free]
        missing = sum(engine is None for engine in found) - len(free)
        made = [self._make() for _ in range(missing)]
        self._engines += made
        spare = iter([*free, *made])
        return [engine or next(spare) for engine in found]


def _choose(engine: Engine, history: Sequence[int | str], seed: int) -> int | Failure:
    return engine.choose(history, seed)


def num_cores() -> int:
    """Returns the number of CPU cores that this process may use."""
    # Not every operating system can restrict a process to some of the cores.
    usable = getattr(os, "sched_getaffinity", None)
    return os.cpu_count() or 1 if usable is None else len(usable(0))
