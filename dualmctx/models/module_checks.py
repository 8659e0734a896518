"""Checks a user's Flax module; each message names the module and the remedy."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownMemberType=false

import inspect
import traceback
from collections.abc import Callable
from typing import Any

import flax.errors
import jax
import jax.numpy as jnp
from flax import linen as nn

from dualmctx.checks import check, is_whole, show
from dualmctx.errors import UserError
from dualmctx.models.head import HeadOutput
from dualmctx.models.module_output import read_head, split_heads


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
