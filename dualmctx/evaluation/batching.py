"""Any number of positions in batches of one size, each position with a key of its own."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import chex
import jax
import numpy as np

T = TypeVar("T")


def digest(ids: Iterable[str | int]) -> np.ndarray:
    """Returns `[S, 2]` uint32 digests of ids, the same everywhere; 7 and "7" are the same id."""
    digests = (hashlib.blake2b(_as_bytes(x), digest_size=8).digest() for x in ids)
    return np.frombuffer(b"".join(digests), "<u4").reshape(-1, 2).astype(np.uint32)


def _as_bytes(identity: str | int) -> bytes:
    # JSON may hold half of a surrogate pair.
    return str(identity).encode("utf-8", "surrogatepass")


def position_keys(rng_key: chex.PRNGKey, digests: chex.Array) -> chex.PRNGKey:
    """Folds `[B, 2]` digests into a key; returns `[B]` keys, each of its own digest alone."""

    def fold(words: chex.Array) -> chex.PRNGKey:
        return jax.random.fold_in(jax.random.fold_in(rng_key, words[0]), words[1])

    return jax.vmap(fold)(digests)


def fill_batches(positions: T, batch_size: int) -> Iterator[T]:
    """Cuts `[S, ...]` arrays into full batches of NumPy arrays, the last one filled by repetition.

    Indexed by NumPy: JAX would compile for each S.
    """
    positions = jax.tree.map(np.asarray, positions)
    num_positions = len(jax.tree.leaves(positions)[0])
    for start in range(0, num_positions, batch_size):
        index = np.arange(start, start + batch_size) % num_positions
        yield jax.tree.map(lambda x, index=index: x[index], positions)


def join(batches: Sequence[T], num_positions: int) -> T:
    """Fetches what was said of filled batches and joins the first `num_positions` of it."""
    fetched = jax.device_get(batches)
    return jax.tree.map(lambda *x: np.concatenate(x)[:num_positions], *fetched)


def check_states(game: str, states: Any, shapes: Any) -> int:
    """Checks that arrays are a batch of a game's states; returns how many.

    Args:
      game: its name.
      states: what was given.
      shapes: of a batch of states, of any size.

    Raises:
      ValueError: when they are not, in one line with the first field that differs.
    """
    what = f"the states are no batch of {game}'s"
    if jax.tree.structure(states) != jax.tree.structure(shapes):
        raise ValueError(f"{what}, but {type(states).__name__}; make them by the game's own env")
    wanted = jax.tree_util.tree_leaves_with_path(shapes)
    number = None
    for found, (path, shape) in zip(jax.tree.leaves(states), wanted, strict=True):
        number = found.shape[0] if number is None and found.ndim else number
        if (found.shape, found.dtype) != ((number, *shape.shape[1:]), shape.dtype):
            expected = ", ".join(("S", *map(str, shape.shape[1:])))
            raise ValueError(
                f"{what}: {jax.tree_util.keystr(path)} is {found.dtype} {list(found.shape)}, not "
                f"{shape.dtype} [{expected}]"
            )
    return number or 0
