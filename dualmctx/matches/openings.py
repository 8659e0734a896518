"""Openings: the actions with which both games of a pair begin."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

import games
from dualmctx.policies.root import sample_action
from dualmctx.search.arrays import tree_where
from dualmctx.search.keys import split_key
from dualmctx.types import Environment

Opening = tuple[int | str, ...]
"""Actions with which a game begins; before them a FEN, unless they begin at the game's start."""
AcceptFn = Callable[[Any], np.ndarray]
"""Which of `[S]` game states may follow an opening, `[S]` bool; anything for finished games."""
# Candidates at once, and how many there are before too few of them are found fit.
_BATCH, _MAX_BATCHES = 1024, 100


class Start(NamedTuple):
    """Where the players of a game begin to choose.

    Attributes:
      side: that has to move; 0 is the one that moves first in the game.
      position: see `identify`.
    """

    side: int
    position: bytes


def any_position(states: Any) -> np.ndarray:
    """Accepts every position."""
    return np.ones(states.terminated.shape, bool)


def balanced(value_fn: Callable[[Any], Any], limit: float) -> AcceptFn:
    """Accepts positions of a small value.

    Args:
      value_fn: gives `[S]` values in [-1, 1] of `[S]` states, as an evaluator's.
      limit: of their size, inclusive.
    """
    return lambda states: np.abs(np.asarray(value_fn(states))) <= limit


def drawn(env: Environment) -> AcceptFn:
    """Accepts positions of a small game that perfect play draws.

    Raises:
      ValueError: when the game cannot be solved, in one line.
    """
    solution = games.solve(env)
    codes = jax.jit(jax.vmap(solution.code_fn))
    return lambda states: solution.code_values[np.asarray(codes(states))] == 0


def from_start(number: int) -> list[Opening]:
    """Returns as many openings without an action: all games begin at the start.

    Players without noise then play the same two games in every pair.
    """
    return [()] * number


def random_openings(
    env: Environment,
    number: int,
    *,
    plies: int | Sequence[int],
    seed: int,
    accept: AcceptFn = any_position,
) -> list[Opening]:
    """Draws openings of uniformly random legal actions, after which the game goes on.

    Their positions differ: of the openings that lead to one position the first that is drawn is
    taken, as from the others the same games would follow.

    Args:
      env: a game as `games.make` gives it.
      number: of openings. A larger one begins with those of a smaller one.
      plies: how long they are; of several lengths each is as likely.
      seed: of all draws.
      accept: which positions they may lead to.

    Returns:
      The openings.

    Raises:
      ValueError: when there are not as many, or a length is bad, in one line.
    """
    lengths = np.atleast_1d(np.asarray(plies))
    told = " or ".join(map(str, lengths.tolist())) or "empty"
    if lengths.size == 0 or lengths.min() < 1 or lengths.max() >= 2**31:
        raise ValueError(f"plies is {told}; openings have at least 1, and less than {2**31}")
    lengths = lengths.astype(np.int32)
    play = jax.jit(lambda keys: _play_randomly(env, keys, lengths))
    found: dict[bytes, Opening] = {}
    for batch in range(_MAX_BATCHES):
        keys = jax.random.split(jax.random.fold_in(jax.random.PRNGKey(seed), batch), _BATCH)
        actions, states = play(keys)
        is_over = np.asarray(states.terminated | states.truncated)
        rows, positions = np.asarray(actions), identify(states)
        for i in np.flatnonzero(~is_over & accept(states)):
            found.setdefault(positions[i], tuple(rows[i][rows[i] >= 0].tolist()))
            if len(found) == number:
                return list(found.values())
    tries = _BATCH * _MAX_BATCHES
    raise ValueError(
        f"only {len(found)} of {number} openings of {told} plies were found in {tries:,} tries, "
        "where those to one position count once; ask for fewer, for more plies or several lengths, "
        "or accept more positions"
    )


def identify(states: Any) -> list[bytes]:
    """Identifies positions by what the player to move sees and may play.

    No network knows more. The moves before a position and the side that is to move tell positions
    apart only if the game shows them: Nim shows the pile alone, HSR whose task it is, chess and Go
    the side and the last boards.

    Args:
      states: `[S]` game states.

    Returns:
      A digest of each, the same for the same position.
    """
    rows = zip(*map(np.asarray, (states.observation, states.legal_action_mask)), strict=True)
    return [hashlib.sha256(seen.tobytes() + legal.tobytes()).digest() for seen, legal in rows]


