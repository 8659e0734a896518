"""Engines that play the games of a data set: players on the device, and programs on the host."""

import contextlib
import functools
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
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
from dualmctx.matches.other_players import gtp_player, openspiel_mcts, perfect_connect_four
from dualmctx.matches.players import ChooseFn, HostMover, Player, as_mover, perfect_player
from dualmctx.programs.engine import num_cores
from dualmctx.runs.journal import PUT_BACK, reopen_journal
from dualmctx.types import Environment, Failure
from games.histories import pad_histories

OPENSPIEL, PERFECT, BITBULLY, GTP = "openspiel-mcts", "perfect", "bitbully", "gtp"
_RANDOM_SHARE = 0.1
# Programs of GTP that play side by side, for each of those that think at the same time.
_GAMES_PER_PROCESS = 2


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
      keeps_equal_games: whether a data set keeps games that are equal to an earlier one.
    """

    game: GameSpec
    record: dict[str, Any]
    num_games: int
    play: Callable[[int], Iterator[list[PlayedGame]]]
    keeps_equal_games: bool = False


class EngineSpec(NamedTuple):
    """A description of an engine.

    Attributes:
      kind: the name of the engine: openspiel-mcts, perfect, bitbully, gtp or network.
      simulations: simulations per move of OpenSpiel's MCTS.
      command: the command of a program that speaks GTP.
      timeout: the longest time in seconds for its answers.
    """

    kind: str
    simulations: int = 1000
    command: str = ""
    timeout: float = 60.0


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
      player: the player of the engine `network`.
      batch: number of games that are played at once; less for programs that speak GTP.
      num_processes: number of processes of an engine on the host, on which the games do not
        depend; by default one for each core.

    Raises:
      UserError: if the engine does not support the game, is not installed, or cannot be started.
    """
    number = num_processes or num_cores()
    player = player or _build(env, spec, number)
    record: dict[str, Any] = {
        "games": num_games,
        "seed": options.seed,
        "opening_plies": list(options.opening_plies),
        "max_plies": options.max_plies,
        "engine": spec.kind,
        "random_share": options.random_share,
        "player": player.about,
    }
    if spec.kind == GTP:
        batch = min(batch, _GAMES_PER_PROCESS * number)
    if not isinstance(player.mover, HostMover):
        record["batch"] = batch
        mover = _choose_on_device(env, player, batch)
    elif spec.kind == GTP or number == 1:
        mover = player.mover
    else:
        mover = _in_processes(game, spec, number)
    play = functools.partial(play_batches, env, mover, options, num_games, batch)
    return LoadedEngine(GameSpec(env.id, game.parameters), record, num_games, play)


def _build(env: Environment, spec: EngineSpec, num_processes: int) -> Player:
    if spec.kind == GTP:
        return gtp_player(env, spec.command, timeout=spec.timeout, num_processes=num_processes)
    if spec.kind == OPENSPIEL:
        return openspiel_mcts(env, spec.simulations)
    if spec.kind == BITBULLY:
        return perfect_connect_four(env)
    if env.id == "connect_four" and not games.is_solvable(env):
        raise UserError("perfect does not support connect_four; choose the engine bitbully")
    return perfect_player(env)


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


def play_batches(
    env: Environment,
    mover: ChooseFn | HostMover,
    options: PlayOptions,
    total: int,
    batch: int,
    first: int,
) -> Iterator[list[PlayedGame]]:
    """Plays the games `first` to `total` - 1 in batches, and yields each batch.

    Batches begin at multiples of `batch`. A game of a player on the device is always in the same
    whole batch, because rounding may depend on the others.
    """
    with contextlib.ExitStack() as stack:
        if isinstance(mover, HostMover):
            stack.callback(mover.close)
        for start in range(first // batch * batch, total, batch):
            wanted = range(max(start, first), min(start + batch, total))
            if isinstance(mover, HostMover):
                mover.begin()
                yield play_games(env, mover.choose, wanted, options, size=batch)
            else:
                played = play_games(env, mover, range(start, start + batch), options)
                yield [game for game in played if game.number in wanted]


def _in_processes(game: GameSpec, spec: EngineSpec, number: int) -> HostMover:
    """Returns the mover of an engine that chooses moves in several processes.

    Each process builds its own engine. It ignores Ctrl-C, which this process handles.
    """
    context = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(number, context, _start, (game, spec))

    def choose(histories: list[list[int]], seeds: list[int]) -> list[int | Failure]:
        try:
            return [*executor.map(_choose, histories, seeds)]
        except BrokenProcessPool:
            raise UserError(
                "a process of the engine was killed, perhaps because memory ran out; continue "
                "with --resume, and with fewer --processes"
            ) from None

    return HostMover(choose, close=functools.partial(executor.shutdown, cancel_futures=True))


# The engine of this process, if it is one of `_in_processes`.
_engines: list[HostMover] = []


def _start(game: GameSpec, spec: EngineSpec) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    jax.config.update("jax_platforms", "cpu")
    mover = _build(games.make(game.name, **game.parameters), spec, 1).mover
    assert isinstance(mover, HostMover)
    _engines[:] = [mover]


def _end_with_parent() -> None:
    """Ends this process when its parent has been killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _choose(history: list[int], seed: int) -> int | Failure:
    return _engines[0].choose([history], [seed])[0]
