"""Positions of chess and Gardner's chess in plain numbers, and what makes one impossible."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

PAWN, KNIGHT, BISHOP, ROOK, QUEEN, KING = range(1, 7)


class Rules(NamedTuple):
    """What the games differ in: the side of the board, the start, and pgx's two limits.

    A game ends after `max_plies`; of more than `max_moves` in a position pgx would lose some.
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
# The directions of a piece, and whether it goes further than one step.
_DIRECTIONS = {
    KNIGHT: (_JUMPS, False),
    BISHOP: (_DIAGONAL, True),
    ROOK: (_STRAIGHT, True),
    QUEEN: (_STRAIGHT + _DIAGONAL, True),
    KING: (_STRAIGHT + _DIAGONAL, False),
}
# Each right to castle, and the file of its rook.
_ROOK_FILES = {"K": 7, "Q": 0, "k": 7, "q": 0}


class Position(NamedTuple):
    """What a FEN says, in plain numbers.

    Attributes:
      board: a piece for each square, a1, a2 … first; 1 … 6 are White's pawn, knight, bishop, rook,
        queen and king, negative ones Black's, 0 is empty.
      color: who is to move, 0 White, 1 Black.
      castling: those of "KQkq" that are left, in this order.
      en_passant: the square that a pawn has just jumped over, or -1.
      halfmoves: moves since the last capture or pawn move.
      fullmoves: number of the move, from 1.
    """

    board: tuple[int, ...]
    color: int
    castling: str
    en_passant: int
    halfmoves: int
    fullmoves: int


def check_position(position: Position, rules: Rules) -> None:
    """Checks that a position can be one of the game, as pgx plays it.

    Raises:
      ValueError: with a reason, for the wrong number of kings or too many pieces, pawns on the last
        rank, castling or en passant that cannot be, the side that has just moved in check, a game
        that is too long, and more moves than pgx can keep.
    """
    _check_pieces(position, rules.size)
    _check_rights(position, rules.size)
    _check_play(position, rules)


def square_name(square: int, size: int) -> str:
    """Returns a square's name, such as "e4"; squares are counted a1, a2 … from 0."""
    file, rank = divmod(square, size)
    return f"{'abcdefgh'[file]}{rank + 1}"


def square_of(name: str, size: int) -> int:
    """Returns the square of a name such as "e4"; on a smaller board it may lie outside of it."""
    return "abcdefgh".index(name[0]) * size + int(name[1]) - 1


def _check_pieces(position: Position, size: int) -> None:
    board = position.board
    for name, sign in (("White", 1), ("Black", -1)):
        own = [piece * sign for piece in board if piece * sign > 0]
        if own.count(KING) != 1:
            raise ValueError(f"{name} has {own.count(KING)} kings instead of 1")
        for kind, number, most in (
            ("pawns", own.count(PAWN), size),
            ("pieces", len(own), 2 * size),
        ):
            if number > most:
                raise ValueError(f"{name} has {number} {kind}, more than {most}")
    if PAWN in map(abs, board[::size] + board[size - 1 :: size]):
        raise ValueError("a pawn stands on the first or the last rank")


def _check_rights(position: Position, size: int) -> None:
    board, color = position.board, position.color
    for right in position.castling:
        sign, rank = (1, 0) if right.isupper() else (-1, size - 1)
        home = [(4, KING), (_ROOK_FILES[right], ROOK)]
        if size != 8 or any(board[file * size + rank] != sign * piece for file, piece in home):
            raise ValueError(f"castling {right} needs king and rook where they began")
    if position.en_passant < 0:
        return
    file, rank = divmod(position.en_passant, size)
    # The pawn has jumped over the square: towards the mover, from the empty square beyond.
    towards, expected = (-1, size - 3) if color == 0 else (1, 2)
    beyond, pawn = (file * size + rank + step for step in (-towards, towards))
    if size != 8 or rank != expected:
        raise ValueError(f"no pawn can have jumped over {square_name(position.en_passant, size)}")
    if board[position.en_passant] or board[beyond] or board[pawn] != towards * PAWN:
        raise ValueError(f"no pawn has jumped over {square_name(position.en_passant, size)}")


def _check_play(position: Position, rules: Rules) -> None:
    board, sign = position.board, 1 - 2 * position.color
    own = [square for square, piece in enumerate(board) if piece * sign > 0]
    targets = [board[to] * sign for square in own for to in _attacks(board, square)]
    if -KING in targets:
        raise ValueError("the side that has just moved is in check")
    plies = 2 * (position.fullmoves - 1) + position.color
    if plies >= rules.max_plies:
        raise ValueError(
            f"move {position.fullmoves} is past the end of a game, which is a draw after "
            f"{rules.max_plies // 2} moves; number it lower"
        )
    # A pawn has at most four moves, of which it may attack two; two capture en passant.
    pawns = sum(board[square] == sign * PAWN for square in own)
    if sum(target <= 0 for target in targets) + 4 * pawns + 2 > rules.max_moves:
        raise ValueError(f"more moves than the {rules.max_moves} that can be kept")


def _attacks(board: Sequence[int], square: int) -> Iterator[int]:
    """Yields the squares that a piece attacks, up to the first piece on each line."""
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
