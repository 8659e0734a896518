"""Writes moves of chess and Gardner's chess in standard algebraic notation (SAN).

Source: the PGN standard (1994), section 8.2.3; `games.san` reads the notation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from games.positions import KING, PAWN, Position, attacks, parse_square, square_name
from games.san import candidates, leaves_check, play

_LETTERS = ("", "", "N", "B", "R", "Q", "K")


def to_san(start: Position, moves: Sequence[str]) -> list[str]:
    """Converts legal moves in UCI notation to SAN, with the signs of check and mate.

    Args:
      start: the position in which the moves begin.
      moves: legal moves, such as "e2e4" or "e7e8q"; castling is the king's move.

    Returns:
      The text of each move.
    """
    position, texts = start, []
    for move in moves:
        after = play(position, move)
        texts.append(_name(position, move) + _sign(after))
        position = after
    return texts


def _name(position: Position, move: str) -> str:
    """Returns a move without the sign of a check."""
    board, size = position.board, math.isqrt(len(position.board))
    start, end = parse_square(move[:2], size), parse_square(move[2:4], size)
    kind = abs(board[start])
    if kind == KING and abs(end - start) == 2 * size:
        return "O-O" if end > start else "O-O-O"
    captures = "x" if board[end] or (kind == PAWN and start // size != end // size) else ""
    if kind == PAWN:
        promotion = f"={move[4].upper()}" if move[4:] else ""
        return f"{move[0] + captures if captures else ''}{move[2:4]}{promotion}"
    return f"{_LETTERS[kind]}{_origin(position, start, end)}{captures}{move[2:4]}"


def _origin(position: Position, start: int, end: int) -> str:
    """Returns the file, the rank or both where other pieces of the kind have the same target."""
    size, kind = math.isqrt(len(position.board)), abs(position.board[start])
    others = [
        other
        for other in candidates(position, kind, end)
        if other != start and not leaves_check(position, other, end)
    ]
    file, rank = square_name(start, size)
    if not others:
        return ""
    if all(other // size != start // size for other in others):
        return file
    return rank if all(other % size != start % size for other in others) else file + rank


def _sign(position: Position) -> str:
    """Returns "#" if the player to move is mated, "+" if the player is in check."""
    if not _is_in_check(position):
        return ""
    return "+" if _can_answer(position) else "#"


def _is_in_check(position: Position) -> bool:
    board, sign = position.board, 1 - 2 * position.color
    enemies = (square for square, piece in enumerate(board) if piece * sign < 0)
    return any(board[to] == sign * KING for square in enemies for to in attacks(board, square))


def _can_answer(position: Position) -> bool:
    """Returns whether a player in check has a legal move; castling is none."""
    return any(
        not leaves_check(position, start, end)
        for kind in range(PAWN, KING + 1)
        for end in range(len(position.board))
        for start in candidates(position, kind, end)
    )
