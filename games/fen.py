"""Reads, validates and writes Forsyth-Edwards notation (FEN) of chess and Gardner's chess.

Other games may have a notation of positions of their own (`games.abilities.HasFen`).
"""

from __future__ import annotations

import math
import re
import reprlib
from typing import TYPE_CHECKING, Any

import jax

from dualmctx.errors import UserError
from games.abilities import ability
from games.positions import RULES, Position, check_position, parse_square, square_name

if TYPE_CHECKING:
    import pgx

_LETTERS = ".PNBRQKkqrbnp"  # indexed by piece; Black's pieces are negative indices


def is_chess(env: pgx.Env) -> bool:
    """Returns whether positions of the game have a FEN."""
    return env.id in RULES


def has_fen(env: Any) -> bool:
    """Returns whether positions of the game can be written as text: chess, or its own FEN."""
    return is_chess(env) or ability(env, "from_fen") is not None


def read_fen(env: pgx.Env, fen: str) -> Any:
    """Parses a FEN and checks that the position is possible.

    Args:
      env: chess or gardner_chess; or a game with its own `from_fen` (`games.abilities.HasFen`).
      fen: four to six fields; or text in the game's own form. Without its last two fields, the
        halfmoves are 0 and the move number is 1.

    Returns:
      The position, a `Position` of chess or a state of a user's game; `set_up` converts positions
      to states.

    Raises:
      ValueError: if the game has no FEN, the FEN is malformed, the position is impossible (see
        `check_position`), or pgx cannot play it.
    """
    own = ability(env, "from_fen", refusal=ValueError)
    if own is None and not is_chess(env):
        raise UserError(f"{env.id} has no FEN: it is for {' and '.join(RULES)}; pass moves.")
    if not isinstance(fen, str):
        example = f", such as {RULES[env.id].start!r}" if is_chess(env) else ""
        raise UserError(f"fen={reprlib.repr(fen)}: pass text{example}.")
    if own is not None:
        try:
            return own(fen)
        except UserError as error:
            raise UserError(f"FEN {fen[:100]!r} of {env.id}: {error}") from None
    return parse_fen(env.id, fen)


def parse_fen(game: str, fen: str) -> Position:
    """Parses a FEN of chess or gardner_chess, by the name of the game; see `read_fen`."""
    rules = RULES[game]
    try:
        position = _parse(fen, rules.size)
        check_position(position, rules)
    except UserError as error:
        raise UserError(f"FEN {fen[:100]!r} of {game}: {error}.") from None
    return position


def start_position(env: pgx.Env) -> Any:
    """Returns the initial position of the game; raises the errors of `read_fen`.

    Player 0 moves first in it, as in the positions of `read_fen`.
    """
    if ability(env, "from_fen") is not None:
        # In most games the key decides who moves first.
        states = map(env.init, jax.random.split(jax.random.PRNGKey(0), 64))
        return next(state for state in states if int(state.current_player) == 0)
    return read_fen(env, RULES[env.id].start if is_chess(env) else "")


def write_fen(position: Position) -> str:
    """Writes a position as a FEN, with the en passant square after every double pawn step."""
    size = math.isqrt(len(position.board))
    ranks = []
    for rank in reversed(range(size)):
        row = "".join(_LETTERS[piece] for piece in position.board[rank::size])
        ranks.append(re.sub(r"\.+", lambda empty: str(len(empty[0])), row))
    return " ".join(
        (
            "/".join(ranks),
            "wb"[position.color],
            position.castling or "-",
            square_name(position.en_passant, size) if position.en_passant >= 0 else "-",
            str(position.halfmoves),
            str(position.fullmoves),
        )
    )


def _parse(fen: str, size: int) -> Position:
    fields = fen.split()
    if not 4 <= len(fields) <= 6:
        raise UserError(
            f"{len(fields)} fields; four to six are needed: board, side to move, castling, en "
            "passant, and halfmoves (by default 0), moves (1)"
        )
    fields += ["0", "1"][len(fields) - 4 :]
    last = "abcdefgh"[size - 1]
    patterns = (
        ("side to move", "[wb]", "w or b"),
        ("castling", "-|(?=.)K?Q?k?q?", "- or some of KQkq in this order"),
        ("en passant", f"-|[a-{last}][1-{size}]", "- or a square"),
        ("halfmoves", "[0-9]{1,4}", "a number of at most 9999"),
        ("moves", "0{0,9}[1-9][0-9]{0,3}", "a number from 1 to 9999"),
    )
    for text, (name, pattern, expected) in zip(fields[1:], patterns, strict=True):
        if not re.fullmatch(pattern, text):
            raise UserError(f"{name} {reprlib.repr(text)} is not {expected}")
    board, color, castling, en_passant, halfmoves, fullmoves = fields
    return Position(
        board=_parse_board(board, size),
        color="wb".index(color),
        castling=castling.replace("-", ""),
        en_passant=-1 if en_passant == "-" else parse_square(en_passant, size),
        halfmoves=int(halfmoves),
        fullmoves=int(fullmoves),
    )


def _parse_board(text: str, size: int) -> tuple[int, ...]:
    ranks = text.split("/")
    if len(ranks) != size:
        raise UserError(f"{len(ranks)} ranks instead of {size}")
    for number, rank in zip(range(size, 0, -1), ranks, strict=True):
        if not re.fullmatch(f"([pnbrqkPNBRQK]|[1-{size}](?![1-9]))+", rank):
            raise UserError(
                f"rank {number}, {reprlib.repr(rank)}, does not consist of pieces and counts of "
                "empty squares"
            )
    rows = [re.sub("[1-9]", lambda number: "." * int(number[0]), rank) for rank in ranks]
    for number, row in zip(range(size, 0, -1), rows, strict=True):
        if len(row) != size:
            raise UserError(f"rank {number} has {len(row)} squares instead of {size}")
    pieces = {letter: _LETTERS.index(letter) for letter in _LETTERS[:7]}
    pieces |= {letter.lower(): -piece for letter, piece in pieces.items() if piece}
    return tuple(pieces[row[file]] for file in range(size) for row in reversed(rows))
