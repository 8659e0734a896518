"""Transcripts of Othello: squares without separators and without forced passes, as in f5d6c3d3."""

import re
from collections.abc import Mapping, Sequence

_TRANSCRIPT, _MOVE = (re.compile(x, re.IGNORECASE) for x in ("(?:[a-h][1-8]|pass)+", "pass|.."))
_PASS = "pass"
_Cell = tuple[int, int]
# Colours: 1 for Black, who begins, and -1 for White. Cells are columns and rows from the top left.
_START: dict[_Cell, int] = {(3, 3): -1, (4, 3): 1, (3, 4): 1, (4, 4): -1}
_CELLS = tuple((x, y) for x in range(8) for y in range(8))
_DIRECTIONS: tuple[_Cell, ...] = tuple((x, y) for x in (-1, 0, 1) for y in (-1, 0, 1) if x or y)


def split_transcript(text: str) -> list[str] | None:
    """Splits a transcript into moves, and adds the passes that the rules demand and that it omits.

    Returns:
      The names of the moves; `None` if the text is no transcript. Their legality is not checked.
    """
    if not _TRANSCRIPT.fullmatch(text):
        return None
    stones, color, found = dict(_START), 1, list[str]()
    for name in _MOVE.findall(text.lower()):
        if name != _PASS and not _turned(stones, _cell(name), color) and _must_pass(stones, color):
            found.append(_PASS)
            color = -color
        found.append(name)
        if name != _PASS:
            turned = _turned(stones, _cell(name), color)
            stones |= dict.fromkeys([_cell(name), *turned], color)
        color = -color
    return found


def _cell(name: str) -> _Cell:
    return ord(name[0]) - ord("a"), int(name[1]) - 1


def _must_pass(stones: Mapping[_Cell, int], color: int) -> bool:
    return not any(_turned(stones, cell, color) for cell in _CELLS)


def _turned(stones: Mapping[_Cell, int], cell: _Cell, color: int) -> Sequence[_Cell]:
    """Returns the discs that a move turns; none if it is not legal."""
    if cell in stones:
        return ()
    return [x for direction in _DIRECTIONS for x in _turned_along(stones, cell, direction, color)]


def _turned_along(
    stones: Mapping[_Cell, int], cell: _Cell, direction: _Cell, color: int
) -> Sequence[_Cell]:
    (x, y), (dx, dy), turned = cell, direction, list[_Cell]()
    while stones.get((x := x + dx, y := y + dy)) == -color:
        turned.append((x, y))
    return turned if stones.get((x, y)) == color else ()
