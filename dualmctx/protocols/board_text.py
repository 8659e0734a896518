"""The board as text, for a terminal."""

from typing import Any

import games
from dualmctx.errors import UserError
from dualmctx.types import Environment
from games.pictures import picture


def board_text(env: Environment, state: Any, before: Any) -> str:
    """Returns the caption and the board; marks the last move if there is a state before it."""
    if env.id == "hex":
        return _hex(state, before)
    try:
        return games.to_text(state, before)
    except UserError as error:
        # A game of the user may have no picture.
        return f"{env.id}: {error}"


def _hex(state: Any, before: Any) -> str:
    """Each row begins half a cell further to the right than the one above, below the letters."""
    drawn = picture(state, before)
    lines = [drawn.caption, f"    {' '.join('abcdefghijklmnopqrstuvwxyz'[: len(drawn.rows)])}"]
    for y, row in enumerate(drawn.rows):
        first, blanks = y + 4, y // 2
        line = list(f"{y + 1:>{first - 1}} {' '.join(row[blanks:])} ")
        for x in (x for marked_row, x in drawn.marked if marked_row == y):
            middle = first + 2 * (x - blanks)
            line[middle - 1], line[middle + 1] = "[]"
        lines.append("".join(line).rstrip())
    return "\n".join(lines)
