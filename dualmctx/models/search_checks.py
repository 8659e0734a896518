"""Checks of the inputs of a search, by types and shapes: they cost nothing when it runs."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

import contextlib
from collections.abc import Generator
from typing import Any

import flax.errors
import jax
import numpy as np

from dualmctx.search.keys import is_per_element
from dualmctx.types import Environment


def check_parts(env: Any, network: Any, policy: Any) -> None:
    """Checks that the parts of a search are a game, a network and a policy.

    Raises:
      ValueError: if one is not; the message has the remedy.
    """
    if not callable(getattr(env, "step", None)) or isinstance(env, type):
        raise ValueError(f"env is {env!r}; pass a game, such as games.make('connect_four')")
    if not callable(getattr(network, "apply", None)) or isinstance(network, type):
        raise ValueError(
            f"network is {network!r}; pass a network, as make_network and adapt_network return it"
        )
    if not callable(policy) or isinstance(policy, type) or not hasattr(policy, "heads"):
        raise ValueError(f"policy is {policy!r}; pass a policy, such as dualmctx.AlphaZero()")


def state_shapes(env: Environment, batch_size: int) -> Any:
    """Returns the shapes and types of `[batch_size]` states of a game."""
    keys = jax.ShapeDtypeStruct((batch_size, 2), np.uint32)
    return jax.eval_shape(jax.vmap(env.init), keys)


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
        raise ValueError(
            f"{problem}, but {type(states).__name__}; create them with the environment of the game"
        )
    wanted = jax.tree_util.tree_leaves_with_path(shapes)
    number = None
    for array, (path, shape) in zip(jax.tree.leaves(states), wanted, strict=True):
        number = array.shape[0] if number is None and array.ndim else number
        if (array.shape, array.dtype) != ((number, *shape.shape[1:]), shape.dtype):
            expected = ", ".join(("S", *map(str, shape.shape[1:])))
            raise ValueError(
                f"{problem}: {jax.tree_util.keystr(path)} is {array.dtype} {list(array.shape)}, "
                f"not {shape.dtype} [{expected}]"
            )
    return number or 0


def check_key(rng_key: Any, batch_size: int) -> None:
    """Checks a random key: one for the batch, or one for each element.

    Raises:
      ValueError: if it is something else.
    """
    remedy = "pass a key, such as jax.random.PRNGKey(0), or one for each position"
    if not hasattr(rng_key, "dtype"):
        raise ValueError(f"rng_key is {rng_key!r}; {remedy}")
    if is_per_element(rng_key) and rng_key.shape[0] != batch_size:
        raise ValueError(
            f"rng_key has {rng_key.shape[0]} keys for {batch_size} positions; {remedy}"
        )


@contextlib.contextmanager
def explained_params(params: Any) -> Generator[None]:
    """Explains errors of a network that gets parameters of another one.

    Raises:
      ValueError: in place of Flax's error.
    """
    remedy = (
        "pass those of network.init(rng_key, states.observation), or those of a trained network"
    )
    if params is None:
        raise ValueError(f"params is None; {remedy}")
    try:
        yield
    except (
        flax.errors.ScopeParamShapeError,
        flax.errors.ScopeParamNotFoundError,
        flax.errors.ScopeCollectionNotFound,
        flax.errors.ApplyScopeInvalidVariablesTypeError,
    ) as error:
        reason = str(error).split("\n")[0].split(" (https:")[0].rstrip(".")
        raise ValueError(
            f"params do not fit the network and the game: {reason}; {remedy}"
        ) from error
