"""Checks of the arguments of a search, by types and shapes only."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false

import contextlib
from collections.abc import Generator
from typing import Any

import flax.errors
import jax
import jax.numpy as jnp

from dualmctx.errors import UserError

_PARAMS = "pass those of network.init(rng_key, states.observation), or those of a trained network"
_FLAX_ERRORS = (
    flax.errors.ScopeParamShapeError,
    flax.errors.ScopeParamNotFoundError,
    flax.errors.ScopeCollectionNotFound,
    flax.errors.ApplyScopeInvalidVariablesTypeError,
)


def check_parts(env: Any, network: Any, policy: Any) -> None:
    """Checks that the parts of a search are a game, a network and a policy.

    Raises:
      ValueError: if one is not; the message has the remedy.
    """
    remedies = {
        "env": (env, "step", "a game, such as games.make('connect_four')"),
        "network": (network, "apply", "a network of make_network or adapt_network"),
        "policy": (policy, "heads", "a policy, such as dualmctx.AlphaZero()"),
    }
    for name, (part, attribute, remedy) in remedies.items():
        if isinstance(part, type) or not hasattr(part, attribute):
            raise UserError(f"{name} is {_describe(part)}; pass {remedy}")


def check_batch(env: Any, states: Any) -> int:
    """Checks that states are a batch, of a game with as many actions; returns the batch's size.

    Raises:
      ValueError: if they are not.
    """
    mask = getattr(states, "legal_action_mask", None)
    if mask is None:
        raise UserError(f"the states are {_describe(states)}; pass states of the game")
    if jnp.ndim(mask) != 2:
        raise UserError(
            f"the states are not a batch: legal_action_mask has the shape {list(jnp.shape(mask))}, "
            "not [B, A]; for one state, pass jax.tree.map(lambda x: x[None], state)"
        )
    batch_size, num_actions = jnp.shape(mask)
    expected = getattr(env, "num_actions", num_actions)
    if num_actions != expected:
        raise UserError(
            f"the states have {num_actions} actions, but the game has {expected}; pass states of "
            "the same game"
        )
    return batch_size


def check_key(rng_key: Any, batch_size: int) -> None:
    """Checks that there is one random key for the batch, or one for each element.

    Raises:
      ValueError: if it is something else.
    """
    remedy = "pass a key, such as jax.random.PRNGKey(0), or one for each position"
    dtype = getattr(rng_key, "dtype", None)
    is_typed = dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)
    if not is_typed and dtype != jnp.uint32:
        raise UserError(f"rng_key is {_describe(rng_key)}; {remedy}")
    # A raw key is an array of numbers.
    ndim = jnp.ndim(rng_key) + is_typed
    if ndim not in (1, 2):
        raise UserError(f"rng_key has the shape {list(rng_key.shape)}; {remedy}")
    if ndim == 2 and rng_key.shape[0] != batch_size:
        raise UserError(f"rng_key has {rng_key.shape[0]} keys for {batch_size} positions; {remedy}")


@contextlib.contextmanager
def explained_params(params: Any) -> Generator[None]:
    """Explains errors of a network that gets other parameters than its own, or none.

    Raises:
      ValueError: in place of Flax's errors; also in place of others if there are no parameters.
    """
    try:
        yield
    except _FLAX_ERRORS as error:
        reason = str(error).split("\n")[0].split(" (https:")[0].rstrip(".")
        message = f"params do not fit the network and the game: {reason}; {_PARAMS}"
        raise UserError(message) from error
    except (TypeError, AttributeError) as error:
        if params is not None:
            raise
        raise UserError(f"params is None; {_PARAMS}") from error


def _describe(value: Any) -> str:
    """Describes a value briefly: networks and arrays have long texts."""
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"an array of {value.dtype} with the shape {list(value.shape)}"
    return f"of type {type(value).__name__}"
