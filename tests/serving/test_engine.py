"""Compiled searches: one that does not fit is an error, and a dropped one is freed."""

import gc
import os
from types import SimpleNamespace
from typing import Any

import jax
import pytest

from dualmctx.errors import UserError
from dualmctx.policies import AlphaZero, with_options
from dualmctx.serving import engine
from dualmctx.serving.engine import EngineOptions, compile_search
from dualmctx.serving.scheduler import CompiledSearches, Setup
from dualmctx.serving.tasks import Planner, Program
from separate_process import call_with_flags
from untrained import make_untrained, predict_nothing


def test_search_without_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **options: Any) -> Any:
        raise MemoryError("no room for\nthe trees")

    monkeypatch.setattr(engine, "choose_pool_size", fail)
    trained: Any = None
    with pytest.raises(UserError, match=r"^no room for$"):
        compile_search(trained, Program(AlphaZero(), deepens=True), EngineOptions())


def check_programs() -> None:
    """JAX counts the programs that are alive, whose number does not grow."""
    predict_nothing(setattr)
    trained, options = make_untrained("nim"), EngineOptions(2, 4, 2**20, max_programs=1)
    planner = Planner(lambda variant: AlphaZero(), options)
    setup = Setup(planner, lambda program: compile_search(trained, program, options), {})
    searches, counts = CompiledSearches(setup), []
    task: Any = SimpleNamespace(request=SimpleNamespace(priority=0))
    for value in (1.0, 1.1, 1.2, 1.1, 1.2):
        policy = with_options(AlphaZero(2).for_evaluation(), c_puct=value)
        program = Program(policy, deepens=value == 1.1)
        assert searches.make_room(program, {program: [task]})
        searches.use(program)
        gc.collect()
        counts.append(len(jax.devices()[0].client.live_executables()))
    # The first two programs compile small operations that stay.
    assert counts[4] == counts[2]


@pytest.mark.slow
def test_compiled_programs_of_dropped_searches_are_freed() -> None:
    """In a process of its own, because the threads of other tests compile and drop programs."""
    call_with_flags(check_programs, os.environ["XLA_FLAGS"])
