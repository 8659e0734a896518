"""Checks recorded games by playing them, in batches on the device, and computes their keys."""

import functools
import hashlib
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

import games
from dualmctx.datasets.records import RecordedGame
from dualmctx.datasets.replay import ReadFn, Replay, by_length, replay_games
from dualmctx.game_files.game_record import board_mismatch
from dualmctx.types import Environment, GameState
from games.opened_positions import describe_bad_move
from games.parsed_moves import parse_lines
from games.registry import with_defaults

_SEED = 20161  # of the random words below; part of the format of data sets
_WORDS = 2


class PositionKeys(NamedTuple):
    """Keys of positions as pairs of uint32, `[..., 2]`.

    Attributes:
      position: equal for positions with the same observation and legal actions up to a symmetry.
      move: equal if the move that is played is the same too, up to the same symmetry.
    """

    position: chex.Array
    move: chex.Array


def game_key(env: Environment, moves: np.ndarray, fen: str | None) -> int:
    """Returns a number of 64 bits, equal for games that are equal up to a symmetry.

    It is the digest of the smallest of the symmetric sequences of moves, and so does not depend on
    the file, the result or the other games.

    Args:
      env: a game of `games.make`.
      moves: `[D]` the actions.
      fen: the FEN in which they begin; only equal FENs are compared, without symmetries.
    """
    table = _renamed_actions(env)[:1] if fen is not None else _renamed_actions(env)
    smallest = min(image.tobytes() for image in table[:, moves].astype(">i4"))
    digest = hashlib.blake2b(smallest + (fen or "").encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


@functools.lru_cache(maxsize=64)
def _renamed_actions(env: Environment) -> np.ndarray:
    """Returns `[S, A]`: the action that takes the place of each action under each symmetry."""
    return np.argsort(games.symmetries(env).action, axis=1)


@functools.lru_cache(maxsize=64)
def position_keys(env: Environment) -> ReadFn:
    """Returns a function that computes the `PositionKeys` of `[S]` states and their actions.

    A key is the smallest of the sums Σ w[i] x[i] of the symmetric forms of the position, with
    random words w; x are the entries of the observation as numbers (see `_to_bits`), and of the
    legal actions.
    """
    symmetries = games.symmetries(env)
    num_entries, num_actions = symmetries.observation.shape[1], symmetries.action.shape[1]
    words = np.random.default_rng(_SEED).integers(
        2**32, size=(num_entries + 2 * num_actions, _WORDS), dtype=np.uint32
    )
    parts = np.split(words, [num_entries, num_entries + num_actions])
    observed, legal = (
        _permuted(part, table)
        for part, table in zip(parts, (symmetries.observation, symmetries.action), strict=False)
    )
    # The word of a move is that of the action that takes its place.
    moved = parts[2][_renamed_actions(env)]

    def read(states: GameState, actions: chex.Array) -> PositionKeys:
        x = _to_bits(states.observation)
        mask = states.legal_action_mask.astype(jnp.uint32)
        keys = jnp.tensordot(x, observed, 1) + jnp.tensordot(mask, legal, 1)
        position, is_smallest = _smallest(keys, jnp.ones(keys.shape[:2], bool))
        # Several symmetries may leave the position as it is; the move need not be the same.
        images = jnp.moveaxis(jnp.asarray(moved)[:, actions], 0, 1)
        return PositionKeys(position, position + _smallest(images, is_smallest)[0])

    return read


def _permuted(words: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Returns `[D, S, 2]` words by entry of the position itself, for `[S, D]` permutations."""
    return np.stack([words[np.argsort(row)] for row in table], axis=1)


def _to_bits(observation: chex.Array) -> chex.Array:
    """Returns the entries of `[S, ...]` observations as `[S, D]` uint32; of floats, mixed bits."""
    x = observation.reshape(observation.shape[0], -1)
    if jnp.issubdtype(x.dtype, jnp.floating):
        # Adding 0 makes −0 equal to 0.
        return _mix(jax.lax.bitcast_convert_type(x.astype(jnp.float32) + 0.0, jnp.uint32))
    return x.astype(jnp.uint32)


def _mix(bits: chex.Array) -> chex.Array:
    """Mixes the bits of uint32 numbers by a one-to-one function that maps 0 to 0.

    The low bits of a float that is a small whole number are 0. A product with it keeps only the low
    bits of the random word, which are too few.

    Source: the finaliser of MurmurHash3 (Appleby, public domain).
    """
    bits = (bits ^ bits >> 16) * np.uint32(0x85EBCA6B)
    bits = (bits ^ bits >> 13) * np.uint32(0xC2B2AE35)
    return bits ^ bits >> 16


def _smallest(keys: chex.Array, is_candidate: chex.Array) -> tuple[chex.Array, chex.Array]:
    """Returns the smallest of `[S, K, 2]` candidates, `[S, 2]`, and where it is, `[S, K]` bool."""
    for word in range(_WORDS):
        column = jnp.where(is_candidate, keys[..., word], np.uint32(2**32 - 1))
        is_candidate &= column == jnp.min(column, axis=1, keepdims=True)
    first = jnp.argmax(is_candidate, axis=1)
    return jnp.take_along_axis(keys, first[:, None, None], axis=1)[:, 0], is_candidate


def as_numbers(keys: Any) -> np.ndarray:
    """Returns `[..., 2]` uint32 keys as `[...]` uint64."""
    words = np.asarray(keys).astype(np.uint64)
    return words[..., 0] << np.uint64(32) | words[..., 1]


class CheckedGame(NamedTuple):
    """A game whose moves are legal; D is the number of its moves.

    Attributes:
      recorded: the game in its file.
      moves: `[D]` int32 actions.
      is_random: `[D]` bool, whether no player chose the move.
      is_first: `[D]` bool, whether the first side is to move.
      result: result of the first side in [-1, 1]; NaN if it is unknown.
      key: see `game_key`.
      keys: `[D]` uint64, see `PositionKeys.position`.
      move_keys: `[D]` uint64, see `PositionKeys.move`.
      is_contradicted: whether the file and the end of the game give different results.
    """

    recorded: RecordedGame
    moves: np.ndarray
    is_random: np.ndarray
    is_first: np.ndarray
    result: float
    key: int
    keys: np.ndarray
    move_keys: np.ndarray
    is_contradicted: bool

    @property
    def values(self) -> np.ndarray:
        """`[D]` float32, the result for the player to move; NaN before the last random move."""
        value = np.where(self.is_first, self.result, -self.result)
        last_random = np.flatnonzero(self.is_random)[-1:]
        value[: last_random[0] + 1 if len(last_random) else 0] = np.nan
        # −0 becomes 0.
        return (value + 0.0).astype(np.float32)


def check_games(
    env: Environment,
    recorded: Sequence[RecordedGame],
    game_parameters: dict[str, Any],
    *,
    prefer_record: bool = False,
) -> list[CheckedGame | str]:
    """Plays recorded games and finds those that break the rules.

    Args:
      env: a game of `games.make`.
      recorded: the games.
      game_parameters: the parameters of the environment.
      prefer_record: whether the result in the file comes before that of a game that is over.

    Returns:
      For each game the checked game, or the reason why it cannot be used.
    """
    found: list[Any] = [
        _mismatch(env, game) or _other_parameters(env, game, game_parameters) for game in recorded
    ]
    rows = [row for row, reason in enumerate(found) if reason is None]
    parsed = parse_lines(env, [recorded[x] for x in rows])
    moves = [parsed.actions_of(index) for index in range(len(rows))]
    for index, reason in parsed.errors.items():
        found[rows[index]] = reason.rstrip(".")
    valid = [index for index in range(len(rows)) if index not in parsed.errors]
    for group in by_length([len(moves[index]) for index in valid]):
        chosen = [valid[place] for place in group.games]
        fens = [recorded[rows[index]].fen for index in chosen]
        played = replay_games(env, position_keys(env), [moves[x] for x in chosen], fens)
        for column, index in enumerate(chosen):
            game, bad = recorded[rows[index]], int(played.first_bad[column])
            if bad < 0:
                checked = _checked(env, game, moves[index], played, column, prefer_record)
            else:
                line = game, parsed.starts[index], moves[index].tolist(), bad
                is_over = bool(played.is_over[column])
                checked = str(describe_bad_move(env, *line, is_over=is_over))
            found[rows[index]] = checked
    return found


def _checked(
    env: Environment,
    game: RecordedGame,
    moves: np.ndarray,
    played: Replay,
    column: int,
    prefer_record: bool,
) -> CheckedGame:
    """Returns a column of the games that were played as a checked game."""
    length = len(moves)
    is_random = np.isin(np.arange(length), np.array(game.random, int))
    ended = float(played.result[column]) if played.is_over[column] else None
    result = game.result if ended is None or (prefer_record and game.result is not None) else ended
    differs = ended is not None and game.result is not None and ended != game.result
    return CheckedGame(
        recorded=game,
        moves=moves,
        is_random=is_random,
        is_first=np.asarray(played.is_first[:length, column]),
        result=math.nan if result is None else result,
        key=game_key(env, moves, game.fen),
        keys=as_numbers(played.seen.position[:length, column]),
        move_keys=as_numbers(played.seen.move[:length, column]),
        is_contradicted=differs,
    )


def _mismatch(env: Environment, game: RecordedGame) -> str | None:
    """Returns why a game cannot be played in an environment; `None` if it can."""
    if game.game not in (None, env.id):
        return f"the game is {game.game}, but the data set is of {env.id}"
    reason = (game.board and board_mismatch(env, game.board)) or game.error
    if reason is not None:
        return reason
    komi = getattr(getattr(env, "_game", None), "komi", None)
    if game.komi is not None and komi is not None and game.komi != komi:
        return (
            f"the komi is {game.komi:g}, but the data set has komi {komi:g}; a data set has one "
            f"komi: --game-parameters komi {game.komi:g}"
        )
    return None


def _other_parameters(
    env: Environment, game: RecordedGame, game_parameters: dict[str, Any]
) -> str | None:
    """Returns which parameters of a game differ from those of the data set; `None` if none."""
    if game.game_parameters is None:
        return None
    own, other = (with_defaults(env.id, x) for x in (game_parameters, game.game_parameters))
    names = [name for name in {**other, **own} if other.get(name) != own.get(name)]
    if not names:
        return None
    found, expected = (", ".join(f"{x} {y.get(x)}" for x in names) for y in (other, own))
    flags = " ".join(f"{name} {x}" for name, x in game.game_parameters.items())
    remedy = f"use --game-parameters {flags}" if flags else "leave out --game-parameters"
    return f"the game has {found}, but the data set has {expected}; to read such games {remedy}"
