"""The experiments of the Dual MCTS paper: `python -m benchmarks.paper --out FOLDER`.

AlphaZero, MPV-MCTS and Dual MCTS learn the games of the paper, their checkpoints play matches, and
a report shows the results beside those of the paper. The same command continues after a stop.
docs/reproduce.md describes the experiments and how long they take.
"""

import argparse
import contextlib
import dataclasses
import functools
import importlib.util
import itertools
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import docstring_parser
import jax

import games
from benchmarks.common import ending, get_environment, make_parser
from benchmarks.ledger import write_measurement
from benchmarks.paper_report import Outcome, Row, checkpoint_name, make_curves, write_report
from benchmarks.paper_setup import (
    COMPARISONS,
    GAMES,
    QUICK,
    Algorithm,
    Size,
    make_algorithms,
    make_config,
    passes,
)
from dualmctx import UserError, load_trained
from dualmctx.commands.tournament_progress import play
from dualmctx.experiment.assemble import Run, assemble
from dualmctx.experiment.evals import EvalFn, eval_key, run_evals
from dualmctx.experiment.runner import initial_state
from dualmctx.experiment.selfplay import stage_run
from dualmctx.matches import Tournament, read_games, search_player
from dualmctx.runs.folder import lock_folder
from dualmctx.runs.progress import showing
from dualmctx.training import TrainState
from dualmctx.training.config import Config
from dualmctx.training.trainer import IterateFn
from dualmctx.types import Environment


@dataclasses.dataclass
class Training:
    """A run in progress: its state, and its rows, one per step, with the function for new ones."""

    run: Run
    state: TrainState
    rows: list[Row]
    append: Callable[[Row], None]


def open_training(name: str, config: Config, locks: contextlib.ExitStack) -> Training:
    """Starts or continues a run, and keeps its folder locked; step 0 has a checkpoint too.

    Raises:
      UserError: if the folder holds another run or a damaged one, or another process writes to it.
    """
    locks.enter_context(lock_folder(Path(str(config.out)), resume=config.resume))
    run, warn = assemble(name, config), functools.partial(print, file=sys.stderr)
    state, metrics = initial_state(stage_run(run, None, warn))
    if run.checkpoints.latest() is None:
        run.checkpoints.save(0, state)
    return Training(run, state, *metrics)


def compile_step(run: Run) -> IterateFn:
    """Compiles a training step: self-play, then as many optimiser steps as the buffer has batches.

    The losses are those of the first pass over the buffer.
    """
    state = run.trainer.init(0)
    iterate, learn = run.trainer.compile(state), run.trainer.lower(state).learn.compile()

    def step(state: TrainState) -> tuple[TrainState, dict[str, float]]:
        state, row = iterate(state)
        keys = jax.random.split(state.rng_key, passes(int(state.iteration)))
        rng_key, *more = jax.block_until_ready([*keys])
        params, opt_state = state.params, state.opt_state
        start = time.perf_counter()
        for key in more:
            params, opt_state, _ = learn(params, opt_state, state.buffer_state, key)
        jax.block_until_ready(params)
        row["learn_seconds"] += time.perf_counter() - start
        row["replay_ratio"] *= 1 + len(more)
        return state._replace(params=params, opt_state=opt_state, rng_key=rng_key), row

    # The first call of a program takes longer; the second step is the first with two passes.
    step(step(state)[0])
    return step


def make_programs(run: Run) -> tuple[IterateFn, tuple[EvalFn, ...]]:
    """Returns the compiled training step and the evals; runs with other seeds share them."""
    return compile_step(run), run.evals


