"""Reports: intermediate results that rules and refinements hand to a recording of the search.

The functions of the search call `report` with arrays that they compute anyway. Without a collector,
which is the ordinary case, a report does nothing, and the compiled search is the same as without
it. A collector belongs to one thread.
"""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import contextlib
import dataclasses
from collections.abc import Callable, Generator
from contextvars import ContextVar
from typing import Any

import jax
from jax import Array

_collected: ContextVar[dict[str, Any] | None] = ContextVar("collected", default=None)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Scores:
    """The scores of a rule at `[B]` nodes, taken apart.

    Attributes:
      addends: `[B, A]` each, or arrays that broadcast to it; their sum is the score up to rounding.
      score: `[B, A]`; the rule chooses the largest entry. -inf for actions that it excludes.
      names: a name for each addend.
      actions: `[B, A]` the action of each score; the index of the score if `None`.
    """

    addends: tuple[Array, ...]
    score: Array
    names: tuple[str, ...] = dataclasses.field(metadata={"static": True})
    actions: Array | None = None


@contextlib.contextmanager
def collect_reports() -> Generator[dict[str, Any]]:
    """Collects the reports of functions that JAX traces inside the `with` block, by their names.

    A later report replaces an earlier one of the same name.
    """
    reports: dict[str, Any] = {}
    token = _collected.set(reports)
    try:
        yield reports
    finally:
        _collected.reset(token)


def is_collecting() -> bool:
    """Returns whether reports are collected; rules may then compute more than they need."""
    return _collected.get() is not None


def report(**values: Any) -> None:
    """Hands arrays to the collector; does nothing without one."""
    reports = _collected.get()
    if reports is not None:
        reports.update(values)


def run_if(is_needed: Array, function: Callable[[Array], Array], default: Array) -> Array:
    """Returns `function(default)` if a scalar is true, otherwise `default`.

    The function must return `default` itself where the scalar is false. A collector needs the
    reports of the function, which cannot leave a condition, so the function then always runs.
    """
    if is_collecting():
        return function(default)

    def skip(default: Array) -> Array:
        return default

    return jax.lax.cond(is_needed, function, skip, default)
