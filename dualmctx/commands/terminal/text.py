"""Text of a game in the terminal: the board, tables and messages, at most 80 columns wide."""

import textwrap
from collections.abc import Sequence
from typing import Any

import games
from dualmctx.errors import UserError
from dualmctx.evaluation.fields import Row
from dualmctx.types import Environment
from games.pictures import picture

WIDTH = 80
_MAX_MOVES = 12
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
_VERDICTS = {1: "win", 0: "draw", -1: "loss"}


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
    names = games.format_moves(
        games.make("hex", size=len(drawn.rows)), None, range(len(drawn.rows))
    )
    lines = [drawn.caption, "   " + "".join(f" {name[:-1]}" for name in names)]
    for y, row in enumerate(drawn.rows):
        cells = list(enumerate(row))[y // 2 :]
        marked = {x for x, _ in cells if (y, x) in drawn.marked}
        spaces = ("[" if x in marked else "]" if x - 1 in marked else " " for x, _ in cells)
        text = "".join(space + cell for space, (_, cell) in zip(spaces, cells, strict=True))
        end = "]" if cells[-1][0] in marked else ""
        lines.append(f"{' ' * y}{y + 1:>3}{text}{end}")
    return "\n".join(lines)


def list_moves(names: Sequence[str]) -> str:
    """Returns the legal moves."""
    return wrap(f"{len(names)} legal moves: {' '.join(names)}", "  ")


def describe_value(value: float | None) -> str:
    """Returns a value with its sign."""
    # Adding 0 converts -0 to 0.
    return "unknown" if value is None else f"{round(value, 2) + 0.0:+.2f}"


def analysis_table(analysis: Row, exact: games.ExactValues | None, player: str) -> str:
    """Returns a table of the best moves of a search, with a bar for each.

    Args:
      analysis: the fields of a search, as of `dualmctx.web.analysis.to_analysis`.
      exact: the exact values of the position; `None` if they are unknown.
      player: the name of the player to move.
    """
    value = describe_value(analysis["value"])
    kept = f" ({analysis['reused']} of them kept)" if analysis["reused"] else ""
    head = f"{analysis['simulations']} simulations{kept}: value {value} for {player}"
    moves = sorted(analysis["moves"], key=lambda x: (-(x["weight"] or 0), -(x["visits"] or 0)))
    shown = moves[:_MAX_MOVES]
    rows = [_cells(move, exact) for move in shown]
    titles = ["move", "visits", "value", "policy", "prior", *(["exact"] if exact else [])]
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    longest = WIDTH - sum(widths) - 2 * len(widths)
    lines = [_join(titles, widths)]
    for move, cells in zip(shown, rows, strict=True):
        bar = "#" * round(longest * (move["weight"] or 0))
        lines.append(f"{_join(cells, widths)}  {bar}".rstrip())
    if len(moves) > len(shown):
        lines.append(f"and {len(moves) - len(shown)} more moves")
    line = wrap(f"expected line: {' '.join(analysis['line'])}", "  ")
    return "\n".join([head, *lines, wrap(analysis["policy"]), line])


def _cells(move: Row, exact: games.ExactValues | None) -> list[str]:
    visits = "-" if move["visits"] is None else str(move["visits"])
    value = "-" if move["q"] is None else describe_value(move["q"])
    cells = [move["name"], visits, value, _percent(move["weight"]), _percent(move["prior"][-1])]
    return cells + ([_VERDICTS[exact.moves[move["action"]]]] if exact else [])


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"


def _join(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = (cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
    return "  ".join([first, *rest])


def describe_exact(exact: games.ExactValues | None, names: dict[int, str], player: str) -> str:
    """Returns the exact values of a position.

    Args:
      exact: the values; `None` if they are unknown.
      names: the names of the legal moves, by action.
      player: the name of the player to move.
    """
    if exact is None:
        return "The exact value of this position is not known."
    source = "by bitbully" if exact.source == "bitbully" else "from the solution of the game"
    lines = [f"With perfect play: {_VERDICTS[exact.value]} for {player} ({source})."]
    for value, verdict in _VERDICTS.items():
        found = [names[action] for action, x in exact.moves.items() if x == value]
        lines += [wrap(f"{verdict + ':':<6}{' '.join(found)}", "      ")] if found else []
    return "\n".join(lines)
