"""Checks of options: the error for a bad option has its name, its value and the remedy."""

import dataclasses
import math
import numbers
from collections.abc import Callable
from typing import Any, TypeGuard

from dualmctx.errors import UserError


def check(is_valid: bool, name: str, value: Any, remedy: str) -> None:
    """Checks an option.

    Raises:
      ValueError: if `is_valid` is false; the message has the name, the value and the remedy.
    """
    if not is_valid:
        raise UserError(f"{name} is {value}; it must be {remedy}")


def normalize_options(options: Any) -> None:
    """Makes the fields of a dataclass of options plain, before they are checked.

    Numbers of NumPy and JAX, also in arrays without axes, become Python's, so that options can be
    hashed, compared and written as JSON. Lists become tuples.

    Raises:
      ValueError: if a field is a group of options, such as `Puct`, and its value is not.
    """
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        group: Any = field.type
        if isinstance(group, type) and dataclasses.is_dataclass(group):
            remedy = f"of the type {group.__name__}, such as {group.__name__}()"
            check(isinstance(value, group), field.name, describe(value), remedy)
        # Frozen dataclasses have no other way.
        object.__setattr__(options, field.name, plain(value))


def plain(given: Any) -> Any:
    """Returns Python's value for a number of NumPy or JAX, and for each number of a container.

    Lists become tuples.
    """
    if isinstance(given, list | tuple) and not hasattr(given, "_fields"):
        return tuple(map(plain, given))
    value: Any = given
    if isinstance(value, dict):
        return {key: plain(x) for key, x in value.items()}
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        try:
            return value.item()
        except (TypeError, NotImplementedError):
            return value  # A traced array, or a key, has no value; the option's check refuses it.
    if is_whole(value):
        return int(value)
    return float(value) if is_number(value) else value


MAX_COUNT = 2**31 - 1
"""The largest count, because arrays store counts as int32."""
MAX_NUMBER = (2 - 2**-23) * 2.0**127
"""The largest number, that of float32."""
# Python does not format numbers of some thousand digits.
_LONG = 10**40


def check_count(name: str, value: Any, minimum: int, none_means: str | None = None) -> None:
    """Checks that an option is a whole number from `minimum` to `MAX_COUNT`.

    Args:
      name: the name of the option.
      value: its value.
      minimum: the smallest valid number.
      none_means: if given, `None` is valid too; the text describes its meaning, as in "for all".

    Raises:
      ValueError: if it is not.
    """
    if value is None and none_means is not None:
        return
    remedy = f"at least {minimum}" if is_whole(value) else f"a whole number, at least {minimum}"
    if is_whole(value) and value > MAX_COUNT:
        remedy = f"at most {MAX_COUNT}"
    if none_means is not None:
        remedy += f", or none {none_means}"
    is_valid = is_whole(value) and minimum <= value <= MAX_COUNT
    check(is_valid, name, describe(value), remedy)


def check_even(name: str, value: Any) -> None:
    """Checks that an option is an even number, at least 2."""
    is_valid = is_whole(value) and 2 <= value <= MAX_COUNT and value % 2 == 0
    is_large = is_whole(value) and value > MAX_COUNT
    remedy = f"at most {MAX_COUNT}" if is_large else "even and at least 2"
    check(is_valid, name, describe(value), remedy)


def check_seed(seed: Any) -> None:
    """Checks a seed: `PRNGKey` uses 32 bits, so larger numbers would repeat seeds or overflow."""
    remedy = f"from 0 to {2**32 - 1}" if is_whole(seed) else f"a whole number from 0 to {2**32 - 1}"
    check(is_whole(seed) and 0 <= seed < 2**32, "seed", describe(seed), remedy)


def check_number(
    name: str,
    value: Any,
    is_in_range: Callable[[float], bool],
    remedy: str,
    none_means: str | None = None,
) -> None:
    """Checks that an option is a number, finite in float32, for which `is_in_range` is true.

    Args:
      name: the name of the option.
      value: its value.
      is_in_range: the range; a comparison that is true is false for NaN.
      remedy: the range in words, as in "positive and finite".
      none_means: as in `check_count`.

    Raises:
      ValueError: if it is not.
    """
    if value is None and none_means is not None:
        return
    is_valid = is_number(value) and -MAX_NUMBER <= value <= MAX_NUMBER and is_in_range(value)
    if not is_number(value):
        remedy = f"a number, {remedy}"
    elif MAX_NUMBER < value < math.inf:
        remedy = f"at most {MAX_NUMBER:.3g}"
    if none_means is not None:
        remedy += f", or none {none_means}"
    check(is_valid, name, describe(value), remedy)