def find_starts(env: Environment, openings: Iterable[Opening]) -> dict[Opening, Start]:
    """Finds where openings lead to.

    Args:
      env: a game as `games.make` gives it.
      openings: at least one, legal; some may be the same.

    Returns:
      The start of play after each.
    """
    distinct = list(dict.fromkeys(openings))
    begins, first = set_up_fens(env, distinct), 0
    if begins is None:
        keys = jax.random.split(jax.random.PRNGKey(0), len(distinct))
        begins = jax.jit(jax.vmap(env.init))(keys)
        first = begins.current_player
    states, _ = games.replay_checked(env, as_rows(distinct), begins)
    sides = np.asarray(states.current_player != first, int).tolist()
    return dict(zip(distinct, map(Start, sides, identify(states)), strict=True))


def split_opening(opening: Opening) -> tuple[str | None, tuple[int, ...]]:
    """Splits an opening into its FEN, `None` without one, and its actions."""
    fen = next((x for x in opening[:1] if isinstance(x, str)), None)
    return fen, tuple(x for x in opening if not isinstance(x, str))


def set_up_fens(env: Environment, openings: Sequence[Opening]) -> Any | None:
    """Sets up the positions in which the actions of openings begin.

    Args:
      env: a game as `games.make` gives it.
      openings: S of them.

    Returns:
      `[S]` game states, in which player 0 has the first side; `None` if no opening has a FEN.

    Raises:
      ValueError: when a FEN is no position of the game, in one line.
    """
    fens = [split_opening(opening)[0] for opening in openings]
    if not any(fens):
        return None
    start = games.start_position(env)
    return games.set_up(env, [games.read_fen(env, fen) if fen else start for fen in fens])


def check_openings(env: Environment, openings: Sequence[Opening]) -> None:
    """Checks openings that somebody else made.

    Raises:
      ValueError: when one has an illegal action, or the game is over after it, in one line.
    """
    if not any(openings):
        return
    states, first_bad = games.replay_checked(env, as_rows(openings), set_up_fens(env, openings))
    is_over = np.asarray(states.terminated | states.truncated)
    for opening, bad, over in zip(openings, np.asarray(first_bad), is_over, strict=True):
        if bad >= 0:
            raise ValueError(f"opening {list(opening)} has an illegal action at ply {bad + 1}")
        if over:
            raise ValueError(f"the game is over after opening {list(opening)}; leave it out")


def as_rows(openings: Sequence[Sequence[int | str]], width: int | None = None) -> np.ndarray:
    """Returns `[S, D]` int32 actions, without FENs; D is `width`, or the longest length.

    Rows are filled up with -1.
    """
    actions = [split_opening(tuple(opening))[1] for opening in openings]
    rows = np.full((len(actions), max(map(len, actions)) if width is None else width), -1)
    for row, some in zip(rows, actions, strict=True):
        row[: len(some)] = some
    return rows.astype(np.int32)


def _play_randomly(
    env: Environment, keys: chex.PRNGKey, lengths: np.ndarray
) -> tuple[chex.Array, Any]:
    """Plays `[S]` games; returns `[S, D]` actions, -1 after the last, and the states."""
    init_keys, length_keys, play_keys = split_key(keys, 3)
    length = jax.vmap(lambda key: jax.random.choice(key, jnp.asarray(lengths)))(length_keys)

    def step(state: Any, ply: chex.Array) -> tuple[Any, chex.Array]:
        ply_keys = jax.vmap(jax.random.fold_in, (0, None))(play_keys, ply)
        legal = state.legal_action_mask.astype(jnp.float32)
        action = sample_action(ply_keys, legal, 1.0)
        is_played = (ply < length) & ~(state.terminated | state.truncated)
        state = tree_where(is_played, jax.vmap(env.step)(state, action), state)
        return state, jnp.where(is_played, action, -1)

    state = jax.vmap(env.init)(init_keys)
    state, actions = jax.lax.scan(step, state, jnp.arange(lengths.max()))
    return actions.T, state
