"""Whether a training run fits into the memory of its device, known before it starts."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from dualmctx.learner import compute_losses
from dualmctx.memory import SearchMemory, allocated, num_bytes
from dualmctx.types import Params

_GIB = 2**30


@dataclasses.dataclass(frozen=True)
class TrainingMemory:
    """What a training run holds, in bytes.

    Attributes:
      search: the search of self-play.
      state: parameters, optimiser, replay buffer and games.
      replay: of these, the replay buffer.
      positions: the positions of an iteration, before and after they become samples.
      gradient: an optimiser step.
      exam: the search of an exam.
    """

    search: SearchMemory
    state: int
    replay: int
    positions: int
    gradient: int
    exam: int = 0

    @property
    def total(self) -> int:
        """The most that is held at once: self-play, learning and exams take turns."""
        return self.state + max(self.search.total + self.positions, self.gradient, self.exam)


def training_memory(
    search: SearchMemory,
    network: Any,
    state: Any,
    *,
    batch_size: int,
    num_added: int,
    exam: int = 0,
) -> TrainingMemory:
    """Predicts what a training run holds; compiles the gradient for one batch, in a second or so.

    Args:
      search: the search of self-play.
      network: a `dualmctx.network.Network`.
      state: shapes of a `TrainState`, or of a device's share of it, as all numbers are then.
      batch_size: positions an optimiser step.
      num_added: positions an iteration.
      exam: bytes of an exam's search.

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
        exam=exam,
    )


def free_memory() -> int | None:
    """Returns the bytes that a device has left, or `None` if that cannot be known.

    A CPU's devices, of which there is more than one for trials only, share what it has.
    """
    devices = jax.local_devices()
    device = devices[0]
    report = device.memory_stats() or {}
    if "bytes_limit" in report:
        return report["bytes_limit"] - report.get("bytes_in_use", 0)
    try:
        # Free memory as Linux counts it, with the caches that it would give up.
        lines = Path("/proc/meminfo").read_text().splitlines()
        fields = dict(line.split(":", 1) for line in lines)
        if device.platform != "cpu":
            return None
        return 1024 * int(fields["MemAvailable"].split()[0]) // len(devices)
    except (OSError, KeyError):
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
    if memory.state + memory.exam > limit:
        return "a smaller --exams.num-games or --exams.batch-size, or fewer simulations"
    room = limit - memory.state
    num_games = memory.search.batch_size * room // (memory.search.total + memory.positions)
    parts = []
    if num_games >= 1:
        # A power of two is a round number for a batch, and the flag is for all devices.
        fitting = num_devices * 2 ** (num_games.bit_length() - 1)
        parts.append(f"--selfplay.num-games {fitting}")
    parts += ["fewer simulations", *savings]
    return ", ".join(parts[:-1]) + " or " + parts[-1] if len(parts) > 1 else parts[0]


def require_batch_memory(batch_size: int, needed: int, limit: int | None) -> None:
    """Refuses a batch of positions to evaluate that does not fit.

    Args:
      batch_size: positions that a device evaluates at once.
      needed: bytes that it takes.
      limit: bytes there are; `None` where that is not known, and nothing is refused.

    Raises:
      ValueError: when the batch does not fit, in one line with the need, the limit and the remedy.
    """
    if limit is None or needed <= limit:
        return
    fitting = batch_size * limit // needed
    smaller = f"a smaller --batch, such as {2 ** (fitting.bit_length() - 1)}, or "
    raise ValueError(
        f"a batch of {batch_size:,} positions needs {readable(needed)} of a device, and "
        f"{readable(limit)} are free; use {smaller if fitting else ''}fewer --simulations"
    )


def describe_memory(memory: TrainingMemory) -> str:
    """Describes in a line what a run needs."""
    parts = {
        "search": memory.search.total,
        "learning": memory.gradient,
        "replay": memory.replay,
        "exams": memory.exam,
    }
    described = ", ".join(f"{name} {readable(size)}" for name, size in parts.items())
    return f"memory: {readable(memory.total)} at most ({described})"


def readable(size: int) -> str:
    """Writes a number of bytes in MiB or GiB."""
    return f"{size / _GIB:,.1f} GiB" if size >= _GIB else f"{size / 2**20:,.1f} MiB"
