"""Positions of chess and Gardner's chess as Python numbers, and checks that they are possible."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dualmctx.errors import UserError

PAWN, KNIGHT, BISHOP, ROOK, QUEEN, KING = range(1, 7)


class Rules(NamedTuple):
    """The constants of a game.

    Attributes:
      size: number of squares along a side of the board.
      start: FEN of the initial position.
      max_plies: pgx ends a game after this number of plies.
      max_moves: pgx can store at most this number of moves of a position.
    """

    size: int
    start: str
    max_plies: int
    max_moves: float


RULES = {
    "chess": Rules(8, "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1", 512, 200),
    "gardner_chess": Rules(5, "rnbqk/ppppp/5/PPPPP/RNBQK w - - 0 1", 256, math.inf),
}
_STRAIGHT = ((1, 0), (-1, 0), (0, 1), (0, -1))
_DIAGONAL = ((1, 1), (1, -1), (-1, 1), (-1, -1))
_JUMPS = tuple((x, y) for x in (-2, -1, 1, 2) for y in (-2, -1, 1, 2) if abs(x) != abs(y))
# The directions of each piece, and whether it slides further than one step.
_DIRECTIONS = {
    KNIGHT: (_JUMPS, False),
    BISHOP: (_DIAGONAL, True),
    ROOK: (_STRAIGHT, True),
    QUEEN: (_STRAIGHT + _DIAGONAL, True),
    KING: (_STRAIGHT + _DIAGONAL, False),
}
# The file of the rook for each castling right.
_ROOK_FILES = {"K": 7, "Q": 0, "k": 7, "q": 0}


class Position(NamedTuple):
    """The content of a FEN as Python numbers.

    Attributes:
      board: the piece on each square, in the order a1, a2 …: 1 … 6 for White's pawn, knight,
        bishop, rook, queen and king, the negative numbers for Black's, 0 for an empty square.
      color: the colour to move, 0 White, 1 Black.
      castling: the remaining rights, a subset of "KQkq" in this order.
      en_passant: the square that a pawn has just jumped over, or -1.
      halfmoves: halfmoves since the last capture or pawn move.
      fullmoves: number of the move, from 1.
    """

    board: tuple[int, ...]
    color: int
    castling: str
    en_passant: int
    halfmoves: int
    fullmoves: int


def check_position(position: Position, rules: Rules) -> None:
    """Checks that a position is possible and that pgx can play it.

    Raises:
      ValueError: if the pieces, a castling right, the en passant square or the check are
        impossible, the game is too long, or there are more moves than pgx stores.
    """
    _check_pieces(position, rules.size)
    _check_rights(position, rules.size)
    _check_check(position, rules.size)
    _check_play(position, rules)


def square_name(square: int, size: int) -> str:
    """Returns the name of a square, such as "e4"; squares are numbered a1, a2 … from 0."""
    file, rank = divmod(square, size)
    return f"{'abcdefgh'[file]}{rank + 1}"


def parse_square(name: str, size: int) -> int:
    """Returns the square of a name such as "e4"; it may lie outside a smaller board."""
    return "abcdefgh".index(name[0]) * size + int(name[1]) - 1


def _check_pieces(position: Position, size: int) -> None:
    board = position.board
    for name, sign in (("White", 1), ("Black", -1)):
        own = [piece * sign for piece in board if piece * sign > 0]
        if own.count(KING) != 1:
            raise UserError(f"{name} has {own.count(KING)} kings instead of 1")
        for kind, number, most in (
            ("pawns", own.count(PAWN), size),
            ("pieces", len(own), 2 * size),
        ):
            if number > most:
                raise UserError(f"{name} has {number} {kind}, more than {most}")
    if PAWN in map(abs, board[::size] + board[size - 1 :: size]):
        raise UserError("a pawn stands on the first or the last rank")


def _check_rights(position: Position, size: int) -> None:
    board, color = position.board, position.color
    for right in position.castling:
        sign, rank = (1, 0) if right.isupper() else (-1, size - 1)
        home = [(4, KING), (_ROOK_FILES[right], ROOK)]
        if size != 8 or any(board[file * size + rank] != sign * piece for file, piece in home):
            raise UserError(f"castling {right} needs king and rook on their initial squares")
    if position.en_passant < 0:
        return
    name, rank = square_name(position.en_passant, size), position.en_passant % size
    if size != 8 or rank != (size - 3 if color == 0 else 2):
        raise UserError(f"no pawn can have jumped over {name}")
    beyond, pawn = _double_step(position)
    if board[position.en_passant] or board[beyond] or board[pawn] != (2 * color - 1) * PAWN:
        raise UserError(f"no pawn has jumped over {name}")


def _double_step(position: Position) -> tuple[int, int]:
    """Returns the squares from which and to which a pawn has jumped over the en passant square."""
    towards = 2 * position.color - 1  # Black's pawns go down, and White is to move
    return position.en_passant - towards, position.en_passant + towards


def _check_check(position: Position, size: int) -> None:
    """Checks that one move can have given the check, as `Board.status` of python-chess does."""
    board, sign = position.board, 1 - 2 * position.color
    if _attackers(board, board.index(-sign * KING)):
        raise UserError("the side that has just moved is in check")
    king = board.index(sign * KING)
    checkers = _attackers(board, king)
    names = ", ".join(square_name(square, size) for square in checkers)
    if len(checkers) > 2:
        raise UserError(f"the pieces on {names} give check together; at most two can")
    if len(checkers) == 2 and position.en_passant < 0 and _between(king, checkers, size):
        raise UserError(f"no move can have given check from {names} along one line")
    if not checkers or position.en_passant < 0:
        return
    # The last move was a double step: the pawn gives check, or uncovers the piece that does.
    start, end = _double_step(position)
    before = list(board)
    before[start], before[end] = board[end], 0
    was_in_check = set(_attackers(before, king)) - {start}
    if checkers != [end] and (len(checkers) > 1 or was_in_check):
        jumped = square_name(position.en_passant, size)
        raise UserError(f"a pawn that jumped over {jumped} cannot have given check from {names}")


def _attackers(board: Sequence[int], target: int) -> list[int]:
    """Returns the squares of the pieces that attack a piece of the other colour."""
    color = board[target]
    return [x for x, piece in enumerate(board) if piece * color < 0 and target in attacks(board, x)]


def _between(middle: int, ends: Sequence[int], size: int) -> bool:
    """Returns whether a square is on one rank, file or diagonal with two squares that attack it."""
    (x, y), (u, v) = ((end // size - middle // size, end % size - middle % size) for end in ends)
    return x * v == y * u and (x == 0 or y == 0 or abs(x) == abs(y))


def _check_play(position: Position, rules: Rules) -> None:
    board, sign = position.board, 1 - 2 * position.color
    own = [square for square, piece in enumerate(board) if piece * sign > 0]
    targets = [board[to] * sign for square in own for to in attacks(board, square)]
    plies = 2 * (position.fullmoves - 1) + position.color
    if plies >= rules.max_plies:
        raise UserError(
            f"move {position.fullmoves} is past the end of a game, which is a draw after "
            f"{rules.max_plies // 2} moves; number it lower"
        )
    # Upper bound: four moves per pawn, two of which are attacks, and two en passant captures.
    pawns = sum(board[square] == sign * PAWN for square in own)
    if sum(target <= 0 for target in targets) + 4 * pawns + 2 > rules.max_moves:
        raise UserError(f"more moves than the {rules.max_moves} that pgx can store")


def attacks(board: Sequence[int], square: int) -> Iterator[int]:
    """Yields the squares that a piece attacks, up to the first piece in each direction."""
    size, piece = math.isqrt(len(board)), board[square]
    forward = 1 if piece > 0 else -1
    directions, slides = _DIRECTIONS.get(abs(piece), (((-1, forward), (1, forward)), False))
    for across, up in directions:
        file, rank = square // size + across, square % size + up
        while 0 <= file < size and 0 <= rank < size:
            yield file * size + rank
            if not slides or board[file * size + rank]:
                break
            file, rank = file + across, rank + up
