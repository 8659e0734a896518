"""Positions of a game for a page: their description, exact values, and the cells that won."""

import itertools
from collections.abc import Sequence

import numpy as np

import games
from dualmctx.errors import UserError
from dualmctx.types import Environment
from dualmctx.web.protocol import Row
from games import GamePosition, pictures
from games.exact import SECONDS

Cell = tuple[int, int]
"""A row from the top and a column of a picture, from 0."""
_IN_A_ROW = {"connect_four": 4, "tic_tac_toe": 3, "connect2": 2}
_DIRECTIONS = ((0, 1), (1, 0), (1, 1), (1, -1))
_HEX_NEIGHBOURS = ((0, -1), (0, 1), (-1, 0), (1, 0), (-1, 1), (1, -1))


def describe_position(env: Environment, opened: GamePosition) -> Row:
    """Returns the fields of the answer `position`."""
    state, is_over = opened.state, opened.is_over
    shape = "points" if env.id.startswith("go_") else "hex" if env.id == "hex" else "square"
    return {
        "picture": _picture(opened),
        "shape": shape,
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
        games.format_action(env, opened.state, action): value
        for action, value in found.moves.items()
    }
    return {"source": found.source, "value": found.value, "moves": moves}


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


def winning_cells(game: str, rows: Sequence[Sequence[str]], winner: int) -> list[Cell]:
    """Returns the cells that won a finished game, sorted; none if the game has no such cells.

    Args:
      game: the name of the game.
      rows: the cells of its picture, see `games.pictures.Picture`.
      winner: the side that won, 0 for the side that began.
    """
    stones = {
        (y, x)
        for y, row in enumerate(rows)
        for x, cell in enumerate(row)
        if cell.lower() == "xo"[winner]
    }
    if game == "hex":
        return sorted(_hex_chain(stones, len(rows), winner))
    length = _IN_A_ROW.get(game)
    if length is None:
        return []
    lines = (
        [(y + i * dy, x + i * dx) for i in range(length)]
        for (y, x), (dy, dx) in itertools.product(stones, _DIRECTIONS)
    )
    return sorted({cell for line in lines if stones.issuperset(line) for cell in line})


def _hex_chain(stones: set[Cell], size: int, winner: int) -> list[Cell]:
    """Returns a shortest chain between the edges of a side: top and bottom for the first side."""
    # Each row of the picture begins with row // 2 blanks, without which columns are those of Hex.
    cells = {(y, x - y // 2) for y, x in stones}
    paths = {cell: [cell] for cell in sorted(cells) if cell[winner] == 0}
    frontier = list(paths)
    for cell in frontier:
        if cell[winner] == size - 1:
            return [(y, x + y // 2) for y, x in paths[cell]]
        for dy, dx in _HEX_NEIGHBOURS:
            after = cell[0] + dy, cell[1] + dx
            if after in cells and after not in paths:
                paths[after] = [*paths[cell], after]
                frontier.append(after)
    return []