def take_step(x: Training, step_fn: IterateFn, evals: tuple[EvalFn, ...]) -> None:
    """Takes a step of a run; its row, with the evals, and its checkpoint are then on the disk."""
    x.state, row = step_fn(x.state)
    iteration, spent = int(x.state.iteration), row["selfplay_seconds"] + row["learn_seconds"]
    row |= {"iteration": iteration, "seconds": spent + (x.rows[-1]["seconds"] if x.rows else 0.0)}
    if x.run.config.evals.every:
        row |= run_evals(evals, x.state.params, eval_key(x.run.config.seed, iteration))
    x.rows.append(row)
    x.append(row)
    x.run.checkpoints.save(iteration, x.state)
    # Writing in the background would disturb the timing of the next run.
    x.run.checkpoints.wait()


def train(trainings: Sequence[Training], size: Size) -> None:
    """Trains all runs to their end, and shows the progress.

    They take turns, one step each, so a machine that slows down for a while slows all of them.
    """
    unfinished = [x for x in trainings if len(x.rows) < size.steps]
    first = {x.run.name: x.run for x in reversed(unfinished)}
    programs = {name: make_programs(run) for name, run in first.items()}
    turns = itertools.product(range(1, size.steps + 1), unfinished)
    with showing() as show:
        for done, (step, x) in enumerate(turns, start=1):
            if len(x.rows) < step:
                take_step(x, *programs[x.run.name])
            show("training steps", done, size.steps * len(unfinished))


class Experiment(NamedTuple):
    """The experiment in one game: its name in `GAMES`, names in `COMPARISONS`, and its folder."""

    game: str
    size: Size
    seeds: tuple[int, ...]
    comparisons: tuple[str, ...]
    folder: Path

    @property
    def names(self) -> set[str]:
        """The algorithms of all comparisons."""
        return {name for x in self.comparisons for name in COMPARISONS[x]}


Trainings = dict[str, list[Training]]
"""The runs of each algorithm, one per seed."""


def train_all(
    experiment: Experiment, locks: contextlib.ExitStack
) -> tuple[dict[str, Algorithm], Trainings]:
    """Trains all algorithms with all seeds; returns the algorithms and the runs."""
    game, size = GAMES[experiment.game], experiment.size
    algorithms, trainings = make_algorithms(game, size), Trainings()
    for name in sorted(experiment.names):
        make = functools.partial(make_config, name, algorithms[name], game, size, experiment.folder)
        trainings[name] = [open_training(name, make(seed), locks) for seed in experiment.seeds]
    train([x for of_seed in zip(*trainings.values(), strict=True) for x in of_seed], size)
    return algorithms, trainings


def make_tournament(
    experiment: Experiment, env: Environment, trainings: Mapping[str, Training], seed: int
) -> Tournament:
    """Returns the matches between the checkpoints of one seed.

    Each checkpoint plays with its own search, without noise. Two checkpoints meet if their
    algorithms are in the same comparison; they meet once even if several comparisons have both.
    """
    size, players = experiment.size, []
    chosen = [(name, step) for name in sorted(experiment.names) for step in size.evaluated]
    for name, step in chosen:
        config = trainings[name].run.config
        found = load_trained(str(config.out), step)
        policy, options = config.search.for_evaluation(), config.network.model_kwargs()
        title = checkpoint_name(name, step)
        players.append(search_player(title, env, found.network, found.params, policy, **options))
    groups = [{*COMPARISONS[x]} for x in experiment.comparisons]
    pairings = [
        (i, j)
        for (i, (one, _)), (j, (other, _)) in itertools.combinations(enumerate(chosen), 2)
        if any({one, other} <= group for group in groups)
    ]
    openings = GAMES[experiment.game].make_openings(env, size.openings, seed)
    return Tournament(env, players, openings, pairings, seed=seed, batch_size=size.openings)