def check_positive(options: object, *names: str, none_means: str | None = None) -> None:
    """Checks that the options of these names are positive and finite, see `check_number`."""
    for name in names:
        value = getattr(options, name)
        check_number(name, value, lambda x: x > 0, "positive and finite", none_means)


def check_not_negative(options: object, *names: str) -> None:
    """Checks that the options of these names are at least 0 and finite."""
    for name in names:
        value = getattr(options, name)
        check_number(name, value, lambda x: x >= 0, "at least 0 and finite")


def check_share(options: object, *names: str) -> None:
    """Checks that the options of these names are in [0, 1]."""
    for name in names:
        check_number(name, getattr(options, name), lambda x: 0 <= x <= 1, "between 0 and 1")


def check_defaults(options: Any, names: tuple[str, ...], remedy: str) -> None:
    """Checks that options have their defaults.

    Raises:
      ValueError: if one has another value; the message ends with the remedy.
    """
    for name in names:
        value = getattr(options, name)
        if value != getattr(type(options)(), name):
            raise UserError(f"{name} is {show(value)}; {remedy}")


def check_finite(value: Any, name: str) -> None:
    """Checks that all numbers in JSON values are finite, at any depth.

    Raises:
      UserError: if one is not; the message starts with the path to the number.
    """
    if isinstance(value, dict):
        for key, part in value.items():
            check_finite(part, f"{name}.{key}")
    elif isinstance(value, list):
        for part in value:
            check_finite(part, name)
    elif isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"{name} is {value}; it must be finite")


def check_norm(name: str, value: Any) -> None:
    """Checks the largest norm of gradients: positive; infinity disables clipping."""
    check(is_number(value) and value > 0, name, describe(value), "positive")


def check_choice(name: str, value: Any, choices: tuple[str, ...], others: str = "") -> None:
    """Checks that an option is one of some names; `others` describes further valid values."""
    remedy = f"one of {', '.join(choices)}" if len(choices) > 2 else " or ".join(choices)
    check(isinstance(value, str) and value in choices, name, show(value), remedy + others)


def check_flag(name: str, value: Any) -> None:
    """Checks that an argument is `True` or `False`; another value would count as one of them."""
    check(isinstance(value, bool), name, describe(value), "True or False")


def check_shape(name: str, shape: Any) -> tuple[int, ...]:
    """Checks the shape of an array, such as an observation; returns it as a tuple of integers.

    Raises:
      ValueError: if it is not a sequence of whole numbers, each at least 1.
    """
    sizes: list[Any] = list(shape) if isinstance(shape, list | tuple) else []
    is_valid = isinstance(shape, list | tuple) and all(is_whole(x) and x >= 1 for x in sizes)
    check(is_valid, name, describe(shape), "a tuple of whole numbers, each at least 1")
    return tuple(map(int, sizes))


def check_callable(name: str, value: Any, remedy: str) -> None:
    """Checks that a value is a function, or another object that can be called."""
    check(callable(value), name, describe(value), remedy)


def are_counts(value: Any) -> TypeGuard[tuple[int, ...]]:
    """Returns whether a value is a tuple of whole numbers, each at least 0."""
    return isinstance(value, tuple) and all(is_whole(x) and x >= 0 for x in value)


def is_whole(value: Any) -> TypeGuard[int]:
    """Returns whether a value is an integer of Python or NumPy; `True` and `False` are not."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_number(value: Any) -> TypeGuard[float]:
    """Returns whether a value is a real number of Python or NumPy; `True` and `False` are not."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def show(value: Any) -> str:
    """Formats the value of an option as on the command line."""
    if isinstance(value, dict):
        value = [x for entry in value.items() for x in entry]
    if isinstance(value, list | tuple):
        return " ".join(map(show, value)) or "empty"
    return value if isinstance(value, str) else describe(value)


def describe(value: Any) -> str:
    """Describes a value briefly: arrays, networks and functions have long texts."""
    if is_whole(value) and abs(value) >= _LONG:
        return f"a number of {int(value).bit_length()} bits"
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if is_number(value):
        return str(value)
    if isinstance(value, tuple):
        parts: list[Any] = list(value)
        is_short = all(x is None or isinstance(x, bool | int | float | str) for x in parts)
        return str(value) if is_short else f"of type {type(value).__name__}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"an array of {value.dtype} with the shape {list(value.shape)}"
    return f"of type {type(value).__name__}"
