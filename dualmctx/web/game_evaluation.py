"""Evaluates all positions of a game in batches on the device."""

import functools
from typing import Any

import jax
import numpy as np

import games
from dualmctx.errors import UserError
from dualmctx.evaluation.compiled_searches import release_memory
from dualmctx.evaluation.evaluations import join
from dualmctx.evaluation.evaluator import Evaluator
from dualmctx.evaluation.factory import build_evaluator
from dualmctx.evaluation.questions import Question
from dualmctx.evaluation.tasks import total_simulations
from dualmctx.runs.saved_network import Trained
from dualmctx.runs.saved_policy import with_simulations
from dualmctx.types import Environment, Policy
from dualmctx.web.counter import Counter
from dualmctx.web.positions import find_exact, open_position
from dualmctx.web.protocol import Message, Row
from dualmctx.web.review import make_rows
from dualmctx.web.search_rows import Build
from games import GamePosition
from games.histories import pad_histories, power_of_two, step_legal

BATCH_SIZE = 32
MAX_EVALUATORS = 2
"""The largest number of compiled searches for the reviews of one network."""
_MIN_MOVES = 64


def chosen_policy(build: Build, message: Message, max_simulations: int) -> Policy:
    """Returns the search that a message names, with its simulations.

    Raises:
      ValueError: if there is no such search, or it has too many simulations.
    """
    policy = build(message.variant)
    if message.simulations is not None:
        single = len(message.simulations) == 1
        policy = with_simulations(policy, message.simulations[0] if single else message.simulations)
    number = total_simulations(policy)
    if number > max_simulations:
        raise UserError(
            f"simulations is {number}; it must be at most {max_simulations}, unless the server is"
            " started with a larger --max-simulations"
        )
    return policy


class GameEvaluator:
    """Evaluates the games of one network; keeps the compiled searches that were used last."""

    def __init__(self, trained: Trained, seed: int) -> None:
        """Takes the network and the seed of the random numbers."""
        self._trained, self._seed = trained, seed
        self._evaluator = functools.lru_cache(maxsize=MAX_EVALUATORS)(self._build)

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
        env = self._trained.env
        opened = open_position(env, message.question())
        positions = _positions(env, message, opened)
        counter(0, len(positions))
        evaluations = self._evaluate(positions, policy, counter)
        exact = self._find_exact(positions, counter)
        return make_rows(
            evaluations,
            [position.side for position in positions],
            opened.actions,
            lambda ply, action: games.name_action(env, positions[ply].state, action),
            None if exact[0] is None else exact,
        )

    def _evaluate(self, positions: list[GamePosition], policy: Policy, counter: Counter) -> Any:
        evaluator = self._evaluator(policy)
        parts = [evaluator.empty]
        for begin in range(0, len(positions), BATCH_SIZE):
            piece = [x.state for x in positions[begin : begin + BATCH_SIZE]]
            states = jax.tree.map(lambda *leaves: np.stack(leaves), *piece)
            ids = range(begin, begin + len(piece))
            parts.append(evaluator.start(states, ids).result())
            counter(begin + len(piece), len(positions))
        return join(parts, len(positions))

    def _find_exact(self, positions: list[GamePosition], counter: Counter) -> list[Row | None]:
        found: list[Row | None] = []
        for position in positions:
            found.append(find_exact(self._trained.env, position))
            counter(len(positions), len(positions))
        return found

    def _build(self, policy: Policy) -> Evaluator:
        found = build_evaluator(
            self._trained, policy, batch_size=BATCH_SIZE, seed=self._seed, devices=1
        )
        release_memory()
        return found


def _positions(env: Environment, message: Message, opened: GamePosition) -> list[GamePosition]:
    """Returns the positions of a game, from its start to its end."""
    begin = open_position(env, Question(0, 0, [], message.fen))
    size = max(_MIN_MOVES, power_of_two(len(opened.actions)))
    actions = pad_histories([opened.actions], min_moves=size)
    starts = jax.tree.map(lambda x: x[None], begin.state)
    later = jax.device_get(_play(env, starts, actions.T))
    states = [begin.state]
    states += [jax.tree.map(lambda x, i=i: x[i, 0], later) for i in range(len(opened.actions))]
    return [
        begin._replace(state=state, before=states[max(0, ply - 1)], actions=opened.actions[:ply])
        for ply, state in enumerate(states)
    ]


@functools.partial(jax.jit, static_argnums=0)
def _play(env: Environment, states: Any, actions: jax.Array) -> Any:
    """Returns the `[D, 1]` states after each of `[D, 1]` legal actions, padded with -1."""

    def step(states: Any, actions: jax.Array) -> tuple[Any, Any]:
        states, _ = step_legal(env, states, actions, actions >= 0)
        return states, states

    return jax.lax.scan(step, states, actions)[1]
