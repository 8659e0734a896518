"""Training by self-play or from games: makes it a stage, and runs it with its folder locked."""

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from dualmctx.distributed import devices
from dualmctx.distributed.devices import choose_devices, local
from dualmctx.experiment.assemble import Run, assemble, folder_of
from dualmctx.experiment.evals import eval_key, is_solved, run_evals
from dualmctx.experiment.multihost import gather, spread
from dualmctx.experiment.report import describe_training, plot_training, summary_table
from dualmctx.experiment.runner import locked_run, run_stage
from dualmctx.experiment.stage import Say, Stage, StageRun
from dualmctx.runs.metrics_file import Row, require_wandb, weights_and_biases
from dualmctx.training.config import Config
from dualmctx.training.memory_budget import describe_memory
from dualmctx.training.trainer import Trainer, TrainState
from dualmctx.types import Params, tree_budgets


def run_training(name: str, config: Config, warn: Say) -> int:
    """Runs or resumes training, with the run's folder locked; see `run_stage`.

    Args:
      name: the preset, for the folder and the records.
      config: the configuration.
      warn: called with a message about each damaged checkpoint that was skipped.

    Raises:
      RunFailed: as `run_stage`, and for bad input.
    """
    with locked_run(folder_of(name, config), resume=config.resume):
        wandb = None if config.wandb is None else require_wandb()
        return run_stage(stage_run(assemble(name, config), wandb, warn))


def stage_run(run: Run, wandb: Any, warn: Say) -> StageRun:
    """Makes an assembled run ready for the runner.

    Args:
      run: the run.
      wandb: the module that logs to Weights & Biases; `None` for no log there.
      warn: called with a message about each damaged checkpoint.
    """
    config, path = run.config, run.folder.path
    log = functools.partial(weights_and_biases, wandb, path, str(config.wandb), run.record)
    return StageRun(
        stage=make_stage(run),
        folder=run.folder,
        checkpoints=run.checkpoints,
        title=run.name,
        checkpoint_every=config.checkpoint_every,
        checkpoint_minutes=config.checkpoint_minutes,
        resume=config.resume,
        warn=warn,
        smaller="--selfplay.num-games or --learner.capacity",
        learning_rate=("--learner.learning-rate", config.learner.learning_rate),
        open_logger=None if wandb is None else log,
    )


def make_stage(run: Run) -> Stage:
    """Makes training by self-play a stage; its programs are compiled when it is prepared."""
    config, trainer = run.config, run.trainer

    @functools.cache
    def compiled() -> Callable[[TrainState], tuple[TrainState, Row]]:
        return trainer.compile(trainer.shapes)

    def prepare(say: Say) -> None:
        say("compiling …")
        start = time.perf_counter()
        compiled()
        say(f"compiled in {time.perf_counter() - start:.0f} s")

    def init() -> TrainState:
        state, params = trainer.init(config.seed), run.initial_params
        return state if params is None else _with_params(state, params, trainer)

    def iterate(state: TrainState) -> tuple[TrainState, Row]:
        state, metrics = compiled()(state)
        return state, with_rates(metrics, config)

    return Stage(
        name="training",
        num_iterations=config.num_iterations,
        init=init,
        iterate=iterate,
        evaluate=functools.partial(_evaluate, run),
        eval_every=config.evals.every,
        describe=describe_training,
        plot=functools.partial(_plot, run),
        summarize=functools.partial(_summarize, run),
        table=summary_table,
        about=_describe_run(config),
        notes=functools.partial(_notes, run),
        prepare=prepare,
        evaluates_last=False,
        shapes=trainer.shapes,
        place=lambda state: spread(state, trainer.shapes),
        num_actions=run.num_actions,
        is_over=functools.partial(_is_over, config.evals.stop_when_solved),
    )


def _with_params(state: TrainState, params: Params, trainer: Trainer) -> TrainState:
    """Replaces the parameters of an initial state; called by the coordinator only."""
    # The state of the optimiser does not depend on the initial parameters.
    if jax.process_count() > 1:
        return spread(gather(state)._replace(params=params), trainer.shapes)
    return state._replace(params=devices.spread(params, trainer.shapes.params))


def _describe_run(config: Config) -> str:
    """Describes a run in one line: search, budgets, games or data set, and devices."""
    numbers = " + ".join(map(str, tree_budgets(config.search)))
    chosen = choose_devices(config.devices)
    where = f"{len(chosen)} × {chosen[0].device_kind}" if chosen[1:] else chosen[0].device_kind
    processes = jax.process_count()
    search = f"{type(config.search).__name__} with {numbers} simulations per move"
    if config.dataset is not None:
        return f"the games of {config.dataset}, evals by {search}, on {where}"
    return f"{search}, {config.selfplay.num_games} games in parallel, on {where}" + (
        f" in {processes} processes" if processes > 1 else ""
    )


def _notes(run: Run) -> list[str]:
    """Returns lines about memory, and about initial parameters and the schedule if they are set."""
    config, notes = run.config, [describe_memory(run.memory)]
    if run.learned is not None:
        notes.append(run.learned.about)
    if run.initial_params is not None:
        notes.append(f"starting from the parameters of {config.init_from}")
    if config.schedule_iterations is not None:
        rate, length = config.learner.learning_rate, config.schedule_iterations
        notes.append(
            f"the learning rate falls to {rate / 10:g} over {length} iterations, then stays there"
        )
    return notes


def with_rates(metrics: Row, config: Config) -> Row:
    """Adds the seconds of an iteration and its rates, per second of self-play, to its metrics."""
    rate = metrics["positions"] / metrics["selfplay_seconds"]
    rates = {
        "seconds": metrics["selfplay_seconds"] + metrics["learn_seconds"],
        "positions_per_second": rate,
    }
    if config.dataset is None:
        rates["games_per_second"] = metrics["games"] / metrics["selfplay_seconds"]
        rates["simulations_per_second"] = rate * sum(tree_budgets(config.search))
    return rates | metrics


def _evaluate(run: Run, state: TrainState) -> Row:
    """Runs the evals that belong to the rows."""
    key = eval_key(run.config.seed, int(state.iteration))
    return run_evals(run.evals, local(state.params), key)


def count_solved_streak(rows: list[Row]) -> int:
    """Counts the latest consecutive evals in which play was optimal."""
    evals = [is_solved(row) for row in rows if "path/search_optimal" in row]
    return [*reversed(evals), False].index(False)


def _is_over(stop_when_solved: int, rows: list[Row]) -> str:
    """Says that play was optimal in enough consecutive evals; empty if it was not."""
    streak = count_solved_streak(rows) if stop_when_solved else 0
    if not streak or streak < stop_when_solved:
        return ""
    return f"optimal play in {streak} consecutive evals: training ends early"


def _summarize(run: Run, state: TrainState, rows: list[Row]) -> dict[str, Any]:
    """Runs the final evals; returns the entries of the summary."""
    key = eval_key(run.config.seed, 0)
    results = run_evals(run.final_evals, local(state.params), key)
    if run.learned is None:
        source = {"games": sum(row["games"] for row in rows)}
    else:
        source = {"epochs": run.learned.epochs}
    return {
        **source,
        "positions": sum(row["positions"] for row in rows),
        "solved": is_solved(results),
        **run.num_positions,
        **results,
    }


def _plot(run: Run, rows: list[Row], title: str, file: Path) -> None:
    """Plots the curves of training, with the game in the title."""
    parameters = run.config.game_parameters
    game = " ".join([run.config.game, *(f"{x} {y}" for x, y in parameters.items())])
    plot_training(rows, f"{game}: preset {title}, {len(rows)} iterations", file)
