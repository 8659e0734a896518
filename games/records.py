"""The table of games: for each game its environment, names of moves, symmetries and drawing.

The games of this package, and an environment of a user, have some of this as methods instead
(`games.abilities`); the table has it for pgx's games.
"""

from __future__ import annotations

import dataclasses
import math
import re
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from games import boards
from games.abilities import Cells
from games.boards import Rows

SplitFn = Callable[[str], Sequence[str] | None]
Motion = tuple[int, int]
"""A motion of the board: 1 to mirror it left to right first, and the number of quarter turns."""
_STAY, _MIRROR, _HALF_TURN = (0, 0), (1, 0), (0, 2)
_SQUARE = tuple((mirror, turns) for mirror in (0, 1) for turns in range(4))
_LETTERS = string.ascii_lowercase
_GO_LETTERS = string.ascii_uppercase.replace("I", "")


def numbers(num_actions: int) -> list[str]:
    """Returns the names 0 … A - 1."""
    return [str(action) for action in range(num_actions)]


def numbers_from_one(num_actions: int) -> list[str]:
    """Returns the names 1 … A."""
    return [str(action + 1) for action in range(num_actions)]


def split_digits(text: str) -> str | None:
    """Splits moves whose names are single digits."""
    return text if text.isdigit() else None


def ternary_code(board: Any) -> Any:
    """Returns Σ (cell + 1) 3^i, the number of a board of the cells -1, 0 and 1; may be traced."""
    return ((board + 1) * 3 ** np.arange(len(board), dtype=np.int32)).sum()


