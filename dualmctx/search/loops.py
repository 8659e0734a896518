"""Lets a recording replace the loops of a search.

A policy sets up its trees, calls `simulate.search` or `rounds.run_rounds`, and computes its output
from the result. Inside `replace_loops`, these two functions hand their arguments to another
function. A recording thus runs the policy's own setup and output, and the engine's own steps one by
one.
"""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import contextlib
from collections.abc import Callable, Generator
from contextvars import ContextVar
from typing import Any, NamedTuple

from jax import Array
from jax.extend.core import get_opaque_trace_state

from dualmctx.errors import UserError
from dualmctx.search.tree import Tree
from dualmctx.types import Params


class LoopArguments(NamedTuple):
    """The arguments of `run_rounds`. Those of `search` are a single round of one tree.

    Attributes:
      params: passed on to the evaluations.
      rng_key: the key of the loops.
      tree: trees that hold their roots.
      spec: the simulations of the first tree, a `SearchSpec`.
      refinements: a `Refinement` for each later tree.
      rounds: the simulations of each tree, for each round.
      first_slot: this slot and all later ones are empty.
    """

    params: Params
    rng_key: Array
    tree: Tree
    spec: Any
    refinements: tuple[Any, ...]
    rounds: tuple[tuple[int, ...], ...]
    first_slot: int


Loops = Callable[[LoopArguments], Tree]
# The function, and the level of tracing on which it takes the place of the loops.
_loops: ContextVar[tuple[Loops, Any] | None] = ContextVar("loops", default=None)


@contextlib.contextmanager
def replace_loops(loops: Loops) -> Generator[None]:
    """Replaces the loops of searches that this thread traces or runs inside the `with` block."""
    token = _loops.set((loops, get_opaque_trace_state()))
    try:
        yield
    finally:
        _loops.reset(token)


def replaced_loops() -> Loops | None:
    """Returns the function that takes the place of the loops; `None` in ordinary searches.

    Raises:
      ValueError: if the search runs inside a `jax.jit`, a loop or a condition of its own, whose
        trace JAX would keep and use for ordinary searches too.
    """
    found = _loops.get()
    if found is None:
        return None
    if found[1] != get_opaque_trace_state():
        raise UserError(
            "the policy runs its search inside jax.jit or another transformation of JAX; to be"
            " recorded, it must call the search directly"
        )
    return found[0]
