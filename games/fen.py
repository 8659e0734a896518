"""Reads, validates and writes Forsyth-Edwards notation (FEN) of chess and Gardner's chess.

Other games may have a notation of positions of their own (`games.abilities`). pgx has
functions for states, but they leave the initial position in the history of the state. A network
would see it as the previous position, and a return to it would count as a repetition.
"""

from __future__ import annotations

import functools
import math
import re
import reprlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from dualmctx.errors import UserError
from games.abilities import ability
from games.histories import first_rows, power_of_two
from games.positions import RULES, Position, check_position, parse_square, square_name

if TYPE_CHECKING:
    import pgx

_LETTERS = ".PNBRQKkqrbnp"  # indexed by piece; Black's pieces are negative indices
# States are built from at least this number of positions, so that few programs are compiled.
_MIN_POSITIONS = 64


def is_chess(env: pgx.Env) -> bool:
    """Returns whether positions of the game have a FEN."""
    return env.id in RULES


def has_fen(env: Any) -> bool:
    """Returns whether positions of the game can be written as text: chess, or its own FEN."""
    return is_chess(env) or ability(env, "from_fen") is not None


def read_fen(env: pgx.Env, fen: str) -> Any:
    """Parses a FEN and checks that the position is possible.

    Args:
      env: chess or gardner_chess; or a game with its own `from_fen` (`games.abilities`).
      fen: four to six fields; or a line in the game's own form. White space around it is ignored.
        Without its last two fields, the halfmoves are 0 and the move number is 1. A move number
        of 0 counts as 1.

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
    fen = fen.strip()
    if len(fen.splitlines()) > 1:
        raise UserError(f"FEN {fen[:100]!r} of {env.id} has a line break; write it in one line.")
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
        start = next((state for state in states if int(state.current_player) == 0), None)
        if start is None:
            raise UserError(
                f"player 0 never moves first in init of game {env.id}, which from_fen needs"
            )
        return start
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
        ("moves", "0{0,9}[0-9]{1,4}", "a number of at most 9999"),
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
        fullmoves=max(int(fullmoves), 1),
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


def from_fen(env: pgx.Env, fen: str) -> Any:
    """Builds the state of a FEN.

    Args:
      env: a game that has FENs, see `read_fen`.
      fen: as for `read_fen`.

    Returns:
      The state, unbatched. Its ply count follows from the move number of the FEN; its history is
      empty. Player 0 is White.

    Raises:
      ValueError: see `read_fen`.
    """
    return jax.tree.map(lambda leaf: leaf[0], set_up(env, [read_fen(env, fen)]))


def to_fen(env: pgx.Env, state: Any) -> str:
    """Writes the FEN of an unbatched state; raises the errors of `to_position`."""
    own = ability(env, "to_fen")
    if own is not None:
        return own(state)
    return write_fen(to_position(env, state))


def set_up(env: pgx.Env, positions: Sequence[Any]) -> Any:
    """Builds a batch of states from positions.

    Args:
      env: a game that has FENs, see `read_fen`.
      positions: S positions of `read_fen`; S is at least 1.

    Returns:
      `[S]` states, as those of `from_fen`. S is padded to a power of two from 64 on; the program
      is compiled once for each such size.

    Raises:
      ValueError: if the game is not chess or gardner_chess, or there are no positions.
    """
    if positions and ability(env, "from_fen") is not None:
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *positions)
    if env.id not in _SET_UP or not positions:
        raise UserError(
            f"{len(positions)} positions of {env.id}: pass at least one, of chess or gardner_chess."
        )
    number = len(positions)
    size = max(_MIN_POSITIONS, power_of_two(number))
    padded = [positions[i % number] for i in range(size)]
    boards = np.array([position.board for position in padded], np.int32)
    rights = np.array([[right in position.castling for right in "QKqk"] for position in padded])
    numbers = np.array([(p.color, p.en_passant, p.halfmoves, p.fullmoves) for p in padded])
    states = _set_up(env, boards, rights.reshape(-1, 2, 2), numbers.astype(np.int32))
    return first_rows(states, number)


def to_position(env: pgx.Env, state: Any) -> Position:
    """Converts a state to the position that its FEN describes.

    Args:
      env: chess or gardner_chess.
      state: an unbatched state of `env`.

    Returns:
      The position, as Python numbers.

    Raises:
      ValueError: if the game is not chess or gardner_chess, or the state is batched.
    """
    if env.id not in _SET_UP or np.ndim(state.current_player):
        shape = np.shape(state.current_player)
        raise UserError(
            f"a state of {env.id} of shape {shape}: pass a single one, of chess or gardner_chess."
        )
    if env.id == "gardner_chess":
        fields = state._board, state._turn, np.zeros((2, 2)), -1
        counts = state._halfmove_count, state._fullmove_count
    else:
        x = state._x
        fields = x.board, x.color, x.castling_rights, x.en_passant
        counts = x.halfmove_count, x.fullmove_count
    board, color, rights, en_passant, *counts = jax.device_get((*fields, *counts))
    # On Black's turn pgx stores the board with the ranks reversed and the colours swapped.
    if color:
        size = math.isqrt(board.size)
        board, rights = -board.reshape(size, size)[:, ::-1].ravel(), rights[::-1]
        # Not in place: the array may be that of the state.
        en_passant = en_passant + (size - 1 - 2 * (en_passant % size)) * (en_passant >= 0)
    (queen, king), (black_queen, black_king) = rights
    named_rights = zip("KQkq", (king, queen, black_king, black_queen), strict=True)
    castling = "".join(name for name, right in named_rights if right)
    return Position(tuple(board.tolist()), int(color), castling, int(en_passant), *map(int, counts))


@functools.partial(jax.jit, static_argnums=0)
def _set_up(env: pgx.Env, boards: jax.Array, rights: jax.Array, numbers: jax.Array) -> Any:
    def build_state(board: jax.Array, rights: jax.Array, numbers: jax.Array) -> Any:
        color, _, _, fullmoves = numbers
        plies = 2 * (fullmoves - 1) + color
        state = _SET_UP[env.id](board, rights, numbers, plies)
        # After a move that ends the game, pgx makes all actions legal. Do the same here.
        mask = state.legal_action_mask | state.terminated
        state = state.replace(_step_count=plies, legal_action_mask=mask)
        return state.replace(observation=env.observe(state))

    return jax.vmap(build_state)(boards, rights, numbers)


def _chess(board: Any, rights: Any, numbers: Any, plies: Any) -> Any:
    import pgx.chess

    from games import chess

    color, en_passant, halfmoves, fullmoves = numbers
    white = (
        chess.Game()
        .init()
        ._replace(
            board=board,
            castling_rights=rights,
            en_passant=en_passant,
            halfmove_count=halfmoves,
            fullmove_count=fullmoves,
            step_count=plies,
        )
    )
    x = chess.begin(_to_mover_layout(color, white, chess.rules._flip))
    return pgx.chess.State(
        current_player=color,
        _player_order=jnp.arange(2, dtype=jnp.int32),
        _x=x,
        legal_action_mask=x.legal_action_mask,
        terminated=chess.Game().is_terminal(x),
        rewards=chess.Game().rewards(x),
    )


def _gardner_chess(board: Any, rights: Any, numbers: Any, plies: Any) -> Any:
    from pgx import gardner_chess as rules

    del rights, plies
    color, _, halfmoves, fullmoves = numbers
    start = rules.State()
    state = start.replace(
        _board=board,
        _halfmove_count=halfmoves,
        _fullmove_count=fullmoves,
        _hash_history=jnp.zeros_like(start._hash_history),
        _board_history=jnp.zeros_like(start._board_history),
    )
    state = _to_mover_layout(color, state, rules._flip)
    state = state.replace(
        _possible_piece_positions=rules._possible_piece_positions(state),
        _zobrist_hash=rules._zobrist_hash(state),
    )
    state = rules._update_history(state)
    state = state.replace(legal_action_mask=rules._legal_action_mask(state))
    return rules._check_termination(state)


def _to_mover_layout(color: Any, state: Any, flip: Callable[[Any], Any]) -> Any:
    """Converts a state from White's layout to the layout of the player to move."""
    return jax.tree.map(lambda white, black: jnp.where(color, black, white), state, flip(state))


_SET_UP = {"chess": _chess, "gardner_chess": _gardner_chess}
