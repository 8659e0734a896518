"""Assembles a training run from its configuration."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax

import games
from dualmctx.checks import check, show
from dualmctx.distributed.devices import choose_devices, share
from dualmctx.distributed.free_memory import free_memory
from dualmctx.evaluation.evaluations import make_evaluate
from dualmctx.experiment.evals import EvalFn, Solution, make_exact_eval, make_match_eval
from dualmctx.experiment.initial_params import load_initial_params
from dualmctx.experiment.multihost import coordinate, gather
from dualmctx.matches.movers import batched_move_fn
from dualmctx.models.game_model import make_search_fn
from dualmctx.models.network_check import check_network
from dualmctx.models.search_memory import SearchMemory, search_memory
from dualmctx.policies import REGISTRY, named_options, with_options
from dualmctx.runs.checkpoint import Checkpoints, open_writable_checkpoints
from dualmctx.runs.folder import RunFolder, create_run, read_config, reopen_run, to_dict
from dualmctx.runs.network_record import (
    build_network,
    missing_architecture,
    with_architecture,
)
from dualmctx.training.augment import make_augment
from dualmctx.training.config import Config, EvalConfig
from dualmctx.training.memory_budget import (
    TrainingMemory,
    require_memory,
    training_memory,
)
from dualmctx.training.trainer import PassesFn, Trainer, TrainState, make_trainer
from dualmctx.types import Environment, Params, Policy, PolicyValueNetwork

# Games with at least 512 actions have few legal ones; for them, 128 children are suggested.
_MANY_ACTIONS, _FEW_CHILDREN = 512, 128
# Fields that only say where a run executes. The record holds these fixed values instead of the
# actual ones, so that a run may be resumed elsewhere.
_PLACEHOLDERS: dict[str, Any] = {
    **{"out": None, "resume": False, "wandb": None, "memory_limit": None},
    **{"devices": None, "coordinator": None, "num_processes": None, "process_id": None},
}


class Run(NamedTuple):
    """An assembled training run.

    Attributes:
      config: its configuration.
      name: the name of the preset.
      record: the content of `config.json`.
      num_actions: A, the number of actions of the game.
      folder: its folder.
      checkpoints: its checkpoints.
      trainer: initialises, compiles and runs the iterations.
      shapes: the shapes and dtypes of the training state.
      evals: run every few iterations.
      final_evals: run once, at the end.
      num_positions: the numbers of positions in the exact solution, for the summary.
      memory: the predicted memory per device.
      initial_params: the parameters to start from, as NumPy arrays; `None` for random ones, and if
        the run has a checkpoint.
    """

    config: Config
    name: str
    record: dict[str, Any]
    num_actions: int
    folder: RunFolder
    checkpoints: Checkpoints
    trainer: Trainer
    shapes: TrainState
    evals: tuple[EvalFn, ...]
    final_evals: tuple[EvalFn, ...]
    num_positions: dict[str, int]
    memory: TrainingMemory
    initial_params: Params | None = None


def assemble(name: str, config: Config) -> Run:
    """Assembles a run. The folder is created last, after all checks.

    Args:
      name: the preset, for the folder and the records.
      config: the configuration.

    Returns:
      The run, before compilation.

    Raises:
      ValueError: if the configuration is invalid, needs too much memory, or differs from that of
        the resumed run.
    """
    env = games.make(config.game, **config.game_parameters)
    record = record_of(name, config)
    network = build_network(record, env)
    record = with_architecture(record, network)
    check_head(config.search, network)
    if config.network.factory is not None:
        check_network(network, env)
    options = config.network.model_kwargs()
    search_fn = make_search_fn(env, network, config.search.for_evaluation(), **options)
    evals, final_evals, num_positions = make_evals(env, network, search_fn, config.evals)
    trainer = build_trainer(config, env, network)
    # The seed is not an argument: it would become an int32, which cannot hold all seeds.
    shapes = jax.eval_shape(lambda: trainer.init(config.seed))
    memory = check_memory(env, network, config, share(shapes, trainer.shardings))
    path = folder_of(name, config)
    initial = _load_initial(config, path, env, network)
    folder = (
        reopen_run(path, record, _defaults(config, path, record))
        if config.resume
        else create_run(path, record)
    )
    checkpoints = open_writable_checkpoints(
        folder.checkpoints, keep=config.keep, fetch=gather, config=read_config(path)
    )
    return Run(
        config=config,
        name=name,
        record=record,
        num_actions=env.num_actions,
        folder=folder,
        checkpoints=checkpoints,
        trainer=coordinate(trainer),
        shapes=shapes,
        evals=evals,
        final_evals=final_evals,
        num_positions=num_positions,
        memory=memory,
        initial_params=initial,
    )


def _load_initial(
    config: Config, path: Path, env: Environment, network: PolicyValueNetwork
) -> Params | None:
    """Loads the parameters of `init_from`, unless the run continues from a checkpoint."""
    has_checkpoint = config.resume and any(RunFolder(path).checkpoints.glob("[0-9]*"))
    if config.init_from is None or has_checkpoint:
        return None
    return load_initial_params(config, env, network)


def _defaults(config: Config, path: Path, record: dict[str, Any]) -> dict[str, Any]:
    """Returns the values of entries that the record of an earlier version lacks.

    These are the defaults of the search variant. If the saved record has no fields of the network,
    those of the new record are used; if it has any, it must have all of them.
    """
    defaults = record_of("", Config(search=type(config.search)()))
    return defaults | missing_architecture(read_config(path), record)


def check_head(search: Policy, network: PolicyValueNetwork) -> None:
    """Checks that the network has the heads that the search uses.

    Raises:
      ValueError: if a search with several trees evaluates more heads, or if `head` is neither -1
        nor the index of one of several heads.
    """
    head, depths = search.heads[0], network.head_depths
    if len(search.heads) > 1:
        # The networks of this package are built with enough heads.
        if len(depths) < len(search.heads):
            raise ValueError(
                f"the search evaluates {len(search.heads)} heads, but the network returns "
                f"{len(depths)}; return a list of {len(search.heads)} pairs (logits, value), or "
                "use a search with one tree, as in --search.variant alphazero"
            )
        return
    is_valid = len(depths) > 1 and -len(depths) <= head < len(depths)
    remedy = (
        "-1 for the final head, or the index of one of several heads, which --network.head-depths"
        f" sets (here {show(depths)})"
    )
    check(head == -1 or is_valid, "search.head", head, remedy)


def folder_of(name: str, config: Config) -> Path:
    """Returns the folder of a run."""
    return Path(config.out or f"runs/{name}")


def record_of(name: str, config: Config) -> dict[str, Any]:
    """Returns the content of `config.json`, without the fields that say where the run executes."""
    record: dict[str, Any] = to_dict(dataclasses.replace(config, **_PLACEHOLDERS))
    record["preset"] = name
    search, separate_trunks = config.search, config.network.separate_trunks
    # The options do not identify the variant: two variants may have the same options.
    record["search"] = {"variant": variant_of(search)} | record["search"]
    if separate_trunks is None:
        separate_trunks = search.traits.separate_trunks
    record["network"] |= {
        "num_heads": len(search.heads),
        "separate_trunks": separate_trunks,
    }
    return record


def variant_of(search: Policy) -> str:
    """Returns the name of the variant of a search."""
    [variant] = [name for name, row in REGISTRY.items() if type(search) is row.policy]
    return variant


def build_trainer(
    config: Config,
    env: Environment,
    network: PolicyValueNetwork,
    passes_fn: PassesFn | None = None,
) -> Trainer:
    """Builds the trainer of a run; all processes build the same one.

    Args:
      config: the configuration.
      env: the game.
      network: the network.
      passes_fn: see `make_trainer`.
    """
    augment_fn = make_augment(*games.symmetries(env)) if config.learner.augment else None
    return make_trainer(
        env,
        network,
        config.search,
        config.selfplay,
        config.learner,
        num_iterations=config.schedule_iterations or config.num_iterations,
        devices=choose_devices(config.devices),
        augment_fn=augment_fn,
        passes_fn=passes_fn,
        **config.network.model_kwargs(),
    )


def build_worker_trainer(name: str, config: Config) -> Trainer:
    """Builds the trainer of a process other than the first."""
    env = games.make(config.game, **config.game_parameters)
    return build_trainer(config, env, build_network(record_of(name, config), env))


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
    except ValueError:
        return False
    return True


def make_evals(
    env: Environment, network: PolicyValueNetwork, search_fn: Any, options: EvalConfig
) -> tuple:
    """Builds the evals of a game: against its exact solution if it has one, else random play.

    Returns:
      The evals during training, the final evals, and the numbers of positions they cover.

    Raises:
      ValueError: if an option does not fit the game.
    """

    def match(player: Any, name: str) -> EvalFn:
        return make_match_eval(
            env, search_fn, batched_move_fn(player), name, num_games=options.num_games
        )

    against_random = match(games.random_player(), "random")
    if not games.is_solvable(env):
        if options.stop_when_solved:
            raise ValueError(
                f"evals.stop_when_solved is {options.stop_when_solved}; it must be 0 for a game "
                "without an exact solution"
            )
        return (against_random,), (against_random,), {}
    solution = games.solve(env)
    exact = Solution(
        states=games.replay(env, solution.histories, key=jax.random.PRNGKey(0)),
        optimal_actions=solution.optimal_actions,
        values=solution.values,
        on_optimal_path=solution.on_optimal_path,
    )
    batch_size = min(options.batch_size, len(solution.values))
    evaluate = make_evaluate(network, search_fn, batch_size)
    sampled_eval = make_exact_eval(evaluate, exact, max_positions=options.max_positions)
    full_eval = make_exact_eval(evaluate, exact, max_positions=None)
    against_perfect = match(games.perfect_player(env), "perfect")
    counts = {
        "exact_positions": len(solution.values),
        "path_positions": int(solution.on_optimal_path.sum()),
    }
    return (sampled_eval,), (full_eval, against_perfect), counts
