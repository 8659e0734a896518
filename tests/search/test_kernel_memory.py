"""The kernels' use of memory: bounds, barriers and conflicts, by an emulator of one program.

An interpreted kernel drops writes out of bounds and needs no barriers, so it cannot show these
faults. The emulator runs the programs one after the other, operation by operation. The threads of a
program share its memory: what one thread has written, the others may read only after a barrier.
"""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas
from jax.experimental.pallas import triton

from dualmctx import with_options
from dualmctx.search import backup
from dualmctx.search.gpu import launch
from dualmctx.search.gpu.references import TreeRef
from oracle.cases import RULES, assert_same
from test_kernels import build, make_search

pytestmark = pytest.mark.slow
NUM_TREES, SIMULATIONS = 2, 2


@dataclasses.dataclass
class Memory:
    """An array in memory, of which each program may use one part."""

    values: np.ndarray
    part: slice
    written: set[int] = dataclasses.field(default_factory=set[int])

    @property
    def dtype(self) -> Any:
        return self.values.dtype

    @property
    def at(self) -> "Memory":
        return self

    def __getitem__(self, position: Any) -> "Place":
        return Place(self, np.asarray(position))


class Place(NamedTuple):
    memory: Memory
    position: np.ndarray

    def allowed(self, mask: Any) -> np.ndarray:
        """Returns the mask of the accesses, all of which are inside the program's part."""
        mask = np.broadcast_to(True if mask is None else np.asarray(mask), self.position.shape)
        used = self.position[mask]
        part = self.memory.part
        assert ((used >= part.start) & (used < part.stop)).all(), "access outside of the tree"
        return mask


class Emulator:
    """Runs kernels in place of `launch`."""

    def __init__(self) -> None:
        self.program, self.num_launches, self.memories = 0, 0, list[Memory]()

    def load(self, place: Place, *, mask: Any = None, other: Any = None) -> jax.Array:
        memory, position = place
        mask = place.allowed(mask)
        stale = memory.written.intersection(position[mask].ravel().tolist())
        assert not stale, "read of what the program wrote, without a barrier"
        safe = np.clip(position, 0, memory.values.size - 1)
        values = np.where(mask, memory.values[safe], 0 if other is None else other)
        return jnp.asarray(values.astype(memory.dtype))

    def store(self, place: Place, value: Any, *, mask: Any = None) -> None:
        memory, position = place
        mask = place.allowed(mask)
        used, values = position[mask], np.broadcast_to(np.asarray(value), position.shape)[mask]
        for where in np.unique(used):
            same = values[used == where]
            assert (same == same[0]).all(), "threads write different values to one place"
        memory.values[used] = values
        memory.written.update(used.ravel().tolist())

    def barrier(self) -> None:
        for memory in self.memories:
            memory.written.clear()

    def launch(
        self, function: Any, read: Any, rows: Any, updated: Any, outputs: Any, **_: Any
    ) -> tuple[Any, Any]:
        self.num_launches += 1
        new: Any = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), outputs)
        arrays = [jax.tree.leaves(x) for x in (read, rows, updated, new)]
        structures = [jax.tree.structure(x) for x in (read, rows, updated, new)]
        flat = [[np.array(x).reshape(-1) for x in some] for some in arrays]
        for self.program in range(NUM_TREES):
            refs = [
                [self.refer(x, y, is_row=group in (1, 3)) for x, y in zip(*pair, strict=True)]
                for group, pair in enumerate(zip(flat, arrays, strict=True))
            ]
            refs[1] = [ref.gather(0) for ref in refs[1]]
            inputs = [jax.tree.unflatten(structures[i], refs[i]) for i in range(3)]
            found = jax.tree.leaves(function(*inputs))
            for ref, value in zip(refs[3], found, strict=True):
                ref.scatter(0, value)
        shaped = [
            [jnp.asarray(x.reshape(np.shape(y))) for x, y in zip(*pair, strict=True)]
            for pair in zip(flat, arrays, strict=True)
        ]
        return tuple(jax.tree.unflatten(structures[i], shaped[i]) for i in (2, 3))

    def refer(self, values: np.ndarray, array: Any, *, is_row: bool) -> TreeRef:
        shape = np.shape(array)
        if not shape:
            start, own, size = 0, (1, 1), 1
        else:
            own = (1, *shape[1:]) if is_row else shape[1:]
            size = math.prod(own)
            start = self.program * size
        memory = Memory(values, slice(start, start + size))
        self.memories.append(memory)
        return TreeRef(memory, jnp.int32(start), (1, *own) if shape else own)


@pytest.fixture
def emulator(monkeypatch: pytest.MonkeyPatch) -> Iterator[Emulator]:
    found = Emulator()
    monkeypatch.setattr(launch, "launch", found.launch)
    monkeypatch.setattr(triton, "load", found.load)
    monkeypatch.setattr(triton, "store", found.store)
    monkeypatch.setattr(triton, "debug_barrier", found.barrier)
    monkeypatch.setattr(pallas, "program_id", lambda _: jnp.int32(found.program))
    with jax.disable_jit():
        yield found


def searches(row: str, *modes: Any) -> list[Any]:
    """Returns searches with few simulations, because the emulator is slow."""
    few = {"num_simulations": SIMULATIONS}
    if row.startswith("dual"):
        few = {"num_simulations": (SIMULATIONS - 1, 1), "num_rounds": 1}
    policies = [with_options(build(row), **few, kernels=mode) for mode in modes]
    return [make_search(policy, batch=NUM_TREES) for policy in policies]


# Each kernel with each kind of statistic and of rule. All trees have the same shapes, as each
# operation compiles for each shape.
@pytest.mark.parametrize(
    "row",
    [
        "alphazero, minimax and rave, window",
        "alphazero, lost leaves",
        "contempt, window, calm",
        "gumbel",
        "dual, window",
    ],
)
def test_kernels_stay_in_their_trees_and_wait_for_their_writes(
    row: str, emulator: Emulator
) -> None:
    rules = RULES["same player twice"]
    kernels, loops = searches(row, "interpret", "off")
    actual = kernels(rules, 1)
    assert emulator.num_launches > 0
    # Guards the emulator. The trees of all kernels are compared in test_kernels.py.
    if row == "dual, window":
        with jax.disable_jit(False):
            assert_same(actual, loops(rules, 1))


MINIMAX = "alphazero, minimax, calm"


def test_the_emulator_finds_a_missing_barrier(
    emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(triton, "debug_barrier", lambda: None)
    [search] = searches(MINIMAX, "interpret")
    with pytest.raises(AssertionError, match="without a barrier"):
        search(RULES["plain"], 1)


def test_the_emulator_finds_a_write_to_another_tree(
    emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    scatter_pair = backup.scatter_pair

    def beyond(array: Any, index: Any, *values: Any) -> Any:
        return scatter_pair(array, index + 1000, *values)

    [search] = searches(MINIMAX, "interpret")
    monkeypatch.setattr(backup, "scatter_pair", beyond)
    with pytest.raises(AssertionError, match="outside of the tree"):
        search(RULES["plain"], 1)
