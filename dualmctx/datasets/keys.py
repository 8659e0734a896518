"""Keys of games and of positions that are equal up to a symmetry of the board."""

import functools
import hashlib
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

import games
from dualmctx.datasets.replay import ReadFn
from dualmctx.types import Environment, GameState

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
    images = table[:, moves].astype("<i4")
    smallest = min(image.tobytes() for image in images.astype(">i4"))
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
