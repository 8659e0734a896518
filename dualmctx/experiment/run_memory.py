"""Checks before a training run that its devices have enough memory, and names the remedies."""

from collections.abc import Iterator
from typing import Any

import games
from dualmctx.distributed.devices import choose_devices
from dualmctx.distributed.free_memory import free_memory
from dualmctx.errors import UserError
from dualmctx.models.search_memory import SearchMemory, search_memory
from dualmctx.policies import named_options, with_options
from dualmctx.training.config import Config, EvalConfig
from dualmctx.training.memory_budget import TrainingMemory, require_memory, training_memory
from dualmctx.training.trainer import TrainState
from dualmctx.types import Environment, Policy, PolicyValueNetwork

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
    num_games = config.selfplay.num_games // num_devices
    search = search_memory(env, network, config.search, num_games, **config.network.model_kwargs())
    memory = training_memory(
        search,
        network,
        shapes,
        batch_size=config.learner.batch_size // num_devices,
        num_added=num_games * config.selfplay.num_steps,
        evals=eval_memory(env, search, config.evals),
    )
    available = free_memory() if limit is None else int(limit * 2**30)
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
        flag = f"--search.{'.'.join(children.path).replace('_', '-')}"
        if _accepts(config.search, max_children=_FEW_CHILDREN):
            yield f"{flag} {_FEW_CHILDREN}"
    if not config.network.compact_states:
        yield "--network.compact-states"


def _accepts(search: Policy, **options: Any) -> bool:
    """Returns whether a search accepts new values of the named options."""
    try:
        with_options(search, **options)
    except UserError:
        return False
    return True
