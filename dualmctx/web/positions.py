"""Positions of a game: their states on the host, and their description for a page."""

import dataclasses
import reprlib
from typing import Any, NamedTuple

import jax
import numpy as np

import games
from dualmctx.evaluation.move_parser import parse_batch
from dualmctx.evaluation.questions import Question
from dualmctx.types import Environment
from dualmctx.web.protocol import Row
from games import pictures
from games.exact import SECONDS

_MAX_NAMES = 40
_NO_MOVES = np.full((1, 1), -1, np.int32)


class Opened(NamedTuple):
    """A position after its moves.

    Attributes:
      state: the unbatched state, as NumPy arrays.
      before: the state before the last move; equal to `state` without moves.
      start: as in `games.parse_moves`.
      actions: the moves.
      first_player: the player who has the first side.
    """

    state: Any
    before: Any
    start: Any
    actions: list[int]
    first_player: int

    @property
    def is_over(self) -> bool:
        """Whether the game is over."""
        return bool(self.state.terminated or self.state.truncated)

    @property
    def side(self) -> int:
        """The side to move: 0 for the side that begins the game, 1 for the other."""
        return int(self.state.current_player != self.first_player)


def open_position(env: Environment, question: Question) -> Opened:
    """Replays the moves of a position.

    Raises:
      ValueError: if a move cannot be read or is illegal, or the FEN is wrong.
    """
    parsed = parse_batch(env, [question])
    if parsed.errors:
        raise ValueError(parsed.errors[0])
    start, actions = parsed.starts[0], parsed.actions.tolist()
    # Both histories start from one state, because the first player differs from row to row.
    initial = games.replay(env, _NO_MOVES) if start is None else games.set_up(env, [start])
    starts = jax.tree.map(lambda x: np.repeat(x, 2, axis=0), jax.device_get(initial))
    histories = np.full((2, max(1, len(actions))), -1, np.int32)
    histories[0, : len(actions)] = actions
    histories[1, : max(0, len(actions) - 1)] = actions[:-1]
    states, first_bad = jax.device_get(games.replay_checked(env, histories, starts))
    state, before = (jax.tree.map(lambda x, i=i: x[i], states) for i in (0, 1))
    if first_bad[0] >= 0:
        raise ValueError(_describe_illegal(env, question, state, int(first_bad[0])))
    # In positions of a FEN, player 0 has the first side.
    first = int(starts.current_player[0]) if start is None else 0
    return Opened(state, before, start, actions, first)


def _describe_illegal(env: Environment, question: Question, state: Any, index: int) -> str:
    """Returns the error of a move, given its index and the state before it."""
    move = f"move {index + 1}, {reprlib.repr(question.moves[index])},"
    if state.terminated or state.truncated:
        return f"{move} comes after the end of the game"
    legal = np.flatnonzero(state.legal_action_mask).tolist()[:_MAX_NAMES]
    names = ", ".join(name_of(env, state, action) for action in legal)
    return f"{move} is illegal; legal moves are {names}"


def name_of(env: Environment, state: Any, action: int) -> str:
    """Returns the name of a move in a position."""
    return games.format_action(env, state if games.is_chess(env) else None, action)


def describe_position(env: Environment, opened: Opened) -> Row:
    """Returns the fields of the answer `position`."""
    state, is_over = opened.state, opened.is_over
    return {
        "picture": _picture(opened),
        "shape": shape(env),
        "side": opened.side,
        "is_over": is_over,
        "result": result_of(env, opened) if is_over else None,
        "moves": games.format_moves(env, opened.start, opened.actions),
        "actions": opened.actions,
        "entries": [entry._asdict() for entry in games.entries(env, state)],
        "fen": games.to_fen(env, state) if games.has_fen(env) else None,
        "ply": len(opened.actions),
    }


def find_exact(env: Environment, opened: Opened, seconds: float = SECONDS) -> Row | None:
    """Returns the exact values of a position, in the view of the side to move.

    Args:
      env: the game.
      opened: the position.
      seconds: how long to wait for the solution of the game.

    Returns:
      `source`, `value` and `moves`, the value of each legal move by its name; `None` if unknown.
    """
    found = games.exact_values(env, opened.state, seconds)
    if found is None:
        return None
    moves = {name_of(env, opened.state, action): value for action, value in found.moves.items()}
    return {"source": found.source, "value": found.value, "moves": moves}


def shape(env: Environment) -> str:
    """Returns the shape of the cells of the board: square, hex, or points where lines cross."""
    return "points" if env.id.startswith("go_") else "hex" if env.id == "hex" else "square"


def name_line(env: Environment, opened: Opened, actions: list[int]) -> list[str]:
    """Formats moves that continue from a position."""
    done = len(opened.actions)
    return games.format_moves(env, opened.start, [*opened.actions, *actions])[done:]


def _picture(opened: Opened) -> Row:
    try:
        drawn = pictures.picture(opened.state, opened.before if opened.actions else None)
    except ValueError as error:
        # A game of the user may have no picture; its moves are entered by name.
        drawn = pictures.Picture(caption=str(error), rows=())
    return dataclasses.asdict(drawn) | {"marked": sorted(drawn.marked)}


def result_of(env: Environment, opened: Opened) -> Row:
    """Returns the side that won a finished game, `None` for a draw, and a text."""
    rewards = np.asarray(opened.state.rewards)
    if not rewards.any():
        return {"winner": None, "text": "draw"}
    winner = int(rewards.argmax() != opened.first_player)
    return {"winner": winner, "text": f"{pictures.player_names(env.id)[winner]} won"}
