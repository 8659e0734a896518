"""Bad options are refused when a policy is built, in a line with name, value and remedy."""

import math
import numbers
from typing import Any, Protocol, TypeGuard


def check(is_right: bool, name: str, value: Any, remedy: str) -> None:
    """Raises a one-line `ValueError` unless an option is right."""
    if not is_right:
        raise ValueError(f"{name} is {value}; it must be {remedy}")


MOST = 2**31 - 1
"""The largest count, as arrays hold them in 32 bits."""


def check_count(name: str, value: Any, least: int, without: str | None = None) -> None:
    """Refuses what is not a whole number of at least `least` that fits into 32 bits.

    With `without`, `None` is right too; the text says what it stands for.
    """
    if value is None and without is not None:
        return
    remedy = f"at least {least}" if is_whole(value) else f"a whole number, at least {least}"
    if is_whole(value) and value > MOST:
        remedy = f"at most {MOST}"
    if without is not None:
        remedy += f", or none {without}"
    check(is_whole(value) and least <= value <= MOST, name, value, remedy)


def check_positive(options: object, *names: str) -> None:
    """Refuses options of these names that are not positive and finite."""
    for name in names:
        value = getattr(options, name)
        check(0 < value < math.inf, name, value, "positive and finite")


def check_not_negative(options: object, *names: str) -> None:
    """Refuses options of these names that are negative or not finite."""
    for name in names:
        value = getattr(options, name)
        check(0 <= value < math.inf, name, value, "at least 0 and finite")


def check_share(options: object, *names: str) -> None:
    """Refuses options of these names that are not in [0, 1]."""
    for name in names:
        value = getattr(options, name)
        check(0 <= value <= 1, name, value, "between 0 and 1")


def are_counts(value: Any) -> TypeGuard[tuple[int, ...]]:
    """Tells whether a value is a tuple of whole numbers of at least 0."""
    return isinstance(value, tuple) and all(is_whole(x) and x >= 0 for x in value)


def is_whole(value: Any) -> TypeGuard[int]:
    """Tells whether a value is a whole number, NumPy's too."""
    return isinstance(value, numbers.Integral)


def show(value: Any) -> str:
    """Returns an option's value as one would write it on a command line."""
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


class OneTree(Protocol):
    """The budget of the policies that grow one tree."""

    @property
    def num_simulations(self) -> int:
        """Simulations a search."""
        ...

    @property
    def reuse_capacity(self) -> int:
        """Room for nodes of the last move's tree."""
        ...


def check_budget(options: OneTree) -> None:
    """Refuses a policy of one tree without simulations, or with a negative room."""
    check_count("num_simulations", options.num_simulations, 1)
    check_count("reuse_capacity", options.reuse_capacity, 0)
