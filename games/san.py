"""Standard algebraic notation (SAN) of chess and Gardner's chess, converted to UCI and written.

Source: the PGN standard (1994), sections 8.2.2 to 8.2.4, whose import format is lenient. Also read:
long algebraic notation, figurines, castling with zeros, promotions without "=", and dashes of any
kind. Check and mate signs and comments such as "!" are ignored.
"""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Iterable, Iterator, Sequence

from dualmctx.errors import UserError
from games import uci
from games.positions import (
    BISHOP,
    KING,
    KNIGHT,
    PAWN,
    QUEEN,
    ROOK,
    Position,
    attacks,
    parse_square,
    square_name,
)

_UCI = re.compile("[a-h][1-8][a-h][1-8][qrbn]?")
_PROMOTION = r"(?:[=/]?\(?([QRBNqrbn])\)?)?"
_MOVE = re.compile(rf"([KQRBNP]?)([a-h]?)([1-8]?)[x:-]?([a-h][1-8]){_PROMOTION}")
_COORDINATES = re.compile(rf"([a-h][1-8])[x:-]?([a-h][1-8]){_PROMOTION}")
# The number of a move, with any number of dots.
_NUMBER = re.compile(r"(?:[0-9]+(?:\s|(?=\.)|$))?[\s.]*")
_DIGITS = re.compile("[0-9]+")
# Signs of check and mate, and of annotations: the traditional forms of the glyphs.
_SIGN = (
    r"(?:\+/[-=]|[-=]/\+|\+[-=]|[-=]\+|[!?+#=±∓∞⩲⩱□†‡≠⌓∆Δ⇆⇄→↑⟳⊕○⟪⟫‼⁇⁈⁉]|/?e\.?p\.?"
    r"|(?:dis\.?|dbl\.?)?ch\.?|mate)"
)
# Possessive, because some signs are parts of others, which could be tried in many ways.
_SIGNS = re.compile(f"{_SIGN}++$")
# Words between moves that are not moves: signs, and letters for a novelty, a diagram and the like.
_REMARK = re.compile(f"{_SIGN}++|N|TN|D|RR|dis\\.?|dbl\\.?")
_MAX_LENGTH = 40
_PLAIN = str.maketrans(
    dict(zip("♔♕♖♗♘♙♚♛♜♝♞♟", "KQRBNP" * 2, strict=True))
    | dict.fromkeys("‐‑‒–—−", "-")
    | {"…": "...", "½": "1/2", "×": "x", "\ufe0e": "", "\ufe0f": ""}
)
_KINDS = {"": PAWN, "N": KNIGHT, "B": BISHOP, "R": ROOK, "Q": QUEEN, "K": KING}
_NAMES = dict(zip(_KINDS, ("pawn", "knight", "bishop", "rook", "queen", "king"), strict=True))
_CASTLING = {"O-O": "g", "O-O-O": "c"}
# The right that is lost when a piece leaves or reaches a corner or the square of a king.
_RIGHTS = {"a1": "Q", "h1": "K", "e1": "KQ", "a8": "q", "h8": "k", "e8": "kq"}


def is_uci(move: int | str) -> bool:
    """Returns whether a move needs no conversion: the number of an action, or UCI notation."""
    return not isinstance(move, str) or _UCI.fullmatch(move.strip()) is not None


def plain(text: str) -> str:
    """Returns text with letters for figurines, and with ASCII for dashes, dots and fractions."""
    return text.strip() if text.isascii() else text.translate(_PLAIN).strip()


def to_uci(game: str, start: Position, moves: Iterable[int | str]) -> Iterator[str]:
    """Converts moves to UCI notation.

    Args:
      game: chess or gardner_chess.
      start: the position in which the moves begin.
      moves: texts in SAN or UCI notation, or numbers of actions. Move numbers, and signs and
        letters of annotations after a move, are left out.

    Yields:
      The moves in UCI notation. The legality of a move is not checked if only one piece can make
      it.

    Raises:
      ValueError: if a text is not a move, or does not name one piece; the moves before it have been
        yielded.
    """
    position, number, may_be_remark, lone_number = start, 1, False, None
    for move in moves:
        is_number = isinstance(move, str) and _DIGITS.fullmatch(move.strip()) is not None
        try:
            if not isinstance(move, str):
                action = uci.check_action(move, uci.num_actions(game))
                text = uci.show(game, uci.begin(position), action)
            elif is_number and lone_number is None:
                lone_number, may_be_remark = move, False
                continue
            else:
                word = plain(move)
                text = word if is_number else word[_NUMBER.match(word).end() :]  # pyright: ignore
                may_be_remark = may_be_remark and text == word
                if word and (not text or (may_be_remark and _REMARK.fullmatch(text))):
                    lone_number = None
                    continue
                text = _to_text(game, position, text)
        except UserError as error:
            raise UserError(f"move {number}, {reprlib.repr(move)}, is {error}.") from None
        yield text
        position, number, may_be_remark, lone_number = play(position, text), number + 1, True, None
    # A number without dots needs a move; digits alone are moves of another game.
    if lone_number is not None:
        raise UserError(f"move {number}, {reprlib.repr(lone_number)}, is {_describe(game)}.")


def _to_text(game: str, position: Position, text: str) -> str:
    """Returns a move in UCI notation."""
    is_short = len(text) <= _MAX_LENGTH
    match = _COORDINATES.fullmatch(_SIGNS.sub("", text)) if is_short else None
    if match is None:
        return read(game, position, text)
    start, end, promoted = match.groups(default="")
    found = start + end + promoted.lower()
    uci.read(game, uci.begin(position), found)
    return found


