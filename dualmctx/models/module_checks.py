"""Checks a user's Flax module and reads its outputs; messages name the module and the remedy."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownMemberType=false

import inspect
import traceback
from collections.abc import Callable
from typing import Any, cast

import flax.errors
import jax
import jax.numpy as jnp
from flax import linen as nn
from jax import Array

from dualmctx.checks import check, is_whole, show
from dualmctx.errors import UserError
from dualmctx.models.network import HeadOutput

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


def check_module(module: Any) -> None:
    """Checks that an object is a linen module, without running it.

    Raises:
      ValueError: if it is not, or if it has `resume` without `begin`.
    """
    name = module.__name__ if isinstance(module, type) else type(module).__name__
    bases = (module if isinstance(module, type) else type(module)).__mro__
    if any(base.__module__.startswith("flax.nnx") for base in bases) and not isinstance(
        module, nn.Module
    ):
        raise UserError(
            f"{name} is a Flax NNX module; convert its class to a linen module, as in "
            f"flax.nnx.bridge.to_linen({name}, ...)"
        )
    if isinstance(module, type):
        raise UserError(f"{name} is a class; pass an instance, as in {name}(...)")
    if not isinstance(module, nn.Module):
        raise UserError(f"the network is of type {name}; it must be a flax.linen.Module")
    if hasattr(module, "resume") and not hasattr(module, "begin"):
        raise UserError(f"{name} has the method resume but not begin; add begin, or remove resume")


def count_heads(module: nn.Module, num_actions: int, shape: tuple[int, ...]) -> int:
    """Checks the variables and the outputs of a module; returns the number of its heads.

    Raises:
      ValueError: as `trace`, or if a variable or an output is wrong.
    """

    def evaluate() -> list[HeadOutput]:
        # The module is initialised with one position, as in training, and evaluates three.
        variables = module.init(jax.random.PRNGKey(0), jnp.zeros((1, *shape)))
        _check_variables(variables)
        outputs = split_heads(module.apply(variables, jnp.zeros((3, *shape))))
        return [read_head(output, 3, num_actions) for output in outputs]

    return len(trace(module, shape, evaluate))


def _check_variables(variables: Any) -> None:
    others = sorted(variables.keys() - {"params"})
    if others:
        raise UserError(
            f"it has the variables {', '.join(others)}, which are not learned or saved; use "
            "parameters only, and in place of BatchNorm use LayerNorm or GroupNorm"
        )
    leaves = jax.tree.leaves(variables)
    if not leaves:
        raise UserError("it has no parameters, so there is nothing to learn")
    others = sorted({str(x.dtype) for x in leaves} - {"float32"})
    if others:
        raise UserError(
            f"it has parameters of type {', '.join(others)}; they must be float32, for "
            "example with param_dtype=jnp.float32. Layers may compute in another type, for example "
            "with dtype=jnp.bfloat16"
        )


def trace(module: nn.Module, shape: Any, function: Callable[[], Any]) -> Any:
    """Traces a function that takes no arrays; returns the shapes of its output.

    Raises:
      ValueError: if it fails; the message names the module, the error and its place in the file.
    """
    name = type(module).__name__
    try:
        return jax.eval_shape(function)
    except flax.errors.InvalidRngError as error:
        raise UserError(
            f"{name} needs random numbers to evaluate a position ({_first_line(error)}); build it "
            "without dropout, or with deterministic=True"
        ) from error
    # The code of a user can raise anything.
    except Exception as error:
        kind = "" if type(error) is ValueError else f"{type(error).__name__}: "
        raise UserError(
            f"{name} cannot be used for observations of shape {tuple(shape)}: "
            f"{kind}{_first_line(error)}{_place(module, error)}"
        ) from error


def _first_line(error: BaseException) -> str:
    line = (str(error).strip() or type(error).__name__).split("\n")[0]
    # The messages of Flax end with an address.
    return line.split(" (https:")[0]


def _place(module: nn.Module, error: BaseException) -> str:
    """Returns the last line of the module's own file in the traceback of an error."""
    try:
        file = inspect.getfile(type(module))
    except (TypeError, OSError):
        return ""
    lines = [x.lineno for x in traceback.extract_tb(error.__traceback__) if x.filename == file]
    return f" ({file}, line {lines[-1]})" if lines else ""


def check_depths(module: nn.Module, depths: tuple[Any, ...], num_heads: int) -> None:
    """Checks the depths of the heads of a module.

    Raises:
      ValueError: if they are not whole numbers of at least 1, one for each head, or if they do not
        increase and the module has `resume`.
    """
    is_valid = all(is_whole(depth) and depth >= 1 for depth in depths)
    remedy = f"whole numbers of at least 1, one for each of the {num_heads} heads of "
    remedy += type(module).__name__
    if hasattr(module, "resume"):
        is_valid = is_valid and sorted(set(depths)) == list(depths)
        remedy += ", which increase"
    check(is_valid and len(depths) == num_heads, "head_depths", show(depths), remedy)
