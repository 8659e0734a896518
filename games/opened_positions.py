"""Opens the positions to which lines of moves lead: batches on the device, or one of them."""

from __future__ import annotations

import dataclasses
import functools
import reprlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dualmctx.errors import UserError
from games import san
from games.fen import is_chess, set_up, start_position
from games.histories import (
    few_sizes,
    pad_histories,
    replay,
    replay_checked,
    replay_unpadded,
    select_rows,
)
from games.notation import format_action, format_moves, split_joined, split_moves
from games.parsed_moves import Line, ParsedMoves, parse_lines
from games.positions import RULES

if TYPE_CHECKING:
    import pgx

MOVES_AT_ONCE = 64
"""Number of moves per call of the replay; longer lines take several calls."""
# After this number of calls, the host waits, and lines with an illegal move are not continued.
_CALLS_WITHOUT_WAITING = 16
# An error lists at most this number of legal moves.
_MAX_LISTED = 40
_NO_MOVES = np.full((1, 1), -1, np.int32)


class BadMove(NamedTuple):
    """The first move of a line that the rules forbid.

    Attributes:
      index: from 0.
      text: the move as it was given or, if that is a number, in the notation of the game.
      problem: why it is not possible.
    """

    index: int
    text: str | int
    problem: str

    def __str__(self) -> str:
        """Returns an error, such as `move 3, '4', is illegal`."""
        return f"move {self.index + 1}, {reprlib.repr(self.text)}, {self.problem}"


@dataclasses.dataclass(frozen=True)
class OpenedPositions:
    """`[B]` positions, of which the first S belong to lines; the others are padding.

    Attributes:
      env: the game.
      lines: the S lines.
      parsed: their moves.
      states: `[B]` states on the device. That of a wrong line is a valid one without meaning.
      first_bad: `[B]` int32 on the device, the index of the first illegal move; -1 if there is
        none.
    """

    env: pgx.Env
    lines: Sequence[Any]
    parsed: ParsedMoves
    states: Any
    first_bad: Any

    @functools.cached_property
    def is_over(self) -> np.ndarray:
        """`[S]` bool, whether the game is over; waits for the device."""
        ends = jax.device_get((self.states.terminated, self.states.truncated))
        return np.logical_or(*ends)[: len(self.lines)]

    @functools.cached_property
    def states_on_host(self) -> Any:
        """The `[S]` states of the lines as NumPy arrays; waits for the device."""
        return jax.tree.map(lambda x: np.asarray(x)[: len(self.lines)], self.states)

    @functools.cached_property
    def sides(self) -> np.ndarray:
        """`[S]` int, the side to move: 0 for the side that begins a game, 1 for the other one."""
        none = np.full((len(self.first_bad), MOVES_AT_ONCE), -1, np.int32)
        first, *_ = replay_unpadded(self.env, none)
        # In positions of a FEN, player 0 has the first side.
        has_fen = np.array([start is not None for start in self.parsed.starts], bool)
        players = np.where(has_fen, 0, np.asarray(first.current_player)[: len(self.lines)])
        return (np.asarray(self.states.current_player)[: len(self.lines)] != players).astype(int)

    @functools.cached_property
    def bad_moves(self) -> dict[int, BadMove]:
        """The moves that the rules forbid, by the indices of their lines; waits for the device."""
        bad = np.asarray(self.first_bad)[: len(self.lines)]
        return {
            row: describe_bad_move(
                self.env,
                self.lines[row],
                self.parsed.starts[row],
                self.parsed.actions_of(row).tolist(),
                int(bad[row]),
                is_over=bool(self.is_over[row]),
            )
            for row in np.flatnonzero(bad >= 0).tolist()
        }

    @functools.cached_property
    def errors(self) -> dict[int, str]:
        """The reasons why lines are wrong, by their indices; waits for the device."""
        return self.parsed.errors | {row: str(bad) for row, bad in self.bad_moves.items()}


def open_positions(env: pgx.Env, lines: Sequence[Any], size: int | None = None) -> OpenedPositions:
    """Plays lines of moves on the device, without waiting for it.

    Args:
      env: any pgx environment.
      lines: S lines, which may be wrong; at least one.
      size: B, at least S; by default the next power of two, from 8 on. A program is compiled for
        each B.
    """
    parsed, size = parse_lines(env, lines), size or few_sizes(len(lines))
    starts = _make_starts(env, parsed.starts, size)
    states, first_bad = replay_unpadded(env, parsed.table(0, size, MOVES_AT_ONCE), starts)
    longest = int(parsed.lengths.max(initial=0))
    for call, done in enumerate(range(MOVES_AT_ONCE, longest, MOVES_AT_ONCE), start=1):
        moves = _moves_of_legal(parsed.table(done, size, MOVES_AT_ONCE), first_bad)
        if call % _CALLS_WITHOUT_WAITING == 0 and (np.asarray(moves) < 0).all():
            break
        states, bad = replay_unpadded(env, moves, states)
        first_bad = _first_bad(first_bad, bad, done)
    return OpenedPositions(env, lines, parsed, states, first_bad)


