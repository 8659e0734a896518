"""The cells that win a game: stones in a row, or a chain that connects two edges."""

import itertools
from collections.abc import Sequence

Cell = tuple[int, int]
"""A row from the top and a column of a picture, from 0."""

_IN_A_ROW = {"connect_four": 4, "tic_tac_toe": 3, "connect2": 2}
_DIRECTIONS = ((0, 1), (1, 0), (1, 1), (1, -1))
_HEX_NEIGHBOURS = ((0, -1), (0, 1), (-1, 0), (1, 0), (-1, 1), (1, -1))


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
