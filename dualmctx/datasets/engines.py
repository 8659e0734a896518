"""Engines that play the games of a data set: programs on the host, and players on the device."""

import contextlib
import functools
import multiprocessing
import multiprocessing.util
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import games
from dualmctx.datasets.build import PARTS, count_read
from dualmctx.datasets.self_play import PlayedGame, PlayOptions, play_games
from dualmctx.errors import UserError
from dualmctx.matches.game_file import GAMES
from dualmctx.matches.movers import as_mover
from dualmctx.matches.players import (
    ChooseFn,
    HostMover,
    Player,
    host_mover,
    openspiel_mcts,
    perfect_connect_four,
    perfect_player,
)
from dualmctx.programs.gtp import GtpEngine
from dualmctx.programs.pool import num_cores
from dualmctx.runs.journal import PUT_BACK, reopen_journal
from dualmctx.types import Environment, Failure
from games.histories import pad_histories

OPENSPIEL, PERFECT, BITBULLY, GTP = "openspiel-mcts", "perfect", "bitbully", "gtp"
HOST_ENGINES = (OPENSPIEL, BITBULLY, GTP)
"""Engines that play one game at a time, in processes of their own."""
_RANDOM_SHARE = 0.1
# Games that are given to each process in advance.
_AHEAD = 2


class GameSpec(NamedTuple):
    """The game, from which each process makes its own."""

    name: str
    parameters: dict[str, Any]


class LoadedEngine(NamedTuple):
    """An engine that is ready to play.

    Attributes:
      game: the game, which its games name.
      record: the settings that determine its games, as JSON values.
      num_games: the number of games.
      play: `(first) -> batches of games`, from the game with that number on.
    """

    game: GameSpec
    record: dict[str, Any]
    num_games: int
    play: Callable[[int], Iterator[list[PlayedGame]]]


class EngineSpec(NamedTuple):
    """A description of an engine, from which each process of the host builds its own.

    Attributes:
      kind: the name of the engine: one of `HOST_ENGINES`, or that of a player on the device.
      simulations: simulations per move of OpenSpiel's MCTS.
      command: the command of a program that speaks GTP.
      timeout: the longest time in seconds for its answers.
    """

    kind: str
    simulations: int = 1000
    command: str = ""
    timeout: float = 60.0

    def build(self, env: Environment) -> HostMover:
        """Builds an engine of the host, which plays one game at a time.

        Raises:
          UserError: if it does not support the game, or is not installed.
        """
        if self.kind == GTP:
            engine = GtpEngine(env, self.command, self.timeout)
            mover = host_mover(engine.choose)
            return mover._replace(begin=engine.new_game, close=engine.close)
        is_mcts = self.kind == OPENSPIEL
        player = openspiel_mcts(env, self.simulations) if is_mcts else perfect_connect_four(env)
        assert isinstance(player.mover, HostMover)
        return player.mover

    def check(self, env: Environment) -> None:
        """Checks that an engine of the host can be built; a program is started once.

        Raises:
          UserError: as `build`; or if the program cannot be started or does not answer.
        """
        if self.kind != GTP:
            self.build(env).close()
            return
        engine = GtpEngine(env, self.command, self.timeout)
        with contextlib.closing(engine):
            engine.identify()


def load_engine(
    env: Environment,
    game: GameSpec,
    spec: EngineSpec,
    num_games: int,
    options: PlayOptions,
    *,
    player: Player | None = None,
    batch: int = 64,
    num_processes: int | None = None,
) -> LoadedEngine:
    """Loads an engine.

    Args:
      env: the game.
      game: the same game, by its name and parameters.
      spec: the engine.
      num_games: number of games.
      options: how the games are played.
      player: the player of an engine on the device; by default the perfect one.
      batch: number of games that it plays at once.
      num_processes: number of processes of an engine on the host, on which the games do not
        depend; by default one for each core.

    Raises:
      UserError: if the engine does not support the game, is not installed, or cannot be started.
    """
    record: dict[str, Any] = {
        "games": num_games,
        "seed": options.seed,
        "opening_plies": list(options.opening_plies),
        "max_plies": options.max_plies,
        "engine": spec.kind,
        "random_share": options.random_share,
    }
    if spec.kind in HOST_ENGINES:
        spec.check(env)
        record |= {"simulations": spec.simulations} if spec.kind == OPENSPIEL else {}
        record |= {"command": spec.command} if spec.command else {}
        number = num_processes or num_cores()
        play = functools.partial(play_on_host, game, spec, options, num_games, number)
    else:
        player = player or _perfect_player(env)
        record |= {"batch": batch, "player": player.about}
        choose = _choose_on_device(env, player, batch)
        play = functools.partial(play_on_device, env, choose, options, num_games, batch)
    return LoadedEngine(GameSpec(env.id, game.parameters), record, num_games, play)