def describe_bad_move(
    env: pgx.Env, line: Any, start: Any, actions: Sequence[int], index: int, *, is_over: bool
) -> BadMove:
    """Describes why a move of a line is not possible.

    Args:
      env: the game.
      line: the line.
      start: the position in which its moves begin; `None` for the initial position.
      actions: its moves.
      index: the index of the first move that is not possible.
      is_over: whether the game is over before that move.
    """
    problem = "is illegal"
    if is_over:
        reason = _end_of_chess(env, start, actions[:index]) if is_chess(env) else ""
        problem = f"comes after the end of the game{reason}"
    return BadMove(index, _text_of(env, line, start, actions[: index + 1], len(actions)), problem)


def _text_of(env: pgx.Env, line: Any, start: Any, actions: Sequence[int], number: int) -> str | int:
    """Returns the last of `actions`, the first moves of a line that has `number` moves."""
    texts = split_moves(line.moves, split_joined(env))
    # Text may have numbers of moves between the moves.
    if len(texts) == number and isinstance(texts[len(actions) - 1], str):
        return texts[len(actions) - 1]
    try:
        return format_moves(env, start, actions)[-1]
    except UserError:  # no piece of chess moves so
        return actions[-1]


def _end_of_chess(env: pgx.Env, start: Any, actions: Sequence[int]) -> str:
    """Returns the reason why a game of chess is a draw after its moves, if it is one."""
    positions = [start_position(env) if start is None else start]
    for move in format_moves(env, start, actions):
        positions.append(san.play(positions[-1], move))
    last: Any = positions[-1]
    if sum(position[:3] == last[:3] for position in positions) >= 3:
        return ": its position occurred for the third time"
    if last.halfmoves >= 100:
        return ": 50 moves without a capture or a move of a pawn"
    plies = 2 * (last.fullmoves - 1) + last.color
    return f": it has {plies} moves" if plies >= RULES[env.id].max_plies else ""


@jax.jit
def _moves_of_legal(moves: jax.Array, first_bad: jax.Array) -> jax.Array:
    """Removes the moves of lines with an illegal move."""
    return jnp.where((first_bad >= 0)[:, None], -1, moves)


@jax.jit
def _first_bad(before: jax.Array, bad: jax.Array, done: jax.Array) -> jax.Array:
    """Adds the illegal moves of a call that began with move `done`."""
    return jnp.where((before < 0) & (bad >= 0), bad + done, before)


def _make_starts(env: pgx.Env, starts: Sequence[Any], size: int) -> Any:
    """Returns `[size]` states in which the moves begin; `None` if all are the initial state."""
    has_fen = np.zeros(size, bool)
    has_fen[: len(starts)] = [start is not None for start in starts]
    if not has_fen.any():
        return None
    some = starts[int(np.argmax(has_fen))]
    # Padded, because each new size would compile.
    positions = [some if start is None else start for start in starts]
    from_fens = set_up(env, positions + [some] * (size - len(positions)))
    initial = replay_unpadded(env, np.full((size, MOVES_AT_ONCE), -1, np.int32))[0]
    return _select(has_fen, from_fens, initial)


_select = jax.jit(select_rows)


class GamePosition(NamedTuple):
    """The position of a game after its moves.

    Attributes:
      state: the unbatched state, as NumPy arrays.
      before: the state before the last move; equal to `state` without moves.
      start: the position in which the moves start, as in `parse_moves`.
      actions: the moves.
      first_player: the player who has the first side.
    """

    state: Any
    before: Any
    start: Any
    actions: list[int]
    first_player: int

    @property
    def is_over(self) -> bool:
        """Whether the game is over."""
        return bool(self.state.terminated or self.state.truncated)

    @property
    def side(self) -> int:
        """The side to move: 0 for the side that begins the game, 1 for the other."""
        return int(self.state.current_player != self.first_player)


def open_position(env: pgx.Env, moves: Any = (), fen: str | None = None) -> GamePosition:
    """Plays the moves of one game.

    Args:
      env: any pgx environment.
      moves: the moves, as for `parse_moves`.
      fen: the FEN in which they begin; `None` for the initial position.

    Raises:
      UserError: if a move or the FEN cannot be read, or a move is illegal or comes after the end of
        the game.
    """
    line = Line(moves, fen)
    parsed = parse_lines(env, [line])
    if parsed.errors:
        raise UserError(parsed.errors[0])
    start, actions = parsed.starts[0], parsed.actions.tolist()
    # Both histories start from one state, because the first player differs from row to row.
    initial = replay(env, _NO_MOVES) if start is None else set_up(env, [start])
    starts = jax.tree.map(lambda x: np.repeat(x, 2, axis=0), jax.device_get(initial))
    histories = pad_histories([actions, actions[:-1]])
    states, first_bad = jax.device_get(replay_checked(env, histories, starts))
    state, before = (jax.tree.map(lambda x, i=i: x[i], states) for i in (0, 1))
    # In positions of a FEN, player 0 has the first side.
    first = int(starts.current_player[0]) if start is None else 0
    opened = GamePosition(state, before, start, actions, first)
    if first_bad[0] >= 0:
        bad = describe_bad_move(
            env, line, start, actions, int(first_bad[0]), is_over=opened.is_over
        )
        raise UserError(f"{bad}{_list_legal(env, opened)}")
    return opened


def _list_legal(env: pgx.Env, opened: GamePosition) -> str:
    """Returns the legal moves of a position, for an error."""
    if opened.is_over:
        return ""
    legal = np.flatnonzero(opened.state.legal_action_mask).tolist()[:_MAX_LISTED]
    return f"; legal moves are {', '.join(format_action(env, opened.state, x) for x in legal)}"
