"""Players that play both sides of the games of a data set, on the device or on the host."""

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
from dualmctx.matches.player_spec import PERFECT
from dualmctx.matches.players import ChooseFn, HostMover, Player, as_mover
from dualmctx.programs.engine import num_cores
from dualmctx.runs.journal import PUT_BACK, reopen_journal
from dualmctx.types import Environment, Failure
from games.histories import pad_histories

# Programs that play side by side, for each of those that think at the same time.
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


def load_engine(
    env: Environment,
    game: GameSpec,
    player: Player,
    num_games: int,
    options: PlayOptions,
    *,
    batch: int = 64,
    num_processes: int | None = None,
    rebuild: Callable[[], Player] | None = None,
) -> LoadedEngine:
    """Makes an engine of a player, which plays both sides.

    Args:
      env: the game.
      game: the same game, by its name and parameters.
      player: the player.
      num_games: number of games.
      options: how the games are played.
      batch: number of games that are played at once; less for programs.
      num_processes: number of processes of a player on the host, on which the games do not
        depend; by default one for each core.
      rebuild: builds the player in each process, so it can be pickled; `None` for a player that
        needs no further process, such as a program.
    """
    number = num_processes or num_cores()
    record: dict[str, Any] = {
        "games": num_games,
        "seed": options.seed,
        "opening_plies": list(options.opening_plies),
        "max_plies": options.max_plies,
        "random_share": options.random_share,
        "player": player.about,
    }
    if not isinstance(player.mover, HostMover):
        record["batch"] = batch
        mover = _choose_on_device(env, player, batch)
    elif rebuild is None:
        mover, batch = player.mover, min(batch, _GAMES_PER_PROCESS * number)
    else:
        mover = _in_processes(rebuild, number) if number > 1 else player.mover
    play = functools.partial(play_batches, env, mover, options, num_games, batch)
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


def random_share_of(search: str, share: float | None) -> float:
    """Returns the share of random moves of a player; by default 0.1 for `perfect`, else 0.

    Perfect players would otherwise play few different games.
    """
    if share is not None:
        return share
    return 0.1 if search == PERFECT else 0.0


def _choose_on_device(env: Environment, player: Player, batch: int) -> ChooseFn:
    """Returns the choice of moves by a player on the device, with a new tree for each move."""
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


def _in_processes(rebuild: Callable[[], Player], number: int) -> HostMover:
    """Returns the mover of a player that chooses moves in processes, each with its own player."""
    context = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(number, context, _start, (rebuild,))

    def choose(histories: list[list[int]], seeds: list[int]) -> list[int | Failure]:
        try:
            return [*executor.map(_choose, histories, seeds)]
        except BrokenProcessPool:
            raise UserError(
                "a process of the player was killed, perhaps because memory ran out; continue "
                "with --resume, and with fewer --processes"
            ) from None

    return HostMover(choose, close=functools.partial(executor.shutdown, cancel_futures=True))


# The player of this process, if it is one of `_in_processes`.
_players: list[HostMover] = []


def _start(rebuild: Callable[[], Player]) -> None:
    # The parent handles Ctrl-C.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    jax.config.update("jax_platforms", "cpu")
    mover = rebuild().mover
    assert isinstance(mover, HostMover)
    _players[:] = [mover]


def _end_with_parent() -> None:
    """Ends this process when its parent has been killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _choose(history: list[int], seed: int) -> int | Failure:
    return _players[0].choose([history], [seed])[0]
