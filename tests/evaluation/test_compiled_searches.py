"""The number of compiled searches is bounded, and a dropped one is freed."""

import weakref
from typing import Any

import jax
import pytest

from dualmctx.evaluation import compiled_searches
from dualmctx.evaluation.compiled_searches import CompiledSearches, SearchLoader
from dualmctx.evaluation.tasks import Program
from dualmctx.policies import AlphaZero, MuZero, with_options
from untrained import make_untrained

NUM_KEPT = 3


class Search:
    """A compiled search that refers to itself, as jitted functions do."""

    def __init__(self) -> None:
        self.itself = self


class Kept:
    """Searches in use, and those that are alive, by the number of simulations of the program."""

    def __init__(self, max_programs: int) -> None:
        self.alive: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self.searches = CompiledSearches(self.load, max_programs)

    def load(self, program: Program) -> Any:
        search = Search()
        self.alive[program_number(program)] = search
        return search

    def use(self, number: int) -> None:
        program = Program(AlphaZero(number), deepens=True)
        assert self.searches.make_room(program, {program: [Task()]})  # type: ignore[dict-item,list-item]
        self.searches.use(program)


class Task:
    """A task with a priority and nothing else."""

    class request:
        priority = 0


def program_number(program: Program) -> int:
    number = program.policy.num_simulations
    assert isinstance(number, int)
    return number


def test_memory_is_released_after_each_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    released: list[None] = []
    monkeypatch.setattr(compiled_searches, "release_memory", lambda: released.append(None))
    kept = Kept(NUM_KEPT)
    for number in (1, 2, 1, 2, 3):
        kept.use(number)
    assert len(released) == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "deepens", "option"),
    [(MuZero(2), False, "pb_c_init"), (AlphaZero(2), True, "c_puct")],
)
def test_compiled_programs_of_dropped_searches_are_freed(
    policy: Any, *, deepens: bool, option: str
) -> None:
    """JAX counts the programs that are alive, whose number does not grow."""
    trained = make_untrained("hsr")
    loader = SearchLoader(trained, 2, 4, 2**20, devices=1)
    searches = CompiledSearches(loader.load, 1)
    counts = []
    for value in (1.0, 1.1, 1.2):
        chosen = with_options(policy.for_evaluation(), **{option: value})
        program = Program(chosen, deepens=deepens)
        searches.make_room(program, {program: [Task()]})  # type: ignore[dict-item,list-item]
        searches.use(program)
        counts.append(len(jax.devices()[0].client.live_executables()))
    assert counts[2] == counts[1]
