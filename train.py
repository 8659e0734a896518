"""Trains a network by self-play: `python train.py PRESET [--FIELD VALUE ...]`.

Presets: connect2, nim, hsr, tic-tac-toe, connect-four, othello, hex, go-9x9, gardner-chess, chess.
`python train.py PRESET --help` lists every field with its default. The exit code is 0 at the end of
a run, 2 for bad input or where memory, the disk or the network fails, 3 when training has failed,
and 130 after Ctrl-C or SIGTERM. These end the iteration and save; a second one stops at once. The
same command with --resume goes on.
"""

import contextlib
import dataclasses
import os
import shlex
import sys
import time
from collections.abc import Sequence
from typing import Any, NoReturn

import jax

from dualmctx.commands.flags import parse_flags, take_flag
from dualmctx.distributed.devices import choose_devices, local
from dualmctx.distributed.processes import is_first, join, require_same
from dualmctx.distributed.signals import stopped_by_sigterm, stopped_on_request
from dualmctx.experiment.assemble import Run, assemble, build_worker_trainer, folder_of, record_of
from dualmctx.experiment.evals import is_solved, run_evals
from dualmctx.experiment.multihost import run_coordinator, run_worker, spread
from dualmctx.policies import REGISTRY
from dualmctx.runs.checkpoint import quietly
from dualmctx.runs.display import Display, summary_table
from dualmctx.runs.folder import claim_folder
from dualmctx.runs.loggers import Sink, require_wandb, tensorboard, weights_and_biases
from dualmctx.runs.plot import plot_training
from dualmctx.runs.recorded_config import check_config
from dualmctx.training.config import Config
from dualmctx.training.divergence import FAILURES, check_divergence, first_line
from dualmctx.training.memory_budget import describe_memory
from dualmctx.training.presets import PRESETS
from dualmctx.training.trainer import IterateFn, TrainState


@quietly()
def main(arguments: list[str]) -> int:
    """Runs the command; returns its exit code."""
    try:
        try:
            name, config = parse(arguments)
            if config.coordinator is not None:
                join(config.coordinator, config.num_processes, config.process_id)
                require_same(record_of(name, config) | {"devices": config.devices})
        except ValueError as error:
            fail(str(error))
        if not is_first():
            return run_worker(lambda: build_worker_trainer(name, config), config.seed)
        with stopped_by_sigterm():
            return run_coordinator(lambda: run_here(name, config))
    except KeyboardInterrupt as stop:
        print(f"train.py: stopped at once{''.join(stop.args)}", file=sys.stderr)
        return 130


def run_here(name: str, config: Config) -> int:
    """Runs what the command line says; returns the exit code."""
    with contextlib.ExitStack() as claims:
        return run_claimed(name, config, claims)


def run_claimed(name: str, config: Config, claims: contextlib.ExitStack) -> int:
    """Runs in a folder that `claims` keeps locked; returns the exit code."""
    run = None
    try:
        try:
            wandb = None if config.wandb is None else require_wandb()
            claims.enter_context(claim_folder(folder_of(name, config), resume=config.resume))
            run = assemble(name, config)
            state, rows = start(run)
        except ValueError as error:
            fail(first_line(error))
        with contextlib.ExitStack() as stack:
            done, folder = int(state.iteration), run.folder.path
            sinks = [stack.enter_context(tensorboard(folder / "tensorboard", done))]
            if wandb is not None:
                logs = weights_and_biases(wandb, folder, str(config.wandb), run.record)
                sinks.append(stack.enter_context(logs))
            return train(run, state, rows, sinks)
    except FAILURES as error:
        fail(first_line(error) + ("" if run is None else f"; {what_is_left(run, error)}"))
    except KeyboardInterrupt:
        if run is not None:
            # Python waits for what is still being written anyway, and the folder is ours till then.
            with contextlib.suppress(OSError):
                run.checkpoints.wait()
        # Without a folder there is nothing to go on with.
        remedy = [] if run is None else ["; --resume goes on from the last save"]
        raise KeyboardInterrupt(*remedy) from None


