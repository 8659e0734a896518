"""Positions of a game: their states on the host, and their description for a page."""

import numpy as np

import games
from dualmctx.errors import UserError
from dualmctx.evaluation.questions import Question
from dualmctx.types import Environment
from dualmctx.web.protocol import Row
from dualmctx.web.winning_cells import winning_cells
from games import GamePosition, pictures
from games.exact import SECONDS


def open_position(env: Environment, question: Question) -> GamePosition:
    """Replays the moves of a position.

    Raises:
      ValueError: if a move cannot be read or is illegal, or the FEN is wrong.
    """
    return games.open_position(env, question.moves, question.fen)


def describe_position(env: Environment, opened: GamePosition) -> Row:
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


def find_exact(env: Environment, opened: GamePosition, seconds: float = SECONDS) -> Row | None:
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
    moves = {
        games.name_action(env, opened.state, action): value for action, value in found.moves.items()
    }
    return {"source": found.source, "value": found.value, "moves": moves}


def shape(env: Environment) -> str:
    """Returns the shape of the cells of the board: square, hex, or points where lines cross."""
    return "points" if env.id.startswith("go_") else "hex" if env.id == "hex" else "square"


def _picture(opened: GamePosition) -> Row:
    try:
        drawn = pictures.picture(opened.state, opened.before if opened.actions else None)
    except UserError as error:
        # A game of the user may have no picture; its moves are entered by name.
        drawn = pictures.Picture(caption=str(error), rows=())
    return drawn.to_dict()


def result_of(env: Environment, opened: GamePosition) -> Row:
    """Returns the side that won a finished game, `None` for a draw; a text; and winning cells."""
    rewards = np.asarray(opened.state.rewards)
    if not rewards.any():
        return {"winner": None, "text": "draw", "cells": []}
    winner = int(rewards.argmax() != opened.first_player)
    cells = winning_cells(env.id, _picture(opened)["rows"], winner)
    text = f"{pictures.player_names(env.id)[winner]} won"
    return {"winner": winner, "text": text, "cells": cells}
