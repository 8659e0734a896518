"""Checks of options: the error for a bad option has its name, its value and the remedy."""

import math
import numbers
from typing import Any, Protocol, TypeGuard

from dualmctx.errors import UserError


def check(is_valid: bool, name: str, value: Any, remedy: str) -> None:
    """Checks an option.

    Raises:
      ValueError: if `is_valid` is false; the message has the name, the value and the remedy.
    """
    if not is_valid:
        raise UserError(f"{name} is {value}; it must be {remedy}")


MAX_COUNT = 2**31 - 1
"""The largest count, because arrays store counts as int32."""


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
    check(is_whole(value) and minimum <= value <= MAX_COUNT, name, value, remedy)


def check_positive(options: object, *names: str) -> None:
    """Checks that the options of these names are positive and finite."""
    for name in names:
        value = getattr(options, name)
        check(0 < value < math.inf, name, value, "positive and finite")


def check_not_negative(options: object, *names: str) -> None:
    """Checks that the options of these names are at least 0 and finite."""
    for name in names:
        value = getattr(options, name)
        check(0 <= value < math.inf, name, value, "at least 0 and finite")


def check_share(options: object, *names: str) -> None:
    """Checks that the options of these names are in [0, 1]."""
    for name in names:
        value = getattr(options, name)
        check(0 <= value <= 1, name, value, "between 0 and 1")


def are_counts(value: Any) -> TypeGuard[tuple[int, ...]]:
    """Returns whether a value is a tuple of whole numbers, each at least 0."""
    return isinstance(value, tuple) and all(is_whole(x) and x >= 0 for x in value)


def is_whole(value: Any) -> TypeGuard[int]:
    """Returns whether a value is an integer of Python or NumPy."""
    return isinstance(value, numbers.Integral)


def show(value: Any) -> str:
    """Formats the value of an option as on the command line."""
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


class SingleTreeBudget(Protocol):
    """The budget of a policy with one tree."""

    @property
    def num_simulations(self) -> int:
        """Simulations per search."""
        ...

    @property
    def reuse_capacity(self) -> int:
        """Nodes reused from the previous move's tree, not counting the root."""
        ...


def check_budget(options: SingleTreeBudget) -> None:
    """Checks that there is at least one simulation, and that the reuse capacity is at least 0."""
    check_count("num_simulations", options.num_simulations, 1)
    check_count("reuse_capacity", options.reuse_capacity, 0)