def read(game: str, position: Position, text: str) -> str:
    """Converts one move in SAN to UCI notation; see `to_uci`."""
    if len(text) > _MAX_LENGTH:
        raise UserError(_describe(game))
    text = _SIGNS.sub("", text)
    castling = _CASTLING.get(text.upper().replace("0", "O"))
    if castling is not None:
        return _castle(position, castling)
    match = _MOVE.fullmatch(text)
    if match is None:
        raise UserError(_describe(game))
    piece, file, rank, end, promoted = match.groups(default="")
    piece = piece.replace("P", "")
    size = math.isqrt(len(position.board))
    if end[0] >= "abcdefghi"[size] or int(end[1]) > size:
        raise UserError(_describe(game))
    starts = [
        start
        for start in candidates(position, _KINDS[piece], parse_square(end, size))
        if file in ("", square_name(start, size)[0]) and rank in ("", square_name(start, size)[1])
    ]
    if len(starts) > 1:
        target = parse_square(end, size)
        starts = [start for start in starts if not leaves_check(position, start, target)]
    if not starts:
        raise UserError(f"not possible: no {_NAMES[piece]} can move to {end}")
    if len(starts) > 1:
        names = " or ".join(f"{piece}{square_name(start, size)}{end}" for start in starts)
        raise UserError(f"ambiguous: write {names}")
    step = square_name(starts[0], size) + end
    promotes = piece == "" and end[1] in ("1", str(size))
    if promotes and not promoted:
        raise UserError(f"a pawn's promotion: write {end}=Q, {end}=R, {end}=B or {end}=N")
    if promoted and not promotes:
        raise UserError(f"not a promotion: write {piece}{end}")
    return step + promoted.lower()


def _describe(game: str) -> str:
    return f"not a move of {game}: write UCI, such as e2e4 or e7e8q, or SAN, such as Nf3 or e8=Q"


def _castle(position: Position, file: str) -> str:
    rank = "18"[position.color]
    king = KING * (1 - 2 * position.color)
    if len(position.board) != 64 or position.board[parse_square(f"e{rank}", 8)] != king:
        raise UserError("not possible: the king is not on its initial square")
    return f"e{rank}{file}{rank}"


def candidates(position: Position, kind: int, end: int) -> Iterator[int]:
    """Yields the squares of own pieces that can move to a square; checks are ignored."""
    board, sign = position.board, 1 - 2 * position.color
    if board[end] * sign > 0:
        return
    for start, piece in enumerate(board):
        if piece != sign * kind:
            continue
        if kind == PAWN:
            if _pawn_can_move(position, start, end, sign):
                yield start
        elif end in attacks(board, start):
            yield start


def _pawn_can_move(position: Position, start: int, end: int, sign: int) -> bool:
    board, size = position.board, math.isqrt(len(position.board))
    across, up = end // size - start // size, (end % size - start % size) * sign
    if abs(across) == 1 and up == 1:
        return board[end] != 0 or end == position.en_passant
    if across != 0 or board[end] != 0:
        return False
    first = 1 if sign == 1 else size - 2
    jumps = size == 8 and up == 2 and start % size == first and board[start + sign] == 0
    return up == 1 or jumps


def leaves_check(position: Position, start: int, end: int) -> bool:
    """Returns whether a move that is not castling leaves the own king in check."""
    size = math.isqrt(len(position.board))
    after = play(position, square_name(start, size) + square_name(end, size))
    return _is_in_check(after.board, position.color)


def play(position: Position, move: str) -> Position:
    """Returns the position after a move in UCI notation; its legality is not checked."""
    size, sign = math.isqrt(len(position.board)), 1 - 2 * position.color
    start, end = parse_square(move[:2], size), parse_square(move[2:4], size)
    board = list(position.board)
    piece, captured = board[start], board[end]
    board[start], board[end] = 0, piece
    en_passant = -1
    if abs(piece) == PAWN:
        if end == position.en_passant and start // size != end // size:
            board[end - sign] = 0
        if abs(end - start) == 2:
            en_passant = (start + end) // 2
        if end % size in (0, size - 1):
            board[end] = sign * _KINDS[move[4:].upper() or "Q"]
    if size == 8 and abs(piece) == KING and abs(end - start) == 2 * size:
        rook = (7 if end > start else 0) * size + start % size
        board[(start + end) // 2], board[rook] = board[rook], 0
    lost = _RIGHTS.get(move[:2], "") + _RIGHTS.get(move[2:4], "")
    return Position(
        board=tuple(board),
        color=1 - position.color,
        castling="".join(right for right in position.castling if right not in lost),
        en_passant=en_passant,
        halfmoves=0 if captured or abs(piece) == PAWN else position.halfmoves + 1,
        fullmoves=position.fullmoves + position.color,
    )


_LETTERS = ("", "", "N", "B", "R", "Q", "K")


def to_san(start: Position, moves: Sequence[str]) -> list[str]:
    """Converts legal moves in UCI notation to SAN, with the signs of check and mate.

    Castling is the king's move. `start` is the position in which the moves begin.
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
    if not _is_in_check(position.board, position.color):
        return ""
    return "+" if _can_answer(position) else "#"


def _is_in_check(board: Sequence[int], color: int) -> bool:
    sign = 1 - 2 * color
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
