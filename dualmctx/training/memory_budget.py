"""The memory that a training run needs on its device, predicted before the run starts."""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp

import games
from dualmctx.distributed.devices import choose_devices, free_memory
from dualmctx.errors import UserError
from dualmctx.models.search_memory import SearchMemory, num_bytes, search_memory, temporary_bytes
from dualmctx.policies import named_options, with_options
from dualmctx.training.batch import GIVEN_AHEAD
from dualmctx.training.config import Config, EvalConfig
from dualmctx.training.learner import compute_losses
from dualmctx.training.trainer import TrainState
from dualmctx.types import Environment, Params, PolicyValueNetwork

_GIB = 2**30


@dataclasses.dataclass(frozen=True)
class TrainingMemory:
    """The bytes that a training run needs on each device.

    Attributes:
      search: the search of self-play.
      state: parameters, optimiser, replay buffer and games.
      replay: the part of `state` for the replay buffer.
      positions: the positions of an iteration, as moves and as training batch; those of a data set
        are a part of `state`.
      gradient: an optimiser step.
      evals: the search of the evals.
    """

    search: SearchMemory
    state: int
    replay: int
    positions: int
    gradient: int
    evals: int = 0

    @property
    def total(self) -> int:
        """The largest number of bytes at any time; self-play, learning and evals alternate."""
        return self.state + max(self.search.total + self.positions, self.gradient, self.evals)


def training_memory(
    env: Environment,
    network: PolicyValueNetwork,
    config: Config,
    shapes: TrainState,
    num_devices: int,
) -> TrainingMemory:
    """Predicts the bytes that a training run needs on each device; see `check_memory`.

    The gradient is compiled for one batch, which takes seconds. The devices share the games and
    the batches evenly.
    """
    num_games = config.selfplay.num_games // num_devices
    search = search_memory(env, network, config.search, num_games, **config.network.model_kwargs())
    batch_size = config.learner.batch_size // num_devices
    experience = shapes.buffer_state.experience
    samples = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct((batch_size, *x.shape[2:]), x.dtype), experience
    )
    num_rows, length = jax.tree.leaves(experience)[0].shape[:2]

    def loss(params: Params, samples: Any) -> Any:
        losses = compute_losses(network, params, samples)
        return jnp.sum(losses.policy + losses.value)

    replay = num_bytes(shapes.buffer_state)
    iteration = replay * num_games * config.selfplay.num_steps // (num_rows * length)
    memory = TrainingMemory(
        search=search,
        state=num_bytes(shapes),
        replay=replay,
        # As moves and as training batch.
        positions=2 * iteration,
        gradient=temporary_bytes(jax.grad(loss), shapes.params, samples),
        evals=eval_memory(env, search, config.evals),
    )
    if config.dataset is None:
        return memory
    # Positions that wait, those in use, and their rows. Only the evals search.
    given = (GIVEN_AHEAD + 2) * iteration
    parts = ("tree", "embeddings", "activations", "temporaries", "outputs", "margin", "kept")
    no_search = dataclasses.replace(search, **dict.fromkeys(parts, 0))
    return dataclasses.replace(memory, search=no_search, state=memory.state + given, positions=0)


def require_memory(
    memory: TrainingMemory,
    limit: int | None,
    *,
    is_asked_for: bool,
    num_devices: int = 1,
    savings: Sequence[str] = (),
) -> None:
    """Checks that a run fits into memory.

    Args:
      memory: the memory that the run needs on each device.
      limit: bytes available on each device; `None` if unknown, which disables the check.
      is_asked_for: whether the user set the limit; otherwise it is the free memory.
      num_devices: the number of devices that share the games evenly.
      savings: flags that would reduce the memory of this run, besides smaller numbers.

    Raises:
      ValueError: if the run does not fit; the message has the need, the limit and the remedy.
    """
    if limit is None or memory.total <= limit:
        return
    size, search = readable(limit), memory.search
    limit_text = f"--memory-limit is {size}" if is_asked_for else f"{size} are free"
    each = f" of each of {num_devices} devices" if num_devices > 1 else ""
    need = f"the run needs {readable(memory.total)}{each}"
    if search.total:
        need = (
            f"a search of {search.batch_size:,} games with {search.num_nodes:,} nodes each needs "
            f"{readable(search.total)}{each}, the whole run {readable(memory.total)}"
        )
    remedy = _remedy(memory, limit, num_devices, savings)
    raise UserError(f"{need}, and {limit_text}; use {remedy}")


