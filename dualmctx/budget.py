"""Whether a training run fits into the memory of its device, known before it starts."""

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from dualmctx.learner import compute_losses
from dualmctx.memory import SearchMemory, allocated, num_bytes
from dualmctx.types import Params

_GIB = 2**30
# Beyond this many actions, few of them are legal in the games here.
_MANY_ACTIONS = 512


@dataclasses.dataclass(frozen=True)
class TrainingMemory:
    """What a training run holds, in bytes.

    Attributes:
      search: the search of self-play.
      state: parameters, optimiser, replay buffer and games.
      replay: of these, the replay buffer.
      positions: the positions of an iteration, before and after they become samples.
      gradient: an optimiser step.
    """

    search: SearchMemory
    state: int
    replay: int
    positions: int
    gradient: int

    @property
    def total(self) -> int:
        """The most that is held at once: self-play and learning take turns."""
        return self.state + max(self.search.total + self.positions, self.gradient)


def training_memory(
    search: SearchMemory, network: Any, state: Any, *, batch_size: int, num_added: int
) -> TrainingMemory:
    """Predicts what a training run holds; compiles the gradient for one batch, in a second or so.

    Args:
      search: the search of self-play.
      network: a `dualmctx.network.Network`.
      state: shapes of a `TrainState`.
      batch_size: positions an optimiser step.
      num_added: positions an iteration.

    Returns:
      The parts and their sum.
    """
    experience = state.buffer_state.experience
    samples = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct((batch_size, *x.shape[2:]), x.dtype), experience
    )
    capacity = jax.tree.leaves(experience)[0].shape[1]

    def loss(params: Params, samples: Any) -> Any:
        losses = compute_losses(network, params, samples)
        return jnp.sum(losses.policy + losses.value)

    replay = num_bytes(state.buffer_state)
    return TrainingMemory(
        search=search,
        state=num_bytes(state),
        replay=replay,
        positions=2 * replay * num_added // capacity,
        gradient=allocated(jax.jit(jax.grad(loss)).trace(state.params, samples)),
    )


def free_memory() -> int | None:
    """Returns the bytes that the default device has left, or `None` if that cannot be known."""
    device = jax.devices()[0]
    report = device.memory_stats() or {}
    if "bytes_limit" in report:
        return report["bytes_limit"] - report.get("bytes_in_use", 0)
    try:
        # Free memory as Linux counts it, with the caches that it would give up.
        lines = Path("/proc/meminfo").read_text().splitlines()
        fields = dict(line.split(":", 1) for line in lines)
        return 1024 * int(fields["MemAvailable"].split()[0]) if device.platform == "cpu" else None
    except (OSError, KeyError):
        return None


def require_memory(memory: TrainingMemory, limit: int | None, *, is_asked_for: bool) -> None:
    """Refuses a run that does not fit.

    Args:
      memory: what it needs.
      limit: bytes there are; `None` where that is not known, and nothing is refused.
      is_asked_for: whether the limit is the user's own, not what is free.

    Raises:
      ValueError: when the run does not fit, in one line with the need, the limit and the remedy.
    """
    if limit is None or memory.total <= limit:
        return
    there = f"--memory-limit is {_readable(limit)}"
    there = there if is_asked_for else f"{_readable(limit)} are free"
    search = memory.search
    raise ValueError(
        f"a search of {search.batch_size:,} games with {search.num_nodes:,} nodes each needs "
        f"{_readable(search.total)}, the whole run {_readable(memory.total)}, and {there}; use "
        f"{_remedy(memory, limit)}"
    )


def _remedy(memory: TrainingMemory, limit: int) -> str:
    """Says what makes a run fit."""
    if memory.state + memory.gradient > limit:
        return "a smaller --learner.capacity, --learner.batch-size or --network.width"
    room = limit - memory.state
    num_games = memory.search.batch_size * room // (memory.search.total + memory.positions)
    parts = []
    if num_games >= 1:
        # A power of two is a round number for a batch.
        parts.append(f"--selfplay.num-games {2 ** (num_games.bit_length() - 1)}")
    parts.append("fewer simulations")
    if memory.search.num_children >= _MANY_ACTIONS:
        parts += ["--search.puct.max-children 128", "--network.compact-states"]
    return ", ".join(parts[:-1]) + " or " + parts[-1] if len(parts) > 1 else parts[0]


def describe_memory(memory: TrainingMemory) -> str:
    """Describes in a line what a run needs."""
    parts = {
        "search": memory.search.total,
        "learning": memory.gradient,
        "replay": memory.replay,
    }
    described = ", ".join(f"{name} {_readable(size)}" for name, size in parts.items())
    return f"memory: {_readable(memory.total)} at most ({described})"


def _readable(size: int) -> str:
    return f"{size / _GIB:,.1f} GiB" if size >= _GIB else f"{size / 2**20:,.1f} MiB"
