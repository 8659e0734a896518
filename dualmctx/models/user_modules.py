"""A user's Flax module: checks, its outputs, and its fields as JSON values; messages have remedies.

All functions raise a `UserError` if the module, or an output of it, is not as they describe.
"""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownMemberType=false

import dataclasses
import functools
import inspect
import math
import traceback
from collections.abc import Callable, Mapping
from typing import Any, cast

import flax.errors
import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax import Array

from dualmctx.checks import check, is_whole, plain, show
from dualmctx.errors import UserError, reason_of
from dualmctx.models.network import HeadOutput

_WANTED = "(logits, value), or a list of such pairs, one for each head"


def split_heads(output: Any) -> list[Any]:
    """Splits the output of a module, a pair or a list of pairs, into one pair for each head."""
    if not isinstance(output, tuple | list) or not output:
        raise UserError(f"it returns {_describe(output)}; it must return {_WANTED}")
    found: list[Any] = list(cast(Any, output))
    return [found] if all(map(_is_array, found)) else found


def read_head(output: Any, num_positions: int, num_actions: int) -> HeadOutput:
    """Converts the pair of a head, `[M, A]` and `[M]` or `[M, 1]`, to float32 and values `[M]`."""
    logits, value = as_pair(output, "a head")
    if not _is_array(logits) or not _is_array(value):
        raise UserError(f"a head returns {_describe(output)}; it must return {_WANTED}")
    positions = (num_positions,)
    for name, x, shapes in (
        ("logits", logits, [(*positions, num_actions)]),
        ("values", value, [positions, (*positions, 1)]),
    ):
        if not jnp.issubdtype(x.dtype, jnp.floating):
            raise UserError(
                f"the {name} are {x.dtype}; they must be floating, because numbers of other types "
                "have no gradient"
            )
        if x.shape not in shapes:
            raise UserError(
                f"the {name} of {num_positions} positions have the shape {x.shape}; it must be "
                f"{' or '.join(map(str, shapes))}"
            )
    return HeadOutput(logits.astype(jnp.float32), value.reshape(num_positions).astype(jnp.float32))


def read_activations(activations: Any, num_positions: int) -> Array:
    """Returns the activations of `begin`, one floating array `[M, ...]`."""
    is_array = _is_array(activations) and jnp.issubdtype(activations.dtype, jnp.floating)
    if not is_array or activations.shape[:1] != (num_positions,):
        raise UserError(
            f"begin returns as activations of {num_positions} positions {_describe(activations)}; "
            f"they must be one floating array whose first axis has length {num_positions}"
        )
    return activations


def as_pair(output: Any, name: str) -> tuple[Any, Any]:
    """Returns the two parts of an output of `begin`, `resume` or a head."""
    if not isinstance(output, tuple | list) or len(cast(Any, output)) != 2:
        second = "(logits, value)" if name == "a head" else "(activations, (logits, value))"
        raise UserError(f"{name} returns {_describe(output)}; it must return {second}")
    first, last = cast(Any, output)
    return first, last


def _is_array(x: Any) -> bool:
    return hasattr(x, "shape") and hasattr(x, "dtype")


def _describe(output: Any) -> str:
    if _is_array(output):
        return f"an array of shape {tuple(output.shape)}"
    if isinstance(output, tuple | list):
        parts: list[Any] = list(cast(Any, output))
        return f"({', '.join(map(_describe, parts))})"
    return f"an object of type {type(output).__name__}"


def check_module(module: Any) -> None:
    """Checks that an object is a linen module, with `resume` only beside `begin`; runs nothing."""
    kind = module if isinstance(module, type) else type(module)
    name, is_linen = kind.__name__, issubclass(kind, nn.Module)
    if not is_linen and any(base.__module__.startswith("flax.nnx") for base in kind.__mro__):
        raise UserError(
            f"{name} is a Flax NNX module; convert its class to a linen module, as in "
            f"flax.nnx.bridge.to_linen({name}, ...)"
        )
    if kind is module:
        raise UserError(f"{name} is a class; pass an instance, as in {name}(...)")
    if not is_linen:
        raise UserError(f"the network is of type {name}; it must be a flax.linen.Module")
    if hasattr(module, "resume") and not hasattr(module, "begin"):
        raise UserError(f"{name} has the method resume but not begin; add begin, or remove resume")


def count_heads(module: nn.Module, num_actions: int, shape: tuple[int, ...]) -> int:
    """Checks the variables and the outputs of a module by `trace`; returns its number of heads."""

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
    """Traces a function that takes no arrays; errors name the module and the line of its file."""
    name = type(module).__name__
    try:
        return jax.eval_shape(function)
    except flax.errors.InvalidRngError as error:
        raise UserError(
            f"{name} needs random numbers to evaluate a position ({reason_of(error)}); build it "
            "without dropout, or with deterministic=True"
        ) from error
    # The code of a user can raise anything.
    except Exception as error:
        kind = "" if isinstance(error, UserError) else f"{type(error).__name__}: "
        raise UserError(
            f"{name} cannot be used for observations of shape {tuple(shape)}: "
            f"{kind}{reason_of(error)}{_place(module, error)}"
        ) from error


