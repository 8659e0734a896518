"""Whether a training run fits into the memory of its device, known before it starts."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from dualmctx.models.search_memory import SearchMemory, allocated, num_bytes
from dualmctx.training.learner import compute_losses
from dualmctx.types import Params, PolicyValueNetwork

_GIB = 2**30
# What Linux says of the machine's memory, and of the share of it that this container has.
_MEMINFO, _CGROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")
# Of both versions of control groups: the files of the limit and of what is used of it, and where
# they say how much of that are caches that Linux would give up.
_GROUP_FILES = (
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    (
        "memory/memory.limit_in_bytes",
        "memory/memory.usage_in_bytes",
        "memory/memory.stat",
        "total_inactive_file",
    ),
)


@dataclasses.dataclass(frozen=True)
class TrainingMemory:
    """What a training run holds, in bytes.

    Attributes:
      search: the search of self-play.
      state: parameters, optimiser, replay buffer and games.
      replay: of these, the replay buffer.
      positions: the positions of an iteration, before and after they become samples.
      gradient: an optimiser step.
      evals: the search of an exam.
    """

    search: SearchMemory
    state: int
    replay: int
    positions: int
    gradient: int
    evals: int = 0

    @property
    def total(self) -> int:
        """The most that is held at once: self-play, learning and exams take turns."""
        return self.state + max(self.search.total + self.positions, self.gradient, self.evals)


def training_memory(
    search: SearchMemory,
    network: PolicyValueNetwork,
    state: Any,
    *,
    batch_size: int,
    num_added: int,
    evals: int = 0,
) -> TrainingMemory:
    """Predicts what a training run holds; compiles the gradient for one batch, in a second or so.

    Args:
      search: the search of self-play.
      network: a `dualmctx.models.network.Network`.
      state: shapes of a `TrainState`, or of a device's share of it, as all numbers are then.
      batch_size: positions an optimiser step.
      num_added: positions an iteration.
      evals: bytes of an exam's search.

    Returns:
      The parts and their sum.
    """
    experience = state.buffer_state.experience
    samples = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct((batch_size, *x.shape[2:]), x.dtype), experience
    )
    num_rows, length = jax.tree.leaves(experience)[0].shape[:2]

    def loss(params: Params, samples: Any) -> Any:
        losses = compute_losses(network, params, samples)
        return jnp.sum(losses.policy + losses.value)

    replay = num_bytes(state.buffer_state)
    return TrainingMemory(
        search=search,
        state=num_bytes(state),
        replay=replay,
        positions=2 * replay * num_added // (num_rows * length),
        gradient=allocated(jax.jit(jax.grad(loss)).trace(state.params, samples)),
        evals=evals,
    )


def free_memory(*, meminfo: Path = _MEMINFO, cgroup: Path = _CGROUP) -> int | None:
    """Returns the bytes that a device has left, or `None` if that cannot be known.

    A CPU's devices, of which there is more than one for trials only, share what it has: what Linux
    has, or what is left of the limit that a container sets, whichever is less.

    Args:
      meminfo: Linux's file of the machine's memory.
      cgroup: the folder of this process's control group, of either version.
    """
    devices = jax.local_devices()
    device = devices[0]
    report = device.memory_stats() or {}
    if "bytes_limit" in report:
        return report["bytes_limit"] - report.get("bytes_in_use", 0)
    if device.platform != "cpu":
        return None
    # Free memory as Linux counts it, with the caches that it would give up.
    available = _field(meminfo, "MemAvailable:")
    left = [None if available is None else 1024 * available]
    for limit, usage, caches, cache in _GROUP_FILES:
        most, used = _number(cgroup / limit), _number(cgroup / usage)
        if most is not None and used is not None:
            left.append(most - used + (_field(cgroup / caches, cache) or 0))
    known = [max(x, 0) for x in left if x is not None]
    return min(known) // len(devices) if known else None


def _number(file: Path) -> int | None:
    """Returns the number that a file holds; `None` if there is none, as in "max"."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None


