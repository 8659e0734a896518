"""Text of a game in the terminal, at most 80 columns wide: the board and how moves are written."""

import textwrap
from typing import Any

import games
from dualmctx.errors import UserError
from dualmctx.types import Environment
from games.pictures import picture

WIDTH = 80
_NOTATIONS = {
    "connect_four": "the column, 1 to 7 from the left",
    "tic_tac_toe": "the cell, 1 to 9, row by row from the top left",
    "connect2": "the cell, 1 to 4 from the left",
    "othello": "the square, such as d3, or pass",
    "hex": "the cell, such as b2, or swap",
    "go": "the point, such as D4, or pass",
    "nim": "the number of stones that you take",
    "hsr": "the rung, or the answer: break or no-break",
    "chess": "e2e4, e7e8q, Nf3, exd5, e8=Q or O-O",
    "gardner_chess": "b2b3, b4b5q, Nc3, cxd3 or b5=Q",
}


def wrap(text: str, indent: str = "") -> str:
    """Breaks text into lines; further lines begin with `indent`."""
    return textwrap.fill(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def describe_notation(env: Environment) -> str:
    """Returns how a move is written."""
    known = _NOTATIONS.get("go" if env.id.startswith("go_") else env.id)
    return known or "its name in the list that moves prints"


def board_text(env: Environment, state: Any, before: Any) -> str:
    """Returns the caption and the board, with the last move in brackets.

    Args:
      env: the game.
      state: the unbatched state.
      before: the state before the last move; `None` without moves.
    """
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
    letters = "abcdefghijklmnopqrstuvwxyz"[: len(drawn.rows)]
    lines = [drawn.caption, f"    {' '.join(letters)}"]
    for y, row in enumerate(drawn.rows):
        cells = list(enumerate(row))[y // 2 :]
        marked = {x for x, _ in cells if (y, x) in drawn.marked}
        spaces = ("[" if x in marked else "]" if x - 1 in marked else " " for x, _ in cells)
        text = "".join(space + cell for space, (_, cell) in zip(spaces, cells, strict=True))
        end = "]" if cells[-1][0] in marked else ""
        lines.append(f"{' ' * y}{y + 1:>3}{text}{end}")
    return "\n".join(lines)


def describe_value(value: float) -> str:
    """Returns a value with its sign."""
    # Adding 0 converts -0 to 0.
    return f"{round(value, 2) + 0.0:+.2f}"
