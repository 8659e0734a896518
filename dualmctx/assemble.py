"""A training run, put together from its configuration."""

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple

import jax

import games
from dualmctx.arena import batch_player
from dualmctx.budget import TrainingMemory, free_memory, require_memory, training_memory
from dualmctx.checkpoint import Checkpoints, open_checkpoints
from dualmctx.config import Config, Exams
from dualmctx.evaluate import make_evaluate
from dualmctx.exam import Exact, ExamFn, make_exact_exam, make_match_exam
from dualmctx.memory import search_memory
from dualmctx.model import make_search_fn
from dualmctx.network import make_network
from dualmctx.runs import RunFolder, create_run, reopen_run, to_dict
from dualmctx.training import Trainer, make_trainer


class Run(NamedTuple):
    """A run, put together from its configuration."""

    config: Config
    name: str
    folder: RunFolder
    checkpoints: Checkpoints
    trainer: Trainer
    exams: tuple[ExamFn, ...]
    last_exams: tuple[ExamFn, ...]
    num_positions: dict[str, int]
    memory: TrainingMemory


def assemble(name: str, config: Config) -> Run:
    """Puts a run together; the folder is made last, when everything else was right.

    Args:
      name: of the preset, for the folder and the records.
      config: what to run.

    Returns:
      The run; nothing but the memory's prediction is compiled yet.

    Raises:
      ValueError: when something is wrong, in one line.
    """
    env = games.make(config.game, **config.game_parameters)
    network = network_of(config, env)
    options = config.network.of_model()
    trainer = make_trainer(
        env,
        network,
        config.search,
        config.selfplay,
        config.learner,
        num_iterations=config.num_iterations,
        **options,
    )
    memory = check_memory(env, network, trainer, config)
    search_fn = make_search_fn(env, network, config.search.noiseless(), **options)
    exams, last_exams, num_positions = make_exams(env, network, search_fn, config.exams)
    path = Path(config.out or f"runs/{name}")
    # Where and how it runs, not what.
    what = dataclasses.replace(config, out=None, resume=False, memory_limit=None)
    record = to_dict(what) | {"preset": name}
    folder = (reopen_run if config.resume else create_run)(path, record)
    checkpoints = open_checkpoints(folder.checkpoints, keep=config.keep)
    return Run(config, name, folder, checkpoints, trainer, exams, last_exams, num_positions, memory)


def network_of(config: Config, env: Any) -> Any:
    """Makes the network that a configuration describes, for a game as `games.make` gives it."""
    # As asked, else as the search is meant.
    asked = config.network.separate_trunks
    meant = getattr(config.search, "separate_trunks", False)
    return make_network(
        env.num_actions,
        env.observation_shape,
        width=config.network.width,
        num_blocks=config.network.num_blocks,
        head_depths=config.network.head_depths,
        num_heads=len(config.search.heads),
        separate_trunks=meant if asked is None else asked,
        trunk=config.network.trunk,
    )


def check_memory(env: Any, network: Any, trainer: Trainer, config: Config) -> TrainingMemory:
    """Predicts what a run takes of the device's memory.

    Raises:
      ValueError: when that is more than there is, in one line.
    """
    selfplay, limit = config.selfplay, config.memory_limit
    search = search_memory(
        env, network, config.search, selfplay.num_games, **config.network.of_model()
    )
    memory = training_memory(
        search,
        network,
        jax.eval_shape(trainer.init, config.seed),
        batch_size=config.learner.batch_size,
        num_added=selfplay.num_games * selfplay.num_steps,
    )
    there = free_memory() if limit is None else int(limit * 2**30)
    require_memory(memory, there, is_asked_for=limit is not None)
    return memory


def make_exams(env: Any, network: Any, search_fn: Any, options: Exams) -> tuple:
    """Makes the exams that a game allows: against its exact solution, or against random play."""

    def match(player: Any, name: str) -> ExamFn:
        return make_match_exam(
            env, search_fn, batch_player(player), name, num_games=options.num_games
        )

    against_random = match(games.random_player(), "random")
    if not games.is_solvable(env):
        return (against_random,), (against_random,), {}
    solution = games.solve(env)
    exact = Exact(
        states=games.replay(env, solution.histories, key=jax.random.PRNGKey(0)),
        optimal_actions=solution.optimal_actions,
        values=solution.values,
        on_optimal_path=solution.on_optimal_path,
    )
    batch_size = min(options.batch_size, len(solution.values))
    evaluate = make_evaluate(network, search_fn, batch_size)
    some = make_exact_exam(evaluate, exact, max_positions=options.max_positions)
    every = make_exact_exam(evaluate, exact, max_positions=None)
    against_perfect = match(games.perfect_player(env), "perfect")
    counts = {
        "exact_positions": len(solution.values),
        "path_positions": int(solution.on_optimal_path.sum()),
    }
    return (some,), (every, against_perfect), counts
