"""Engines that make games: programs on the host, and players on the device."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

import games
from dualmctx.datasets.gtp_client import GtpProgram
from dualmctx.datasets.gtp_engine import SEED, GtpEngine
from dualmctx.datasets.self_play import ChooseFn
from dualmctx.errors import UserError
from dualmctx.matches.movers import as_mover
from dualmctx.matches.players import HostMover, Player, openspiel_mcts, perfect_connect_four
from dualmctx.types import Environment
from games.histories import pad_histories

OPENSPIEL, BITBULLY, GTP = "openspiel-mcts", "bitbully", "gtp"


class HostEngine(NamedTuple):
    """An engine that plays one game at a time on the host.

    Attributes:
      choose: chooses the moves of both sides.
      new_game: called before each game.
      close: called at the end.
    """

    choose: ChooseFn
    new_game: Callable[[], None] = lambda: None
    close: Callable[[], None] = lambda: None


class HostEngineSpec(NamedTuple):
    """A description of an engine on the host, from which each process builds its own.

    Attributes:
      kind: `OPENSPIEL`, `BITBULLY` or `GTP`.
      simulations: simulations per move of OpenSpiel's MCTS.
      command: the command of a program that speaks GTP.
      timeout: the longest time in seconds for its answers.
    """

    kind: str
    simulations: int = 1000
    command: str = ""
    timeout: float = 60.0

    def build(self, env: Environment) -> HostEngine:
        """Builds the engine.

        Raises:
          ValueError: if it does not support the game, or is not installed.
        """
        if self.kind == GTP:
            engine = GtpEngine(env, self.command, self.timeout)
            return HostEngine(engine.choose, engine.new_game, engine.close)
        if self.kind == OPENSPIEL:
            player = openspiel_mcts(env, self.simulations)
        else:
            player = perfect_connect_four(env)
        assert isinstance(player.mover, HostMover)
        choose = player.mover.choose
        return HostEngine(lambda histories, seeds: [*choose(histories, seeds)])

    def check(self, env: Environment) -> None:
        """Checks that the engine can be built; a program is started once.

        Raises:
          ValueError: as `build`; or if the program cannot be started or does not answer.
        """
        if self.kind != GTP:
            self.build(env).close()
            return
        if games.is_chess(env):
            raise UserError(f"the Go Text Protocol has no moves of {env.id}; use another engine")
        with GtpProgram(self.command.replace(SEED, "0"), self.timeout) as program:
            program.send("name")


def device_engine(env: Environment, player: Player, batch_size: int) -> ChooseFn:
    """Returns the choice of moves by a player on the device, for at most `batch_size` games.

    A player that reuses trees starts a new tree for each move. A move depends on its position and
    its seed, apart from rounding errors that depend on the batch size.

    Args:
      env: a game of `games.make`.
      player: a player whose mover runs on the device.
      batch_size: the number to which batches are padded.
    """
    mover = as_mover(player.mover)  # pyright: ignore[reportArgumentType]

    @functools.partial(jax.jit)
    def choose_moves(params: Any, seeds: Any, states: Any) -> Any:
        keys = jax.vmap(jax.random.PRNGKey)(seeds)
        return mover.choose(params, keys, states, mover.start(params, states))[0]

    def choose(histories: list[list[int]], seeds: list[int]) -> list[int | str]:
        states = games.replay(env, pad_histories(histories, batch_size))
        padded = np.resize(np.asarray(seeds, np.uint32), batch_size)
        actions = choose_moves(player.params, padded, states)
        chosen = np.asarray(actions)[: len(histories)].tolist()
        return [_FAILED if action < 0 else action for action in chosen]

    return choose


_FAILED = "the output of the network is NaN or infinite; use another checkpoint or train again"
