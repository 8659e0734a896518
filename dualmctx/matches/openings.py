"""Openings: the initial actions of both games of a pair."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

import games
from dualmctx.checks import MAX_COUNT
from dualmctx.errors import UserError
from dualmctx.policies.root import sample_action
from dualmctx.search.keys import split_key
from dualmctx.types import Environment, GameState
from games.histories import pad_histories, step_legal

Opening = tuple[int | str, ...]
"""The first actions of a game; a FEN comes first if they do not start at the initial position."""
AcceptFn = Callable[[GameState], np.ndarray]
"""Returns `[S]` bool: whether an opening may lead to a state; arbitrary for finished games."""
# Largest absolute value of a balanced position.
_BALANCED = 0.2
# Number of candidates sampled at once, and the maximum number of such batches.
_BATCH, _MAX_BATCHES = 1024, 100


class Start(NamedTuple):
    """The position after an opening.

    Attributes:
      side: the side to move; 0 moves first in the game.
      position: digest of the position, see `position_digests`.
    """

    side: int
    position: bytes


def accept_any(states: GameState) -> np.ndarray:
    """Accepts every position."""
    return np.ones(states.terminated.shape, bool)


def accept_balanced(
    env: Environment, value_fn: Callable[[GameState], Any] | None = None
) -> AcceptFn:
    """Returns a function that accepts balanced positions.

    In a solvable game, they are draws under perfect play. In another one, their absolute value by
    `value_fn`, which returns `[S]` values in [-1, 1] of `[S]` states, is at most 0.2.
    """
    if games.is_solvable(env):
        solution = games.solve(env)
        codes = jax.jit(jax.vmap(solution.code_fn))
        return lambda states: solution.code_values[np.asarray(codes(states))] == 0
    assert value_fn is not None
    return lambda states: np.abs(np.asarray(value_fn(states))) <= _BALANCED


def empty_openings(number: int) -> list[Opening]:
    """Returns openings without actions: all games begin at the initial position.

    Deterministic players then play the same two games in every pair.
    """
    return [()] * number


def random_openings(
    env: Environment,
    number: int,
    *,
    plies: int | Sequence[int],
    seed: int,
    accept: AcceptFn = accept_any,
) -> list[Opening]:
    """Samples openings of uniformly random legal actions after which the game is not over.

    The openings lead to different positions: if several samples lead to the same position, only
    the first one is used, because the others would lead to the same games.

    Args:
      env: a game of `games.make`.
      number: number of openings. A smaller number returns a prefix of a larger one.
      plies: length in plies, or several lengths, which are sampled uniformly.
      seed: seed of the random numbers.
      accept: selects the positions that the openings may lead to.

    Returns:
      The openings.

    Raises:
      ValueError: if too few openings are found, or a length is invalid.
    """
    openings = find_openings(env, number, plies=plies, seed=seed, accept=accept)
    if len(openings) == number:
        return openings
    listed, tries = _list_lengths(plies), _BATCH * _MAX_BATCHES
    raise UserError(
        f"found only {len(openings)} of {number} openings of {listed} plies in {tries:,} samples; "
        "openings must lead to different positions of unfinished games: ask for fewer openings, "
        "another length or several, or accept more positions"
    )


def find_openings(
    env: Environment,
    number: int,
    *,
    plies: int | Sequence[int],
    seed: int,
    accept: AcceptFn = accept_any,
) -> list[Opening]:
    """Samples openings as `random_openings` does, and returns fewer if there are fewer."""
    lengths = _to_lengths(plies)
    if not lengths or min(lengths) < 1 or max(lengths) > MAX_COUNT:
        listed = _list_lengths(plies)
        raise UserError(f"plies is {listed}; each length must be from 1 to {MAX_COUNT}")
    openings: dict[bytes, Opening] = {}
    for batch in range(_MAX_BATCHES):
        keys = jax.random.split(jax.random.fold_in(jax.random.PRNGKey(seed), batch), _BATCH)
        actions, states = _play_randomly(env, keys, lengths)
        is_over = np.asarray(states.terminated | states.truncated)
        rows, positions = np.asarray(actions), position_digests(states)
        for i in np.flatnonzero(~is_over & accept(states)):
            openings.setdefault(positions[i], tuple(rows[i][rows[i] >= 0].tolist()))
            if len(openings) == number:
                return list(openings.values())
    return list(openings.values())


def _to_lengths(plies: int | Sequence[int]) -> tuple[int, ...]:
    return tuple(map(int, np.atleast_1d(np.asarray(plies))))


def _list_lengths(plies: int | Sequence[int]) -> str:
    return " or ".join(map(str, _to_lengths(plies))) or "empty"


def position_digests(states: GameState) -> list[bytes]:
    """Returns digests of the observation and the legal actions of `[S]` positions.

    A network has no other information about a position. Previous moves and the side to move count
    only as far as the observation contains them: that of Nim contains only the pile, that of HSR
    the role, those of chess and Go the side and the last boards.
    """
    rows = zip(*map(np.asarray, (states.observation, states.legal_action_mask)), strict=True)
    return [hashlib.sha256(x.tobytes() + legal.tobytes()).digest() for x, legal in rows]


def find_starts(env: Environment, openings: Iterable[Opening]) -> dict[Opening, Start]:
    """Finds the positions after openings: at least one, all legal, possibly with duplicates."""
    distinct = list(dict.fromkeys(openings))
    opened = open_openings(env, distinct)
    positions = position_digests(opened.states_on_host)
    return dict(zip(distinct, map(Start, opened.sides.tolist(), positions), strict=True))


def open_openings(env: Environment, openings: Sequence[Opening]) -> games.OpenedPositions:
    """Opens the positions after openings; see `games.open_positions`."""
    parts = map(split_opening, openings)
    return games.open_positions(env, [games.Line(moves, fen) for fen, moves in parts])


def split_opening(opening: Opening) -> tuple[str | None, tuple[int, ...]]:
    """Splits an opening into its FEN, or None, and its actions."""
    fen = next((x for x in opening[:1] if isinstance(x, str)), None)
    return fen, tuple(x for x in opening if not isinstance(x, str))


def set_up_fens(env: Environment, openings: Sequence[Opening]) -> Any | None:
    """Sets up the `[S]` positions from which the actions of openings start; `None` without a FEN.

    Player 0 has the first side. Raises a `UserError` if a FEN is not a position of the game.
    """
    fens = [split_opening(opening)[0] for opening in openings]
    if not any(fens):
        return None
    start = games.start_position(env)
    return games.set_up(env, [games.read_fen(env, fen) if fen else start for fen in fens])


def check_openings(env: Environment, openings: Sequence[Opening]) -> None:
    """Raises an error if an opening has an illegal action, or the game is over after it."""
    if not any(openings):
        return
    opened = open_openings(env, openings)
    for row, opening in enumerate(openings):
        if row in opened.errors:
            raise UserError(f"opening {list(opening)}: {opened.errors[row]}")
        if opened.is_over[row]:
            raise UserError(f"the game is over after opening {list(opening)}; leave it out")


def to_action_rows(openings: Sequence[Sequence[int | str]]) -> np.ndarray:
    """Returns the actions of openings, `[S, D]` int32, padded with -1."""
    return pad_histories([split_opening(tuple(opening))[1] for opening in openings])


def play_randomly(
    env: Environment, keys: chex.PRNGKey, lengths: Sequence[int] | np.ndarray
) -> tuple[chex.Array, Any]:
    """Plays uniformly random moves from the initial state.

    Args:
      env: a game of `games.make`.
      keys: `[S]` keys, consumed.
      lengths: numbers of plies; each game samples one of them uniformly. A game that ends earlier
        is shorter.

    Returns:
      `[S, D]` int32 actions, padded with -1, where D is the largest length, and the `[S]` states.
    """
    init_keys, length_keys, play_keys = split_key(keys, 3)
    length = jax.vmap(lambda key: jax.random.choice(key, jnp.asarray(lengths)))(length_keys)

    def step(state: Any, ply: chex.Array) -> tuple[Any, chex.Array]:
        ply_keys = jax.vmap(jax.random.fold_in, (0, None))(play_keys, ply)
        legal = state.legal_action_mask.astype(jnp.float32)
        action = sample_action(ply_keys, legal, 1.0)
        state, is_played = step_legal(env, state, action, ply < length)
        return state, jnp.where(is_played, action, -1)

    state = jax.vmap(env.init)(init_keys)
    state, actions = jax.lax.scan(step, state, jnp.arange(max(lengths)))
    return actions.T, state


_play_randomly = jax.jit(play_randomly, static_argnums=(0, 2))
