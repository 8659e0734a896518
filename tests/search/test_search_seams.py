"""The seams of recordings leave nothing in the traces that JAX keeps for ordinary searches."""

import threading
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from dualmctx.search.loops import replace_loops, replaced_loops
from dualmctx.search.reports import collect_reports, is_collecting, report, run_if


def test_reports_of_inner_traces_are_ignored() -> None:
    def rule(x: Any) -> Any:
        report(inner=x)
        return x + is_collecting()

    def outer(x: Any) -> Any:
        with collect_reports() as reports:
            report(outer=x)
            inner = jax.jit(rule)(x), jax.lax.cond(x > 0, rule, rule, x)
        assert set(reports) == {"outer"}
        return *inner, rule(x)

    assert [float(x) for x in jax.jit(outer)(1.0)] == [1, 1, 1]


def test_trace_with_a_collector_serves_ordinary_calls() -> None:
    """The function doubles on a condition, which a collector would remove from its trace."""
    double = jax.jit(lambda is_needed, x: run_if(is_needed, lambda y: 2 * y, x))
    with collect_reports():
        assert float(double(jnp.bool_(1), 3.0)) == 6
    assert float(double(jnp.bool_(0), 3.0)) == 3


def test_search_in_an_inner_jit_is_refused_and_stays_intact() -> None:
    def search(x: Any) -> Any:
        loops: Any = replaced_loops()
        return x + 1 if loops is None else loops(x)

    inner = jax.jit(search)

    def take_place(arguments: Any) -> Any:
        return arguments

    with replace_loops(take_place):
        with pytest.raises(ValueError, match=r"runs its search inside jax\.jit"):
            inner(4)
        assert search(4) == 4
    assert inner(4) == 5


def test_seams_belong_to_one_thread() -> None:
    seen: list[Any] = []
    with collect_reports(), replace_loops(lambda arguments: arguments.tree):
        thread = threading.Thread(target=lambda: seen.extend((is_collecting(), replaced_loops())))
        thread.start()
        thread.join()
        assert is_collecting()
    assert seen == [False, None]