def _remedy(memory: TrainingMemory, limit: int, num_devices: int, savings: Sequence[str]) -> str:
    """Describes the changes of flags that would make a run fit."""
    if memory.state + memory.gradient > limit:
        return "a smaller --learner.capacity, --learner.batch-size or --network.width"
    if memory.state + memory.evals > limit:
        return "a smaller --evals.num-games or --evals.batch-size, or fewer simulations"
    room = limit - memory.state
    num_games = memory.search.batch_size * room // (memory.search.total + memory.positions)
    parts: list[str] = []
    if num_games >= 1:
        # Rounded down to a power of two. The flag is the number of games on all devices together.
        fitting = num_devices * 2 ** (num_games.bit_length() - 1)
        parts.append(f"--selfplay.num-games {fitting}")
    parts += ["fewer simulations", *savings]
    return ", ".join(parts[:-1]) + " or " + parts[-1] if len(parts) > 1 else parts[0]


def require_batch_memory(
    batch_size: int, needed: int, limit: int | None, *, has_search: bool = True
) -> None:
    """Checks that a batch of positions fits into memory.

    Args:
      batch_size: positions that a device evaluates at once.
      needed: the bytes that they need.
      limit: the bytes available; `None` if unknown, which disables the check.
      has_search: whether there is a search, so that fewer simulations would need less memory.

    Raises:
      ValueError: if the batch does not fit; the message has the need, the limit and the remedy.
    """
    if limit is None or needed <= limit:
        return
    fitting = batch_size * limit // needed
    remedies = [f"a smaller --batch, such as {2 ** (fitting.bit_length() - 1)}"] * bool(fitting)
    remedies += ["fewer --simulations"] * has_search
    raise UserError(
        f"a batch of {batch_size:,} positions needs {readable(needed)} of a device, and "
        f"{readable(limit)} are free; use {', or '.join(remedies) or 'another device'}"
    )


def describe_memory(memory: TrainingMemory) -> str:
    """Formats the memory of a run and its largest parts as one line."""
    return (
        f"memory: {readable(memory.total)} at most (search {readable(memory.search.total)}, "
        f"learning {readable(memory.gradient)}, replay {readable(memory.replay)}, "
        f"evals {readable(memory.evals)})"
    )


def readable(size: int) -> str:
    """Formats a number of bytes in MiB or GiB."""
    return f"{size / _GIB:,.1f} GiB" if size >= _GIB else f"{size / 2**20:,.1f} MiB"


# Games with at least 512 actions have few legal ones; for them, 128 children are suggested.
_MANY_ACTIONS, _FEW_CHILDREN = 512, 128


def check_memory(
    env: Environment, network: PolicyValueNetwork, config: Config, shapes: TrainState
) -> TrainingMemory:
    """Predicts the memory of a run per device, and checks that it is available.

    Args:
      env: the game.
      network: the network.
      config: the configuration.
      shapes: the shapes of each device's shards of the training state.

    Raises:
      ValueError: if the run needs more memory than a device has.
    """
    limit, num_devices = config.memory_limit, len(choose_devices(config.devices))
    memory = training_memory(env, network, config, shapes, num_devices)
    available = free_memory() if limit is None else int(limit * _GIB)
    require_memory(
        memory,
        available,
        is_asked_for=limit is not None,
        num_devices=num_devices,
        savings=tuple(savings(env, config)),
    )
    return memory


def eval_memory(env: Environment, search: SearchMemory, options: EvalConfig) -> int:
    """Predicts the bytes of the largest search in evals from those of the search in self-play."""
    batch_size = options.num_games
    if games.is_solvable(env):
        num_positions = len(games.solve(env).values)
        batch_size = max(batch_size, min(options.batch_size, num_positions))
    # All parts are proportional to the batch, and evals do not reuse trees.
    return (search.total - search.kept) * batch_size // search.batch_size


def savings(env: Environment, config: Config) -> Iterator[str]:
    """Lists the flags that reduce the memory of a search with many actions."""
    if env.num_actions < _MANY_ACTIONS:
        return
    children = named_options(config.search).get("max_children")
    if children is not None and children.value is None:
        # Some searches, such as those with RAVE, accept no limit.
        with contextlib.suppress(UserError):
            with_options(config.search, max_children=_FEW_CHILDREN)
            yield f"--search.{'.'.join(children.path).replace('_', '-')} {_FEW_CHILDREN}"
    if not config.network.compact_states:
        yield "--network.compact-states"