def _squares(side: int) -> list[str]:
    """Names squares row by row from the top left, a1; column aa follows column z."""
    columns = [_LETTERS[x // 26 - 1] * (x >= 26) + _LETTERS[x % 26] for x in range(side)]
    return [f"{column}{row + 1}" for row in range(side) for column in columns]


def _go_names(num_actions: int) -> list[str]:
    """Names points row by row from the top left. Source: Go Text Protocol 2, section 2.11."""
    side = math.isqrt(num_actions)
    columns = _GO_LETTERS[:side]
    return [*(f"{column}{row}" for row in range(side, 0, -1) for column in columns), "pass"]


# Transcripts of Othello.
_TRANSCRIPT, _STEP = (re.compile(x, re.IGNORECASE) for x in ("(?:[a-h][1-8]|pass)+", "pass|.."))
_PASS = "pass"
_Cell = tuple[int, int]
# Colours: 1 for Black, who begins, and -1 for White. Cells are columns and rows from the top left.
_START: dict[_Cell, int] = {(3, 3): -1, (4, 3): 1, (3, 4): 1, (4, 4): -1}
_CELLS = tuple((x, y) for x in range(8) for y in range(8))
_DIRECTIONS: tuple[_Cell, ...] = tuple((x, y) for x in (-1, 0, 1) for y in (-1, 0, 1) if x or y)


def split_transcript(text: str) -> list[str] | None:
    """Splits a transcript into moves, and adds the passes that the rules demand and that it omits.

    The legality of the moves is not checked. Returns `None` if the text is no transcript.
    """
    if not _TRANSCRIPT.fullmatch(text):
        return None
    stones, color, found = dict(_START), 1, list[str]()
    for name in _STEP.findall(text.lower()):
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


def _up(number: int) -> tuple[str, ...]:
    return tuple(numbers_from_one(number))


def _down(number: int) -> tuple[str, ...]:
    return _up(number)[::-1]


@dataclasses.dataclass(frozen=True)
class Record:
    """What is known of a game.

    Attributes:
      path: the class of the environment, `module:name`; "" for a game outside this package.
      fixed: parameters that follow from the name of the game.
      ranges: inclusive bounds of the values of large integer arrays in the state, by path.
      names: from A, the names of the actions, if these are the same in all positions.
      split: splits text in which moves have no separator; it returns `None` for other text. `None`
        if moves always need one.
      motions: the motions of the board that preserve rules and start, the identity first.
      players: the names of the side that begins and of the other side.
      cells: from a state, the cells of its picture; `None` if the state has a method `picture()`.
      labels: from the numbers of rows and columns, the labels of both, as in the notation.
      is_chess: whether the cells are pieces as in FEN, on squares of two colours.
      cells_of_moves: `(state, rows of the picture, names of legal actions) -> cells by action`;
        `None` if moves are entered by their names.
      num_codes: the number of codes of positions; 0 if positions have none.
      position_code: from a state, its code, as in `games.abilities`.
    """

    path: str = ""
    fixed: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    ranges: Mapping[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    names: Callable[[int], list[str]] = numbers
    split: SplitFn | None = None
    motions: tuple[Motion, ...] = (_STAY,)
    players: tuple[str, str] = ("first player", "second player")
    cells: Callable[[Any], Rows] | None = None
    labels: Callable[[int, int], tuple[Sequence[str], Sequence[str]]] = lambda y, x: ((), ())
    is_chess: bool = False
    cells_of_moves: Callable[[Any, Rows, Mapping[int, str]], Mapping[int, Cells]] | None = None
    num_codes: int = 0
    position_code: Callable[[Any], Any] | None = None


# Stones are letters in text and discs in SVG.
_STONES = ("x (black)", "o (white)")
# Six kinds of pieces, signed by their owner.
_CHESS_RANGES = {"_x.board": (-6, 6), "_x.board_history": (-6, 6)}


def _go(size: int) -> Record:
    return Record(
        path="games.go:Go",
        fixed={"size": size},
        # pgx labels a chain by its first point, counted from 1 and signed by its colour. The
        # history holds signs, and 2 for boards before the start of the game.
        ranges={"_x.board": (-(size**2), size**2), "_x.board_history": (-1, 2)},
        names=_go_names,
        motions=_SQUARE,
        players=_STONES,
        cells=boards.go,
        labels=lambda y, x: (_down(y), tuple(_GO_LETTERS[:x])),
        cells_of_moves=boards.place_stones,
    )


def _chess(path: str, ranges: Mapping[str, tuple[int, int]]) -> Record:
    """The initial positions of both chess games are not symmetric from left to right."""
    return Record(
        path=path,
        ranges=ranges,
        players=("white", "black"),
        cells=boards.chess,
        labels=lambda y, x: (_down(y), tuple(_LETTERS[:x])),
        is_chess=True,
        cells_of_moves=boards.move_pieces,
    )


_GO = "go_[0-9]+x[0-9]+"
# Modules are imported on first use, because pgx creates arrays on import.
GAMES = {
    "connect2": Record(
        path="games.connect2:Connect2",
        players=_STONES,
        cells_of_moves=boards.place_stones,
    ),
    "nim": Record(path="games.nim:Nim"),
    "hsr": Record(
        path="games.hsr:HSR",
        players=("Proposer", "Opponent"),
        cells_of_moves=boards.place_stones,
    ),
    "tic_tac_toe": Record(
        path="pgx.tic_tac_toe:TicTacToe",
        names=numbers_from_one,
        split=split_digits,
        motions=_SQUARE,
        players=("X", "O"),
        cells=boards.tic_tac_toe,
        cells_of_moves=boards.place_stones,
        num_codes=3**9,
        position_code=lambda state: ternary_code(state._x.board),
    ),
    "connect_four": Record(
        path="pgx.connect_four:ConnectFour",
        names=numbers_from_one,
        split=split_digits,
        motions=(_STAY, _MIRROR),
        players=_STONES,
        cells=boards.connect_four,
        labels=lambda y, x: ((), _up(x)),
        cells_of_moves=boards.drop_stones,
    ),
    "othello": Record(
        path="pgx.othello:Othello",
        names=lambda num_actions: [*_squares(math.isqrt(num_actions)), "pass"],
        split=split_transcript,
        # The initial four stones allow the motions that preserve the diagonals; the other four
        # exchange the colours.
        motions=(_STAY, _HALF_TURN, (1, 1), (1, 3)),
        players=_STONES,
        cells=boards.othello,
        labels=lambda y, x: (_up(y), tuple(_LETTERS[:x])),
        cells_of_moves=boards.place_stones,
    ),
    "hex": Record(
        path="games.hex:Hex",
        names=lambda num_actions: [*_squares(math.isqrt(num_actions)), "swap"],
        # The half turn preserves the sides of both players and commutes with the swap, which
        # reflects a stone in the long diagonal; the reflection itself exchanges the sides.
        motions=(_STAY, _HALF_TURN),
        players=_STONES,
        cells=boards.hex_rows,
        cells_of_moves=boards.place_stones,
    ),
    "go_9x9": _go(9),
    "go_19x19": _go(19),
    "animal_shogi": Record(
        path="games.animal_shogi:AnimalShogi",
        cells=boards.animal_shogi,
        cells_of_moves=boards.move_animals,
    ),
    "gardner_chess": _chess("pgx.gardner_chess:GardnerChess", {}),
    "chess": _chess("games.chess:Chess", _CHESS_RANGES),
    "shogi": Record(
        path="pgx.shogi:Shogi",
        players=("black", "white"),
        cells=boards.shogi,
        labels=lambda y, x: ((*_LETTERS[: y - 2], "", ""), _down(x)),
        cells_of_moves=boards.move_shogi,
    ),
}


def record_of(name: str) -> Record:
    """Returns the record of a game by its name; "go" is Go of any size, others have defaults."""
    return GAMES.get(name) or (_go(19) if re.fullmatch(f"go|{_GO}", name) else Record())


def is_go(env: Any) -> bool:
    """Returns whether a game is Go, of any size."""
    return re.fullmatch(_GO, env.id) is not None
