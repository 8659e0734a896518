"""A dropped search is freed, and its memory is given back."""

from types import SimpleNamespace
from typing import Any

import jax
import pytest

from dualmctx.evaluation import compiled_searches
from dualmctx.evaluation.compiled_searches import CompiledSearches, SearchLoader
from dualmctx.evaluation.tasks import Program
from dualmctx.policies import AlphaZero, MuZero, with_options
from untrained import make_untrained


def use(searches: CompiledSearches, policy: Any, *, deepens: bool = True) -> None:
    """Makes room for a search and compiles it."""
    program = Program(policy, deepens=deepens)
    task: Any = SimpleNamespace(request=SimpleNamespace(priority=0))
    assert searches.make_room(program, {program: [task]})
    searches.use(program)


def test_memory_is_released_after_each_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    released: list[None] = []
    monkeypatch.setattr(compiled_searches, "release_memory", lambda: released.append(None))
    load: Any = lambda program: object()  # noqa: E731
    searches = CompiledSearches(load, 2)
    for number in (1, 2, 1, 2, 3):
        use(searches, AlphaZero(number))
    assert (len(released), len(searches)) == (3, 2)


@pytest.mark.slow
def test_compiled_programs_of_dropped_searches_are_freed() -> None:
    """JAX counts the programs that are alive, whose number does not grow."""
    loader = SearchLoader(make_untrained("hsr"), 2, 4, 2**20, devices=1)
    searches, counts = CompiledSearches(loader.load, 1), []
    for value in (1.0, 1.1):
        deepening = with_options(AlphaZero(2).for_evaluation(), c_puct=value)
        use(searches, deepening, deepens=True)
        use(searches, with_options(MuZero(2).for_evaluation(), pb_c_init=value), deepens=False)
        counts.append(len(jax.devices()[0].client.live_executables()))
    assert counts[1] == counts[0]
