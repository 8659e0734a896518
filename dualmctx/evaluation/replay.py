"""Replays the moves of a batch of requested positions on the device, without waiting for it."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import games
from dualmctx.evaluation.move_parser import ParsedMoves
from dualmctx.types import Environment
from games.histories import replay_unpadded, select_rows

MOVES_AT_ONCE = 64
"""Number of moves per call of the replay; longer games take several calls."""
# After this number of calls, the host waits, and positions with an illegal move are not continued.
_CALLS_WITHOUT_WAITING = 16


class Replayed(NamedTuple):
    """`[B]` positions after their moves, on the device.

    Attributes:
      states: the states. The state of an invalid position is a valid one without meaning.
      first_bad: `[B]` int32, the index of the first illegal move; -1 if there is none.
    """

    states: Any
    first_bad: jax.Array


def replay(env: Environment, parsed: ParsedMoves, size: int) -> Replayed:
    """Replays the moves of at most `size` positions on the device, padded to `size`."""
    starts = _make_starts(env, parsed.starts, size)
    states, first_bad = replay_unpadded(env, parsed.table(0, size, MOVES_AT_ONCE), starts)
    longest = int(parsed.lengths.max(initial=0))
    for call, done in enumerate(range(MOVES_AT_ONCE, longest, MOVES_AT_ONCE), start=1):
        moves = _moves_of_legal(parsed.table(done, size, MOVES_AT_ONCE), first_bad)
        if call % _CALLS_WITHOUT_WAITING == 0 and (np.asarray(moves) < 0).all():
            break
        states, bad = replay_unpadded(env, moves, states)
        first_bad = _first_bad(first_bad, bad, done)
    return Replayed(states, first_bad)


@jax.jit
def _moves_of_legal(moves: jax.Array, first_bad: jax.Array) -> jax.Array:
    """Removes the moves of positions with an illegal move."""
    return jnp.where((first_bad >= 0)[:, None], -1, moves)


@jax.jit
def _first_bad(before: jax.Array, bad: jax.Array, done: jax.Array) -> jax.Array:
    """Adds the illegal moves of a call that began with move `done`."""
    return jnp.where((before < 0) & (bad >= 0), bad + done, before)


def _make_starts(env: Environment, starts: Sequence[Any], size: int) -> Any:
    """Returns `[size]` states in which the moves begin; `None` if all are the initial state."""
    has_fen = np.zeros(size, bool)
    has_fen[: len(starts)] = [start is not None for start in starts]
    if not has_fen.any():
        return None
    some = starts[int(np.argmax(has_fen))]
    # Padded, because each new size would compile.
    positions = [some if start is None else start for start in starts]
    from_fens = games.set_up(env, positions + [some] * (size - len(positions)))
    initial = replay_unpadded(env, np.full((size, MOVES_AT_ONCE), -1, np.int32))[0]
    return _select(has_fen, from_fens, initial)


@jax.jit
def _select(mask: jax.Array, if_true: Any, if_false: Any) -> Any:
    """Selects rows of `if_true` where the `[B]` mask is true, else of `if_false`."""
    return jax.tree.map(functools.partial(select_rows, mask), if_true, if_false)