def run_experiment(experiment: Experiment) -> dict[str, dict[str, Outcome]]:
    """Completes training and matches; returns the outcomes of each comparison, by algorithm.

    Raises:
      UserError: if a folder holds another run or another tournament, or is damaged.
    """
    size, seeds, outcomes = experiment.size, experiment.seeds, {}
    with contextlib.ExitStack() as locks:
        algorithms, trainings = train_all(experiment, locks)
        # Players of all seeds share compiled programs if they have the same environment.
        env, played = games.make(GAMES[experiment.game].name), []
        for i, seed in enumerate(seeds):
            of_seed = {name: x[i] for name, x in trainings.items()}
            tournament = make_tournament(experiment, env, of_seed, seed)
            folder = experiment.folder / "matches" / f"seed-{seed}"
            play(tournament, folder)
            played.append(read_games(folder / "games.jsonl"))
    for comparison in experiment.comparisons:
        rows = {name: [x.rows for x in trainings[name]] for name in COMPARISONS[comparison]}
        curves = [
            make_curves(found, size.evaluated, {x: y[i] for x, y in rows.items()})
            for i, found in enumerate(played)
        ]
        outcomes[comparison] = {
            name: Outcome(algorithms[name].cost, rows[name], [x[name] for x in curves])
            for name in COMPARISONS[comparison]
        }
    return outcomes


def read_options(arguments: list[str] | None) -> tuple[argparse.ArgumentParser, Any]:
    """Reads the command line."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("--out", type=Path, default=Path("runs/paper"), help="folder of runs, games and reports")
    add("--games", nargs="+", choices=GAMES, help="default: all")
    add("--seeds", nargs="+", type=int, help="one run of each algorithm per seed; default: 0 1 2")
    add("--comparisons", nargs="+", choices=COMPARISONS, help="default: all except controls")
    texts = {x.arg_name: x.description for x in docstring_parser.parse_from_object(Size).params}
    for name, default in Size()._asdict().items():
        kind, number = (int, 2) if name == "budgets" else (type(default), None)
        text = f"{texts[name]}; default: {default}"
        add(f"--{name.replace('_', '-')}", type=kind, nargs=number, help=text)
    return parser, parser.parse_args(arguments)


def plan(options: argparse.Namespace) -> list[Experiment]:
    """Returns the experiments after a check of their settings, before anything is written.

    Raises:
      UserError: if a setting is out of range or does not fit a game, or OpenSpiel is missing.
    """
    if importlib.util.find_spec("pyspiel") is None:
        raise UserError('α-rank needs OpenSpiel: pip install -e ".[compare]"')
    quick = options.quick
    found = options.games or (["nim", "connect-four"] if quick else [*GAMES])
    seeds = tuple(dict.fromkeys(options.seeds or ([0] if quick else [0, 1, 2])))
    comparisons = tuple(options.comparisons or [*COMPARISONS][: 1 if quick else 3])
    given = {x: y for x, y in vars(options).items() if x in Size._fields and y is not None}
    size = (QUICK if quick else Size())._replace(**given)
    size = size._replace(budgets=tuple(size.budgets))
    size.check()
    for row in (GAMES[game] for game in found):
        for name, algorithm in make_algorithms(row, size).items():
            make_config(name, algorithm, row, size, options.out, min(seeds))
        row.make_openings(games.make(row.name), size.openings, seeds[0])
    return [Experiment(x, size, seeds, comparisons, options.out / x) for x in found]


def main(arguments: list[str] | None = None) -> None:
    """Runs the experiments and writes their reports."""
    parser, options = read_options(arguments)
    found = []
    with ending(parser):
        for experiment in plan(options):
            print(f"{experiment.game}: training, then matches", file=sys.stderr)
            outcomes = run_experiment(experiment)
            command = shlex.join(["python", "-m", "benchmarks.paper", *(arguments or sys.argv[1:])])
            preamble = f"{command}. {get_environment()}. {experiment.size}."
            file = experiment.folder / "report.md"
            write_report(file, experiment.game, preamble, outcomes)
            print(f"results in {file}")
            found += [
                {"game": experiment.game, "comparison": x, "algorithm": name} | y._asdict()
                for x, by_name in outcomes.items()
                for name, y in by_name.items()
            ]
    write_measurement(options.json, found)


if __name__ == "__main__":
    main()