def _place(module: nn.Module, error: BaseException) -> str:
    """Returns the last line of the module's own file in the traceback of an error."""
    try:
        file = inspect.getfile(type(module))
    except (TypeError, OSError):
        return ""
    lines = [x.lineno for x in traceback.extract_tb(error.__traceback__) if x.filename == file]
    return f" ({file}, line {lines[-1]})" if lines else ""


def check_head_costs(module: nn.Module, depths: tuple[Any, ...], num_heads: int) -> None:
    """Checks the depths of a module: whole numbers, one per head; with `resume` they increase."""
    is_valid = all(is_whole(depth) and depth >= 1 for depth in depths)
    remedy = f"whole numbers of at least 1, one for each of the {num_heads} heads of "
    remedy += type(module).__name__
    if hasattr(module, "resume"):
        is_valid = is_valid and sorted(set(depths)) == list(depths)
        remedy += ", which increase"
    check(is_valid and len(depths) == num_heads, "head_depths", show(depths), remedy)


def describe_fields(module: nn.Module) -> dict[str, Any]:
    """Returns the fields of a module as JSON values.

    Finite numbers, strings, booleans, `None`, and lists, tuples and dictionaries of them are plain:
    they can be restored. Dtypes, functions, modules and other objects are described by their names,
    and infinite numbers and NaN, which JSON lacks, as text; these are only compared.
    """
    return {x.name: _describe_value(getattr(module, x.name)) for x in own_fields(module)}


def restore_fields(module: nn.Module, saved: Mapping[str, Any]) -> nn.Module:
    """Returns a module, as its code builds it today, with saved values of its plain fields.

    The saved fields are those of `describe_fields`, perhaps with an earlier version of the code.
    The module must have exactly these fields, and those that are not plain must be the same.
    """
    found = describe_fields(module)
    problems = [f"{name} is missing" for name in saved if name not in found]
    problems += [f"{name} is new" for name in found if name not in saved]
    changed = [name for name in found if name in saved and found[name] != saved[name]]
    problems += [
        f"{name} is {found[name]}, not {saved[name]}"
        for name in changed
        if not _is_plain(found[name]) or not _is_plain(saved[name])
    ]
    if problems:
        raise UserError(
            f"the fields of {type(module).__name__} have changed since the network was saved: "
            f"{', '.join(problems)}; use the code that saved it"
        )
    # JSON has no tuples.
    return module.clone(**{name: plain(saved[name]) for name in changed})


def own_fields(module: Any) -> list[dataclasses.Field[Any]]:
    """Returns the fields of a module, or of its class, without those that Flax adds."""
    fields = dataclasses.fields(module)
    return [field for field in fields if field.init and field.name not in ("parent", "name")]


def _is_plain(value: Any) -> bool:
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return "object" not in value and all(isinstance(x, str) and _is_plain(y) for x, y in items)
    if isinstance(value, list | tuple):
        return all(map(_is_plain, cast("list[Any]", value)))
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, bool | int | str)


def _describe_value(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = cast("Any", value).item()
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return {str(name): _describe_value(x) for name, x in items}
    if isinstance(value, list | tuple):
        return [_describe_value(x) for x in cast("list[Any]", value)]
    if _is_plain(value):
        return value
    if isinstance(value, float):
        return {"object": f"float {value}"}
    if isinstance(value, nn.Module):
        return {"object": _path(type(value)), "fields": describe_fields(value)}
    if isinstance(value, functools.partial):
        partial = cast("functools.partial[Any]", value)
        parts = [partial.func, partial.args, partial.keywords]
        return {"object": "functools.partial", "of": [_describe_value(x) for x in parts]}
    # jnp.float32 has a dtype, np.float32 is a class of NumPy's, and np.dtype is neither.
    is_numpy = isinstance(value, type) and issubclass(cast(Any, value), np.generic)
    if hasattr(value, "dtype") or isinstance(value, np.dtype) or is_numpy:
        return {"object": f"dtype {jnp.dtype(cast(Any, value)).name}"}
    return {"object": _path(value if hasattr(value, "__qualname__") else type(value))}


def _path(value: Any) -> str:
    """Returns the path of a function or class; of JAX and Flax without their inner modules."""
    package = value.__module__.split(".")[0]
    module = package if package in ("jax", "jaxlib", "flax") else value.__module__
    return f"{module}.{value.__qualname__}"