def parse(arguments: list[str]) -> tuple[str, Config]:
    """Parses the command line: a preset, then flags that change its fields.

    Raises:
      ValueError: when something is wrong, in one line.
    """
    if not arguments or arguments[0] in ("-h", "--help"):
        print((__doc__ or "").strip())
        raise SystemExit(0 if arguments else 2)
    # Games are named with underscores.
    given, *rest = arguments
    name = given.replace("_", "-")
    if name not in PRESETS:
        raise ValueError(f"there is no preset {given!r}; the presets are {', '.join(PRESETS)}")
    default = PRESETS[name]
    variant, rest = take_flag(rest, "--search.variant")
    if variant is not None:
        if variant not in REGISTRY:
            raise ValueError(
                f"there is no search variant {variant!r}; the variants are {', '.join(REGISTRY)}"
            )
        policy = REGISTRY[variant].policy
        if not isinstance(default.search, policy):
            default = dataclasses.replace(default, search=policy())
    description = f"Trains on the preset {name}. {search_help()}"
    config = parse_flags(default, rest, f"train.py {name}", description)
    return name, config


def search_help() -> str:
    """Describes the flag that chooses a search variant, which is read before all others."""
    variants = "; ".join(f"{name}: {row.summary}" for name, row in REGISTRY.items())
    return f"--search.variant NAME chooses the search. {variants}."


def fail(message: str) -> NoReturn:
    """Ends the command because of bad input."""
    print(f"train.py: {message}", file=sys.stderr)
    raise SystemExit(2)


def describe(run: Run) -> str:
    """Describes a run in a line."""
    config = run.config
    budgets = config.search.num_simulations
    numbers = " + ".join(map(str, budgets)) if isinstance(budgets, tuple) else str(budgets)
    devices = choose_devices(config.devices)
    where = f"{len(devices)} × {devices[0].device_kind}" if devices[1:] else devices[0].device_kind
    processes = jax.process_count()
    return (
        f"{type(config.search).__name__} with {numbers} simulations a move, "
        f"{config.selfplay.num_games} games side by side, on {where}"
        + (f" in {processes} processes" if processes > 1 else "")
    )


def start(run: Run) -> tuple[TrainState, list[dict[str, Any]]]:
    """Makes or restores the state to go on from; returns it with the rows up to there.

    Raises:
      ValueError: when no checkpoint can be read, or the newest one that can be was saved with
        another configuration, in one line.
    """
    # A run that was stopped before its first save goes on from its beginning.
    if not run.config.resume or run.checkpoints.latest() is None:
        state = run.trainer.init(run.config.seed)
    else:
        # By its shapes alone, as the device may not have room for two states.
        restored = run.checkpoints.restore(run.shapes)
        check_config(run.folder.path, restored.step, restored.config)
        state = spread(restored.state, run.trainer.shardings)
        for step, reason in restored.damaged.items():
            aside = run.checkpoints.set_aside(step)
            print(
                f"train.py: the checkpoint of iteration {step} is damaged ({reason}); it is now "
                f"{aside}, and the run goes on from iteration {restored.step}",
                file=sys.stderr,
            )
    return state, run.folder.keep_rows(int(state.iteration))


def train(run: Run, state: TrainState, rows: list[dict[str, Any]], sinks: Sequence[Sink]) -> int:
    """Trains to the end, until it is to stop or something is wrong; returns the exit code."""
    config, folder = run.config, run.folder
    with Display(config.num_iterations, int(state.iteration)) as display:
        display.say(f"{run.name}: {describe(run)}; writing to {folder.path}")
        display.say(describe_memory(run.memory))
        before = time.perf_counter()
        iterate = run.trainer.compile(state)
        display.say(f"compiled in {time.perf_counter() - before:.0f} s")
        with stopped_on_request(display.say) as stop:
            while int(state.iteration) < config.num_iterations and not stop:
                if 0 < config.evals.stop_when_solved <= solved_in_a_row(rows):
                    display.say(f"optimal play in {solved_in_a_row(rows)} exams in a row: done")
                    break
                state, row = iterate_once(run, iterate, state, rows)
                trouble = check_divergence(row, rows, local(state.params), run.num_actions)
                row |= {} if trouble else examine(run, state)
                rows.append(row)
                for write in (folder.append_row, *sinks, display.show):
                    write(row)
                if trouble:
                    return give_up(run, row, trouble)
                if row["iteration"] % config.checkpoint_every == 0:
                    run.checkpoints.save(row["iteration"], state)
            run.checkpoints.save(int(state.iteration), state)
            run.checkpoints.wait()
    if stop:
        display.say(
            f"saved iteration {int(state.iteration)}; go on with: {this_command()}"
            f"{'' if config.resume else ' --resume'}"
        )
        return 130
    finish(run, state, rows, display)
    return 0


