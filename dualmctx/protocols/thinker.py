"""The searches of a session: one at a time, on the tree that is kept from move to move."""

from collections.abc import Callable
from typing import NamedTuple

import games
from dualmctx.errors import UserError
from dualmctx.evaluation.engine import Engine, EngineOptions
from dualmctx.evaluation.questions import Question, Row
from dualmctx.evaluation.requests import Analysis
from dualmctx.evaluation.tasks import can_deepen, to_chunk, total_simulations
from dualmctx.protocols.events import Found
from dualmctx.protocols.running_game import RunningGame
from dualmctx.runs.saved_network import Trained
from dualmctx.types import Environment, Policy
from games.opened_positions import MOVES_AT_ONCE

# A report after each step.
_ALWAYS = 1e-9


class Limits(NamedTuple):
    """When a search ends by itself.

    Attributes:
      simulations: the simulations of the tree, with those of the kept tree; `None` for as many as
        the trees hold.
      is_clocked: whether time runs, so that no program may be compiled. A search that cannot
        continue from its trees then has at most its own budget.
    """

    simulations: int | None = None
    is_clocked: bool = False


class Thinker:
    """An engine with one search at a time, whose rows arrive as events.

    The rows of search 0 are those of the start, during which the programs are compiled. All methods
    are called by one thread.

    Attributes:
      budget: the simulations of the search by default.
      number: the number of the last search that was started.
    """

    def __init__(
        self, trained: Trained, policy: Policy, options: EngineOptions, put: Callable[[Found], None]
    ) -> None:
        """Starts the engine, which compiles in a thread of its own.

        Args:
          trained: the network with its game.
          policy: the search, without noise.
          options: the options of the engine.
          put: receives the rows; called in another thread.
        """
        self.budget, self.number, self._name = total_simulations(policy), 0, ""
        self._max_simulations, self._put = options.max_simulations, put
        self._continues = can_deepen(policy)
        # A step that is larger than the budget would exceed it.
        options = options._replace(chunk_size=min(self.budget, options.chunk_size))
        chunk = to_chunk(policy, options.chunk_size) if self._continues else None
        self._step = 1 if chunk is None else total_simulations(chunk)
        self._engine = Engine(trained, lambda variant: policy, options)
        self._compiling = self._compile(trained.env)

    def _compile(self, env: Environment) -> int:
        """Searches positions of every kind, for which all programs are compiled.

        Returns:
          The number of the positions.
        """
        # Longer lines than one call of the replay takes; the moves are illegal in most games.
        long_game: list[int | str] = [0] * (MOVES_AT_ONCE + 1)
        questions = [Question(0, 0), Question(0, 0, long_game)]
        if games.has_fen(env):
            start = games.start_position(env)
            fen = games.write_fen(start) if games.is_chess(env) else games.to_fen(env, start)
            questions.append(Question(0, 0, fen=fen))
        limits = Limits(self._step if self._continues else None, is_clocked=True)
        searches = [(question, limits) for question in questions]
        if not self._continues:
            # Without a clock, its program is another one.
            searches.append((Question(0, 0), Limits(self.budget)))
        for question, given in searches:
            self._submit(0, question, given)
        return len(searches)

    @property
    def is_ready(self) -> bool:
        """Whether all programs are compiled that a search under a clock needs."""
        return self._compiling == 0

    def take_start(self, row: Row) -> None:
        """Takes a row of search 0, after which the engine may be ready.

        Raises:
          UserError: if the search does not fit into memory, or fails.
        """
        if row.get("final") is False:
            return
        if "error" in row and not row["error"].startswith("move "):
            raise UserError(row["error"])
        self._compiling -= 1

    def start(
        self, game: RunningGame, limits: Limits, allowed: tuple[int, ...] | None = None
    ) -> int:
        """Starts a search of the last position of a game, which is not over.

        Args:
          game: the game.
          limits: when the search ends; another limit of time is that of the caller.
          allowed: the legal actions among which it chooses; `None` for all.

        Returns:
          The number of the search. Each of its steps gives a row, the last one of which has no
          `"final": False`. A row with `error` is the last one.
        """
        self.number += 1
        question = Question(0, 0, list(game.actions), game.fen, allowed=allowed)
        self._submit(self.number, question, limits)
        return self.number

    def _submit(self, number: int, question: Question, limits: Limits) -> None:
        self._name = self._engine.submit(
            question, self._analysis(limits), lambda row: self._put(Found(number, row))
        )

    def _analysis(self, limits: Limits) -> Analysis:
        largest = self._max_simulations
        if limits.is_clocked and not self._continues:
            largest = min(largest, self.budget)
        simulations = largest if limits.simulations is None else min(limits.simulations, largest)
        is_staged = limits.is_clocked or limits.simulations is None or self._continues
        return Analysis(
            # A smaller budget than a step would need a program of its own.
            simulations=(max(simulations, self._step),),
            report_every=_ALWAYS if is_staged else None,
            is_maximum=True,
        )

    def stop(self) -> None:
        """Ends the search in progress, if there is one, after its step."""
        self._engine.cancel(self._name)

    def clear(self) -> None:
        """Drops the kept trees."""
        self._engine.clear()

    def close(self, seconds: float) -> bool:
        """Ends the engine; returns whether its thread has ended within some seconds."""
        self._engine.close()
        return self._engine.join(seconds)
