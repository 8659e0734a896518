"""Trains a network by self-play: `python train.py PRESET [--FIELD VALUE ...]`.

Presets: connect2, nim, hsr, tic-tac-toe, connect-four. `python train.py PRESET --help` lists every
field with its default.
"""

import dataclasses
import logging
import shlex
import sys
import time
from typing import Any, NoReturn

import jax

from dualmctx.assemble import Run, assemble
from dualmctx.budget import describe_memory
from dualmctx.cli import parse_flags, take_flag
from dualmctx.config import Config
from dualmctx.display import Display, stopped_by_ctrl_c, summary_table
from dualmctx.exam import is_solved, take_exams
from dualmctx.plot import plot_training
from dualmctx.policies import REGISTRY
from dualmctx.presets import PRESETS
from dualmctx.training import IterateFn, TrainState


def main(arguments: list[str]) -> int:
    """Runs the command; returns its exit code."""
    # orbax logs every phase of every save.
    logging.getLogger("absl").setLevel(logging.ERROR)
    try:
        try:
            name, config = parse(arguments)
            run = assemble(name, config)
            state, rows = start(run)
        except (ValueError, OSError, jax.errors.JaxRuntimeError) as error:
            fail(str(error).split("\n")[0])
        return train(run, state, rows)
    except KeyboardInterrupt:
        print("train.py: stopped at once; --resume goes on from the last save", file=sys.stderr)
        return 130


def parse(arguments: list[str]) -> tuple[str, Config]:
    """Parses the command line: a preset, then flags that change its fields.

    Raises:
      ValueError: when something is wrong, in one line.
    """
    if not arguments or arguments[0] in ("-h", "--help"):
        print((__doc__ or "").strip())
        raise SystemExit(0 if arguments else 2)
    name, *rest = arguments
    if name not in PRESETS:
        raise ValueError(f"there is no preset {name!r}; the presets are {', '.join(PRESETS)}")
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
    return (
        f"{type(config.search).__name__} with {numbers} simulations a move, "
        f"{config.selfplay.num_games} games side by side, on {jax.devices()[0].device_kind}"
    )


def start(run: Run) -> tuple[TrainState, list[dict[str, Any]]]:
    """Makes or restores the state to go on from; returns it with the rows up to there.

    Raises:
      ValueError: when the checkpoint cannot be read, in one line.
    """
    state = run.trainer.init(run.config.seed)
    # A run that was stopped before its first save goes on from its beginning.
    if run.config.resume and run.checkpoints.latest() is not None:
        restored = run.checkpoints.restore(state)
        state = restored.state
        for step, reason in restored.damaged.items():
            aside = run.checkpoints.set_aside(step)
            print(
                f"train.py: the checkpoint of iteration {step} is damaged ({reason}); it is now "
                f"{aside}, and the run goes on from iteration {restored.step}",
                file=sys.stderr,
            )
    return state, run.folder.keep_rows(int(state.iteration))


def train(run: Run, state: TrainState, rows: list[dict[str, Any]]) -> int:
    """Trains to the end or to Ctrl-C; returns the exit code."""
    config, folder = run.config, run.folder
    with Display(config.num_iterations, int(state.iteration)) as display:
        display.say(f"{run.name}: {describe(run)}; writing to {folder.path}")
        display.say(describe_memory(run.memory))
        before = time.perf_counter()
        iterate = run.trainer.compile(state)
        display.say(f"compiled in {time.perf_counter() - before:.0f} s")
        with stopped_by_ctrl_c(display) as stop:
            while int(state.iteration) < config.num_iterations and not stop:
                if 0 < config.exams.stop_when_solved <= solved_in_a_row(rows):
                    display.say(f"optimal play in {solved_in_a_row(rows)} exams in a row: done")
                    break
                state, row = iterate_once(run, iterate, state, rows)
                rows.append(row)
                folder.append_row(row)
                display.show(row)
                if row["iteration"] % config.checkpoint_every == 0:
                    run.checkpoints.save(row["iteration"], state)
    run.checkpoints.save(int(state.iteration), state)
    run.checkpoints.wait()
    if stop and int(state.iteration) < config.num_iterations:
        display.say(
            f"saved iteration {int(state.iteration)}; go on with: "
            f"{shlex.join(['python', *sys.argv])}{'' if config.resume else ' --resume'}"
        )
        return 130
    finish(run, state, rows, display)
    return 0


def solved_in_a_row(rows: list[dict[str, Any]]) -> int:
    """Counts the latest exams in a row in which play was optimal."""
    exams = [is_solved(row) for row in rows if "path/search_optimal" in row]
    return [*reversed(exams), False].index(False)


def iterate_once(
    run: Run, iterate: IterateFn, state: TrainState, rows: list[dict[str, Any]]
) -> tuple[TrainState, dict[str, Any]]:
    """Runs one iteration and, where it is due, an exam."""
    config = run.config
    state, metrics = iterate(state)
    number = int(state.iteration)
    spent = metrics["selfplay_seconds"] + metrics["learn_seconds"]
    budgets = config.search.num_simulations
    per_move = sum(budgets) if isinstance(budgets, tuple) else budgets
    rate = metrics["positions"] / metrics["selfplay_seconds"]
    row = {
        "iteration": number,
        "seconds": (rows[-1]["seconds"] if rows else 0.0) + spent,
        "positions_per_second": rate,
        "simulations_per_second": rate * per_move,
        **metrics,
    }
    if config.exams.every and number % config.exams.every == 0:
        start = time.perf_counter()
        row |= take_exams(run.exams, state.params, jax.random.PRNGKey(number))
        row["exam_seconds"] = time.perf_counter() - start
    return state, row


def finish(run: Run, state: TrainState, rows: list[dict[str, Any]], display: Display) -> None:
    """Takes the last exams, writes the summary and the picture, prints the table."""
    display.say("last exam …")
    results = take_exams(run.last_exams, state.params, jax.random.PRNGKey(run.config.seed + 1))
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
    display.say(f"in {run.folder.path}: summary.json, metrics.jsonl, curve.png, checkpoints/")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
