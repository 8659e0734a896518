"""Reads the outputs of a user's module: one pair of logits and values for each head."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownMemberType=false

from typing import Any, cast

import jax.numpy as jnp
from jax import Array

from dualmctx.errors import UserError
from dualmctx.models.head import HeadOutput

_WANTED = "(logits, value), or a list of such pairs, one for each head"


def split_heads(output: Any) -> list[Any]:
    """Splits the output of a module into one pair for each head.

    Raises:
      ValueError: if the output is neither a pair of arrays nor a list of pairs.
    """
    if not isinstance(output, tuple | list) or not output:
        raise UserError(f"it returns {_describe(output)}; it must return {_WANTED}")
    found: list[Any] = list(cast(Any, output))
    return [found] if all(map(_is_array, found)) else found


def read_head(output: Any, num_positions: int, num_actions: int) -> HeadOutput:
    """Converts the pair of a head to float32, with values of shape `[M]`.

    Raises:
      ValueError: if it is not a pair of arrays, or if a shape or a type is wrong.
    """
    logits, value = as_pair(output, "a head")
    if not _is_array(logits) or not _is_array(value):
        raise UserError(f"a head returns {_describe(output)}; it must return {_WANTED}")
    for name, x in (("logits", logits), ("values", value)):
        if not jnp.issubdtype(x.dtype, jnp.floating):
            raise UserError(
                f"the {name} are {x.dtype}; they must be floating, because numbers of other types "
                "have no gradient"
            )
    if logits.shape != (num_positions, num_actions):
        raise UserError(
            f"the logits of {num_positions} positions have the shape {logits.shape}; it must be "
            f"{(num_positions, num_actions)}, one number for each of the {num_actions} actions"
        )
    if value.shape not in ((num_positions,), (num_positions, 1)):
        raise UserError(
            f"the values of {num_positions} positions have the shape {value.shape}; it must be "
            f"{(num_positions,)} or {(num_positions, 1)}"
        )
    return HeadOutput(logits.astype(jnp.float32), value.reshape(num_positions).astype(jnp.float32))


def read_activations(activations: Any, num_positions: int) -> Array:
    """Returns the activations of `begin`.

    Raises:
      ValueError: if they are not a floating array `[M, ...]`.
    """
    is_array = _is_array(activations) and jnp.issubdtype(activations.dtype, jnp.floating)
    if not is_array or activations.shape[:1] != (num_positions,):
        raise UserError(
            f"begin returns as activations of {num_positions} positions {_describe(activations)}; "
            f"they must be one floating array whose first axis has length {num_positions}"
        )
    return activations


def as_pair(output: Any, name: str) -> tuple[Any, Any]:
    """Returns the two parts of an output of `begin`, `resume` or a head.

    Raises:
      ValueError: if it does not have two parts.
    """
    if not isinstance(output, tuple | list) or len(cast(Any, output)) != 2:
        second = "(logits, value)" if name == "a head" else "(activations, (logits, value))"
        raise UserError(f"{name} returns {_describe(output)}; it must return {second}")
    first, last = cast(Any, output)
    return first, last


def _is_array(x: Any) -> bool:
    return hasattr(x, "shape") and hasattr(x, "dtype")


def _describe(output: Any) -> str:
    """Describes an output for a message."""
    if _is_array(output):
        return f"an array of shape {tuple(output.shape)}"
    if isinstance(output, tuple | list):
        parts: list[Any] = list(cast(Any, output))
        return f"({', '.join(map(_describe, parts))})"
    return f"an object of type {type(output).__name__}"
