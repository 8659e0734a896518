"""Lets engines play games, on the device or in processes of the host."""

import multiprocessing
import multiprocessing.util
import os
import signal
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, NamedTuple

import jax

import games
from dualmctx.datasets.engines import HostEngine, HostEngineSpec
from dualmctx.datasets.self_play import ChooseFn, PlayedGame, PlayOptions, play_games
from dualmctx.errors import UserError
from dualmctx.types import Environment

GAMES = "games.jsonl"
"""The file of an engine's games in the folder of a data set."""
# Games that are given to each process in advance.
_AHEAD = 2


class GameSpec(NamedTuple):
    """The game, from which each process makes its own."""

    name: str
    parameters: dict[str, Any]


def play_on_device(
    env: Environment, choose: ChooseFn, first: int, total: int, batch: int, options: PlayOptions
) -> Iterator[list[PlayedGame]]:
    """Plays the games `first` to `total` - 1 in batches, and yields each batch.

    Batches begin at multiples of `batch`, so that a game is always in the same batch.
    """
    for start in range(first // batch * batch, total, batch):
        played = play_games(env, choose, range(start, start + batch), options)
        yield [game for game in played if first <= game.number < total]


def play_on_host(
    game: GameSpec,
    engine: HostEngineSpec,
    first: int,
    total: int,
    processes: int,
    options: PlayOptions,
) -> Iterator[list[PlayedGame]]:
    """Plays the games `first` to `total` - 1, one at a time in each process, and yields each.

    Args:
      game: the game.
      engine: the engine.
      first: number of the first game.
      total: the number after the last one.
      processes: number of processes. Games do not depend on it.
      options: the options.

    Raises:
      ValueError: if a process is killed, or an engine cannot be built.
    """
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    executor = ProcessPoolExecutor(
        min(processes, max(1, total - first)), context, _start, (game, engine, options, stop)
    )
    waiting: deque[Future[PlayedGame]] = deque()
    try:
        for number in range(first, total):
            waiting.append(executor.submit(_play, number))
            if len(waiting) >= _AHEAD * processes:
                yield [waiting.popleft().result()]
        while waiting:
            yield [waiting.popleft().result()]
    except BrokenProcessPool:
        raise UserError(
            "a process of the engine was killed, perhaps because memory ran out; continue with "
            "--resume, and with fewer --processes"
        ) from None
    finally:
        stop.set()
        executor.shutdown(wait=True, cancel_futures=True)


class _Worker(NamedTuple):
    """The state of a process: the game, the engine or the reason why there is none, and options."""

    env: Any
    engine: HostEngine | str
    options: PlayOptions
    stop: Any


_workers: list[_Worker] = []


def _start(game: GameSpec, spec: HostEngineSpec, options: PlayOptions, stop: Any) -> None:
    """Prepares a process."""
    # The main process handles Ctrl-C, and tells the others to stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    jax.config.update("jax_platforms", "cpu")
    env = games.make(game.name, **game.parameters)
    try:
        engine: HostEngine | str = spec.build(env)
        # Processes of multiprocessing do not run the functions of `atexit`.
        multiprocessing.util.Finalize(None, engine.close, exitpriority=1)
    except UserError as error:
        engine = str(error)
    _workers[:] = [_Worker(env, engine, options, stop)]


def _end_with_parent() -> None:
    """Ends this process when its parent has been killed."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    parent.join()
    for worker in _workers:
        if isinstance(worker.engine, HostEngine):
            # A program that ignores the end of its input would stay.
            worker.engine.close()
    os._exit(1)


def _play(number: int) -> PlayedGame:
    """Plays a game in this process."""
    env, engine, options, stop = _workers[0]
    if isinstance(engine, str):
        raise UserError(engine)

    def choose(histories: list[list[int]], seeds: list[int]) -> list[int | str]:
        return ["stopped"] if stop.is_set() else engine.choose(histories, seeds)

    engine.new_game()
    return play_games(env, choose, [number], options)[0]
