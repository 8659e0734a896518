"""The fields of a user's Flax module: as JSON values, and restored from them."""

# Some functions of Flax have incomplete types.
# pyright: reportUnknownMemberType=false

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any, cast

import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from dualmctx.errors import UserError


def describe_fields(module: nn.Module) -> dict[str, Any]:
    """Returns the fields of a module as JSON values.

    Finite numbers, strings, booleans, `None`, and lists, tuples and dictionaries of them are plain:
    they can be restored. Dtypes, functions, modules and other objects are described by their names,
    and infinite numbers and NaN, which JSON lacks, as text; these are only compared.
    """
    return {field.name: _describe(getattr(module, field.name)) for field in own_fields(module)}


def restore_fields(module: nn.Module, saved: Mapping[str, Any]) -> nn.Module:
    """Returns a module with saved values of its plain fields.

    Args:
      module: the module, as its code builds it today.
      saved: the fields as `describe_fields` returned them, perhaps with an earlier version of the
        code.

    Raises:
      ValueError: if the module does not have exactly these fields, or if a field that is not plain
        has changed.
    """
    found = describe_fields(module)
    problems = [f"{name} is missing" for name in saved if name not in found]
    problems += [f"{name} is new" for name in found if name not in saved]
    changed = [name for name in found if name in saved and found[name] != saved[name]]
    problems += [
        f"{name} is {found[name]}, not {saved[name]}"
        for name in changed
        if not _is_plain(getattr(module, name)) or not _is_plain(saved[name])
    ]
    if problems:
        raise UserError(
            f"the fields of {type(module).__name__} have changed since the network was saved: "
            f"{', '.join(problems)}; use the code that saved it"
        )
    return module.clone(**{name: _as_tuples(saved[name]) for name in changed})


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


def _describe(value: Any) -> Any:
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return {str(name): _describe(x) for name, x in items}
    if isinstance(value, list | tuple):
        return [_describe(x) for x in cast("list[Any]", value)]
    if _is_plain(value):
        return value
    if isinstance(value, float):
        return {"object": f"float {value}"}
    if isinstance(value, nn.Module):
        return {"object": _path(type(value)), "fields": describe_fields(value)}
    if isinstance(value, functools.partial):
        partial = cast("functools.partial[Any]", value)
        parts = [partial.func, partial.args, partial.keywords]
        return {"object": "functools.partial", "of": [_describe(x) for x in parts]}
    # jnp.float32 has a dtype, np.float32 is a class of NumPy's, and np.dtype is neither.
    value = cast(Any, value)
    is_numpy = isinstance(value, type) and issubclass(cast(Any, value), np.generic)
    if hasattr(value, "dtype") or isinstance(value, np.dtype) or is_numpy:
        return {"object": f"dtype {jnp.dtype(cast(Any, value)).name}"}
    return {"object": _path(value if hasattr(value, "__qualname__") else type(value))}


def _path(value: Any) -> str:
    """Returns the path of a function or class; of JAX and Flax without their inner modules."""
    package = value.__module__.split(".")[0]
    module = package if package in ("jax", "jaxlib", "flax") else value.__module__
    return f"{module}.{value.__qualname__}"


def _as_tuples(value: Any) -> Any:
    """Returns a value with tuples in place of lists, because JSON has no tuples."""
    if isinstance(value, list):
        return tuple(_as_tuples(x) for x in cast("list[Any]", value))
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value).items()
        return {name: _as_tuples(x) for name, x in items}
    return value
