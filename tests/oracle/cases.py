"""Options and kinds of hash games that the tests of the search share, and comparisons."""

import contextlib
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dualmctx import AlphaZero, Dual, with_options
from hash_model import Rules


def grouped(base: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    """Returns groups of options, as keyword arguments of a policy, with the named options."""
    policy = with_options(AlphaZero(**base or {}), **options)
    return {name: getattr(policy, name) for name in ("puct", "root", "backup", "execution")}


CALM = grouped(dirichlet_fraction=0.0)
WINDOWED = grouped(CALM, window=1, explore_fraction=0.0)

# Kinds of games, each the plain one with a difference.
RULES = {
    "plain": Rules(),
    "all legal": Rules(illegal=0.0),
    "one legal action": Rules(illegal=1.0, terminal=0.02),
    "ties everywhere": Rules(spread=0.0, illegal=0.0, terminal=0.05),
    "no illegal, no end": Rules(illegal=0.0, terminal=0.0),
    "single player": Rules(same_player=1.0, reward=0.5),
    "same player twice": Rules(same_player=0.4, reward=0.3),
    "often terminal": Rules(terminal=0.5),
    "tiny": Rules(terminal=0.75, same_player=0.3, reward=0.5),
}

DUAL_WINDOWED = Dual((23, 13), 2, action_weights="small_visits", **WINDOWED)


@contextlib.contextmanager
def jax_settings() -> Iterator[None]:
    """Makes 64-bit types the default, and broadcasting to more axes an error."""
    with jax.enable_x64(True), jax.numpy_rank_promotion("raise"):
        yield


def assert_same(actual: Any, expected: Any) -> None:
    """Checks that integers are equal and floats nearly equal.

    XLA rounds as its fusions require, and a matrix product may depend on the row's place.
    """

    def compare(path: Any, x: Any, y: Any) -> None:
        name = jax.tree_util.keystr(path)
        if jnp.issubdtype(x.dtype, jnp.inexact):
            np.testing.assert_allclose(x, y, rtol=1e-5, atol=3e-6, err_msg=name)
        else:
            np.testing.assert_array_equal(x, y, err_msg=name)

    jax.tree_util.tree_map_with_path(compare, actual, expected)