def make_games(engine: LoadedEngine, folder: Path, show: Callable[[int, int], None]) -> None:
    """Lets an engine play the games that the folder lacks, and appends them to its journal.

    Args:
      engine: the engine.
      folder: the folder of the data set.
      show: called with the number of games played and of all games.

    Raises:
      UserError: if the journal is damaged, or has fewer games than have been read from it.
    """
    again = f"or remove it and the folder {PARTS} beside it, and the games are played again"
    remedy = f"{PUT_BACK}, {again}"
    journal = reopen_journal(folder / GAMES, least=count_read(folder).read, remedy=remedy)
    if journal.num_rows < engine.num_games:
        for played in engine.play(journal.num_rows):
            journal.append(game.to_json(*engine.game) for game in played)
            show(journal.num_rows, engine.num_games)


def default_random_share(kind: str | None) -> float:
    """Returns the share of random moves of an engine, unless another one is chosen.

    Perfect players would otherwise play few different games.
    """
    return _RANDOM_SHARE if kind in (PERFECT, BITBULLY) else 0.0


def _perfect_player(env: Environment) -> Player:
    if not games.is_solvable(env) and env.id == "connect_four":
        raise UserError("perfect does not support connect_four; choose the engine bitbully")
    return perfect_player(env)


def _choose_on_device(env: Environment, player: Player, batch: int) -> ChooseFn:
    """Returns the choice of moves by a player on the device, for at most `batch` games.

    A player that reuses trees starts a new tree for each move. A move depends on its position and
    its seed, apart from rounding errors that depend on the batch.
    """
    mover = as_mover(player.mover)  # pyright: ignore[reportArgumentType]

    @jax.jit
    def choose_moves(params: Any, seeds: Any, states: Any) -> Any:
        keys = jax.vmap(jax.random.PRNGKey)(seeds)
        return mover.choose(params, keys, states, mover.start(params, states))[0]

    def choose(histories: list[list[int]], seeds: list[int]) -> list[int | Failure]:
        states = games.replay(env, pad_histories(histories, batch))
        padded = np.resize(np.asarray(seeds, np.uint32), batch)
        actions = choose_moves(player.params, padded, states)
        chosen = np.asarray(actions)[: len(histories)].tolist()
        return [_FAILED if action < 0 else action for action in chosen]

    return choose


_FAILED = Failure(
    "not finite",
    "the output of the network is NaN or infinite; use another checkpoint or train again",
)


def play_on_device(
    env: Environment, choose: ChooseFn, options: PlayOptions, total: int, batch: int, first: int
) -> Iterator[list[PlayedGame]]:
    """Plays the games `first` to `total` - 1 in batches, and yields each batch.

    Batches begin at multiples of `batch`, so that a game is always in the same batch.
    """
    for start in range(first // batch * batch, total, batch):
        played = play_games(env, choose, range(start, start + batch), options)
        yield [game for game in played if first <= game.number < total]


def play_on_host(
    game: GameSpec, spec: EngineSpec, options: PlayOptions, total: int, processes: int, first: int
) -> Iterator[list[PlayedGame]]:
    """Plays the games `first` to `total` - 1, one at a time in each process, and yields each.

    Raises:
      UserError: if a process is killed, or an engine cannot be built.
    """
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    executor = ProcessPoolExecutor(
        min(processes, max(1, total - first)), context, _start, (game, spec, options, stop)
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
    engine: HostMover | str
    options: PlayOptions
    stop: Any


_workers: list[_Worker] = []
_STOPPED = Failure("crashed", "stopped")


def _start(game: GameSpec, spec: EngineSpec, options: PlayOptions, stop: Any) -> None:
    """Prepares a process."""
    # The main process handles Ctrl-C, and tells the others to stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    jax.config.update("jax_platforms", "cpu")
    env = games.make(game.name, **game.parameters)
    try:
        engine: HostMover | str = spec.build(env)
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
        if isinstance(worker.engine, HostMover):
            # A program that ignores the end of its input would stay.
            worker.engine.close()
    os._exit(1)


def _play(number: int) -> PlayedGame:
    """Plays a game in this process."""
    env, engine, options, stop = _workers[0]
    if isinstance(engine, str):
        raise UserError(engine)

    def choose(histories: list[list[int]], seeds: list[int]) -> list[int | Failure]:
        return [_STOPPED] if stop.is_set() else engine.choose(histories, seeds)

    engine.begin()
    return play_games(env, choose, [number], options)[0]
