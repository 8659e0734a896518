"""Splits positions into batches of a fixed size and derives a key for each position."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import chex
import jax
import numpy as np

from dualmctx.errors import UserError

T = TypeVar("T")


def digest(ids: Iterable[str | int]) -> np.ndarray:
    """Returns `[S, 2]` uint32 digests of ids, stable across machines; 7 and "7" are equal ids."""
    digests = (hashlib.blake2b(_as_bytes(x), digest_size=8).digest() for x in ids)
    return np.frombuffer(b"".join(digests), "<u4").reshape(-1, 2).astype(np.uint32)


def _as_bytes(identity: str | int) -> bytes:
    # JSON strings may contain unpaired surrogates.
    return str(identity).encode("utf-8", "surrogatepass")


def position_keys(rng_key: chex.PRNGKey, digests: chex.Array) -> chex.PRNGKey:
    """Folds `[B, 2]` digests into a key; a position's key depends on no other digest."""

    def fold(words: chex.Array) -> chex.PRNGKey:
        return jax.random.fold_in(jax.random.fold_in(rng_key, words[0]), words[1])

    return jax.vmap(fold)(digests)


def fill_batches(positions: T, batch_size: int) -> Iterator[T]:
    """Splits `[S, ...]` arrays into full NumPy batches; the last batch is padded by repetition.

    Indexing uses NumPy, because JAX would compile a program for each S.
    """
    positions = jax.tree.map(np.asarray, positions)
    num_positions = len(jax.tree.leaves(positions)[0])
    for start in range(0, num_positions, batch_size):
        index = np.arange(start, start + batch_size) % num_positions
        yield jax.tree.map(lambda x, index=index: x[index], positions)


def join(batches: Sequence[T], num_positions: int) -> T:
    """Fetches the results of padded batches and concatenates the first `num_positions` of them."""
    fetched = jax.device_get(batches)
    return jax.tree.map(lambda *x: np.concatenate(x)[:num_positions], *fetched)


def check_states(game: str, states: Any, shapes: Any) -> int:
    """Checks that arrays are a batch of states of a game; returns the size of the batch.

    Args:
      game: name of the game.
      states: the states to check.
      shapes: shapes and types of a batch of states of any size.

    Raises:
      ValueError: if they are not a batch of states; the message names the first wrong field.
    """
    problem = f"the states are not a batch of states of {game}"
    if jax.tree.structure(states) != jax.tree.structure(shapes):
        raise UserError(
            f"{problem}, but {type(states).__name__}; create them with the environment of the game"
        )
    wanted = jax.tree_util.tree_leaves_with_path(shapes)
    number = None
    for array, (path, shape) in zip(jax.tree.leaves(states), wanted, strict=True):
        number = array.shape[0] if number is None and array.ndim else number
        if (array.shape, array.dtype) != ((number, *shape.shape[1:]), shape.dtype):
            expected = ", ".join(("S", *map(str, shape.shape[1:])))
            raise UserError(
                f"{problem}: {jax.tree_util.keystr(path)} is {array.dtype} {list(array.shape)}, "
                f"not {shape.dtype} [{expected}]"
            )
    return number or 0