def this_command() -> str:
    """Returns this process's command line, by its own interpreter, which may not be on the path."""
    python = min(sys.executable, os.path.relpath(sys.executable), key=len)
    return shlex.join([python, *sys.argv])


def give_up(run: Run, row: dict[str, Any], trouble: str) -> int:
    """Says in a line why training ends and what is left of it; returns the exit code.

    Nothing is saved: the newest checkpoint is of an iteration that was well.
    """
    run.checkpoints.wait()
    print(
        f"train.py: training failed in iteration {row['iteration']}: {trouble}; "
        f"{last_checkpoint(run)}; start a new run with a --learner.learning-rate below "
        f"{run.config.learner.learning_rate:g}, as --resume would fail again",
        file=sys.stderr,
    )
    return 3


def what_is_left(run: Run, error: BaseException) -> str:
    """Says what a run that could not go on has saved, and how it goes on."""
    with contextlib.suppress(OSError):
        run.checkpoints.wait()
    resume = "--resume " + ("begins anew" if run.checkpoints.latest() is None else "goes on there")
    is_of_device = isinstance(error, jax.errors.JaxRuntimeError)
    if isinstance(error, MemoryError) or (is_of_device and "RESOURCE_EXHAUSTED" in str(error)):
        smaller = "a new run with a smaller --selfplay.num-games or --learner.capacity takes less"
        return f"{last_checkpoint(run)}; with more memory or devices {resume}, {smaller}"
    return f"{last_checkpoint(run)}; when that is put right, {resume}"


def last_checkpoint(run: Run) -> str:
    """Says which checkpoint is the newest."""
    last = run.checkpoints.latest()
    where = f"iteration {last} in {run.folder.checkpoints}"
    return f"the last good checkpoint is {'none' if last is None else where}"


def solved_in_a_row(rows: list[dict[str, Any]]) -> int:
    """Counts the latest exams in a row in which play was optimal."""
    evals = [is_solved(row) for row in rows if "path/search_optimal" in row]
    return [*reversed(evals), False].index(False)


def iterate_once(
    run: Run, iterate: IterateFn, state: TrainState, rows: list[dict[str, Any]]
) -> tuple[TrainState, dict[str, Any]]:
    """Runs one iteration; returns the new state and the row of its metrics."""
    state, metrics = iterate(state)
    spent = metrics["selfplay_seconds"] + metrics["learn_seconds"]
    budgets = run.config.search.num_simulations
    per_move = sum(budgets) if isinstance(budgets, tuple) else budgets
    rate = metrics["positions"] / metrics["selfplay_seconds"]
    return state, {
        "iteration": int(state.iteration),
        "seconds": (rows[-1]["seconds"] if rows else 0.0) + spent,
        "games_per_second": metrics["games"] / metrics["selfplay_seconds"],
        "positions_per_second": rate,
        "simulations_per_second": rate * per_move,
        **metrics,
    }


def examine(run: Run, state: TrainState) -> dict[str, Any]:
    """Takes the exams that are due after an iteration."""
    number, every = int(state.iteration), run.config.evals.every
    if not every or number % every:
        return {}
    before = time.perf_counter()
    results = run_evals(run.evals, local(state.params), jax.random.PRNGKey(number))
    return results | {"eval_seconds": time.perf_counter() - before}


def finish(run: Run, state: TrainState, rows: list[dict[str, Any]], display: Display) -> None:
    """Takes the last exams, writes the summary and the picture, prints the table."""
    display.say("last exam …")
    seed = (run.config.seed + 1) % 2**32
    results = run_evals(run.final_evals, local(state.params), jax.random.PRNGKey(seed))
    summary = {
        "title": f"{run.name} after {int(state.iteration)} iterations",
        "iterations": int(state.iteration),
        "seconds": rows[-1]["seconds"] if rows else 0.0,
        "games": sum(row["games"] for row in rows),
        "positions": sum(row["positions"] for row in rows),
        "solved": is_solved(results),
        **run.num_positions,
        **results,
    }
    run.folder.write_json("summary.json", summary)
    plot_training(rows, summary["title"], run.folder.path / "curve.png")
    display.console.print(summary_table(summary))
    files = "summary.json, metrics.jsonl, curve.png, checkpoints/, tensorboard/"
    display.say(f"in {run.folder.path}: {files}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