def _field(file: Path, name: str) -> int | None:
    """Returns the number after a name that begins a line of a file; `None` if there is none."""
    try:
        rows = (line.split() for line in file.read_text().splitlines())
        return next((int(row[1]) for row in rows if row[:1] == [name]), None)
    except (OSError, ValueError, IndexError):
        return None


def require_memory(
    memory: TrainingMemory,
    limit: int | None,
    *,
    is_asked_for: bool,
    num_devices: int = 1,
    savings: Sequence[str] = (),
) -> None:
    """Refuses a run that does not fit.

    Args:
      memory: what it needs of each device.
      limit: bytes there are of each; `None` where that is not known, and nothing is refused.
      is_asked_for: whether the limit is the user's own, not what is free.
      num_devices: how many share the games evenly.
      savings: flags that this run could have to take less, besides smaller numbers.

    Raises:
      ValueError: when the run does not fit, in one line with the need, the limit and the remedy.
    """
    if limit is None or memory.total <= limit:
        return
    there = f"--memory-limit is {readable(limit)}"
    there = there if is_asked_for else f"{readable(limit)} are free"
    search = memory.search
    each = f" of each of {num_devices} devices" if num_devices > 1 else ""
    raise ValueError(
        f"a search of {search.batch_size:,} games with {search.num_nodes:,} nodes each needs "
        f"{readable(search.total)}{each}, the whole run {readable(memory.total)}, and {there}; use "
        f"{_remedy(memory, limit, num_devices, savings)}"
    )


def _remedy(memory: TrainingMemory, limit: int, num_devices: int, savings: Sequence[str]) -> str:
    """Says what makes a run fit."""
    if memory.state + memory.gradient > limit:
        return "a smaller --learner.capacity, --learner.batch-size or --network.width"
    if memory.state + memory.evals > limit:
        return "a smaller --evals.num-games or --evals.batch-size, or fewer simulations"
    room = limit - memory.state
    num_games = memory.search.batch_size * room // (memory.search.total + memory.positions)
    parts = []
    if num_games >= 1:
        # A power of two is a round number for a batch, and the flag is for all devices.
        fitting = num_devices * 2 ** (num_games.bit_length() - 1)
        parts.append(f"--selfplay.num-games {fitting}")
    parts += ["fewer simulations", *savings]
    return ", ".join(parts[:-1]) + " or " + parts[-1] if len(parts) > 1 else parts[0]


def require_batch_memory(
    batch_size: int, needed: int, limit: int | None, *, has_search: bool = True
) -> None:
    """Refuses a batch of positions to evaluate that does not fit.

    Args:
      batch_size: positions that a device evaluates at once.
      needed: bytes that it takes.
      limit: bytes there are; `None` where that is not known, and nothing is refused.
      has_search: whether fewer simulations would take less.

    Raises:
      ValueError: when the batch does not fit, in one line with the need, the limit and the remedy.
    """
    if limit is None or needed <= limit:
        return
    fitting = batch_size * limit // needed
    remedies = [f"a smaller --batch, such as {2 ** (fitting.bit_length() - 1)}"] * bool(fitting)
    remedies += ["fewer --simulations"] * has_search
    raise ValueError(
        f"a batch of {batch_size:,} positions needs {readable(needed)} of a device, and "
        f"{readable(limit)} are free; use {', or '.join(remedies) or 'another device'}"
    )


def describe_memory(memory: TrainingMemory) -> str:
    """Describes in a line what a run needs."""
    parts = {
        "search": memory.search.total,
        "learning": memory.gradient,
        "replay": memory.replay,
        "evals": memory.evals,
    }
    described = ", ".join(f"{name} {readable(size)}" for name, size in parts.items())
    return f"memory: {readable(memory.total)} at most ({described})"


def readable(size: int) -> str:
    """Writes a number of bytes in MiB or GiB."""
    return f"{size / _GIB:,.1f} GiB" if size >= _GIB else f"{size / 2**20:,.1f} MiB"
