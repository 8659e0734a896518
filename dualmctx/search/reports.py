"""Reports: intermediate results that rules and refinements hand to a recording of the search.

The functions of the search call `report` with arrays that they compute anyway. Without a collector,
which is the ordinary case, a report does nothing, and the compiled search is the same as without
it. A collector belongs to one thread. It takes reports only from the level of tracing on which it
was made: JAX may keep the trace of a loop, a condition or an inner `jax.jit` and use it again, so
nothing is collected inside these.
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
from jax.extend.core import get_opaque_trace_state

# The reports, and the level of tracing on which they are collected.
_collected: ContextVar[tuple[dict[str, Any], Any] | None] = ContextVar("collected", default=None)


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
    """Collects the reports of functions that are called inside the `with` block, by their names.

    A later report replaces an earlier one of the same name.
    """
    reports: dict[str, Any] = {}
    token = _collected.set((reports, get_opaque_trace_state()))
    try:
        yield reports
    finally:
        _collected.reset(token)


def is_collecting() -> bool:
    """Returns whether reports are collected; rules may then compute more than they need."""
    return _collector() is not None


def report(**values: Any) -> None:
    """Hands arrays to the collector; does nothing without one."""
    reports = _collector()
    if reports is not None:
        reports.update(values)


def _collector() -> dict[str, Any] | None:
    """Returns the reports of the collector on this level of tracing; `None` without one."""
    found = _collected.get()
    if found is None or found[1] != get_opaque_trace_state():
        return None
    return found[0]


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
