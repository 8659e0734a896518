"""Quality of the Connect Four networks of `dualmctx reproduce`: `python -m benchmarks.learning`.

The arguments are folders of experiments, such as `runs/reproduce/connect-four`. After each of the
training steps of `--steps`, the benchmark measures the share of positions (see
`benchmarks.strength`) in which a move keeps the game's value, with Wilson's intervals. It measures
three moves: of the network alone, of the search of the algorithm, and of AlphaZero's search by the
final head with 85 simulations (`--simulations`), which is the same for all networks. Two searches
on one network separate the value of the search from the knowledge of the network.

Two controls cost about as much as Dual's search with as many simulations: `alphazero_42` has half
of the simulations by the final head, and `alphazero_early` has all of them by the first of two
shared heads (`None` for other networks). `weights` is the part of the search's weights on moves
that keep the value. It is the training target of the network without the noise.
"""

import argparse
import pathlib
import statistics
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
import numpy as np

import games
from benchmarks.common import Estimate, estimate, make_parser, show, untrained_model, write_json
from benchmarks.connect_four import Positions, make_solver
from benchmarks.strength import (
    GAME,
    Subject,
    Tools,
    find_positions,
    make_tools,
)
from dualmctx import AlphaZero
from dualmctx.experiment.evals import score_exactly
from dualmctx.models.network import Network
from dualmctx.runs.metrics_file import read_metrics
from dualmctx.runs.saved_network import load_trained
from dualmctx.runs.saved_policy import build_policy
from dualmctx.types import Policy, PolicyValueNetwork


class Run(NamedTuple):
    """A run of an algorithm: its name, its seed, and a subject for each measured step."""

    algorithm: str
    seed: int
    subjects: list[Subject]


class Row(NamedTuple):
    """The measurements of a run after a step; `minutes` are of training alone."""

    algorithm: str
    seed: int
    step: int
    minutes: float | None
    positions: str
    random: float
    network: Estimate
    weights: float
    search: Estimate
    alphazero: Estimate
    alphazero_weights: float
    alphazero_42: Estimate
    alphazero_42_weights: float
    alphazero_early: Estimate | None
    alphazero_early_weights: float | None


class Measured(NamedTuple):
    """Over some positions: shares of moves that keep the value, and mean weights on such moves."""

    network: float
    search: float
    weights: float


def find_runs(
    folder: pathlib.Path, steps: list[int], algorithms: list[str] | None = None
) -> list[Run]:
    """Finds the runs of a Connect Four experiment, with their networks after the given steps.

    Args:
      folder: the folder of the experiment.
      steps: training steps after which to measure.
      algorithms: names of algorithms; `None` for all in the folder.

    Raises:
      ValueError: if there are no such runs, or no network was kept after a step.
    """
    found = sorted(folder.glob("*/seed-*/steps"))
    names = sorted({path.parts[-3] for path in found})
    if not found:
        raise ValueError(f"{folder} has no runs of `dualmctx reproduce`, ALGORITHM/seed-N")
    for name in algorithms or ():
        if name not in names:
            raise ValueError(f"{folder} has no runs of {name}; it has {', '.join(names)}")
    paths = [path for path in found if path.parts[-3] in (algorithms or names)]
    return [_read_run(path.parent, steps) for path in paths]


def _read_run(path: pathlib.Path, steps: list[int]) -> Run:
    rows = {row["iteration"]: row for row in read_metrics(path / "metrics.jsonl")}
    subjects = []
    for step in steps:
        trained = load_trained(path / "steps" / f"{step:04d}.safetensors")
        if trained.record["game"] != GAME:
            raise ValueError(f"{path} is a run of {trained.record['game']}, not {GAME}")
        seconds = sum(row["seconds"] for number, row in rows.items() if number <= step)
        policy = build_policy(trained.record).for_evaluation()
        some = (trained.env, trained.network, trained.params, policy, step)
        subjects.append(Subject(*some, round(seconds / 60, 2)))
    return Run(path.parent.name, int(path.name.removeprefix("seed-")), subjects)


def measure(tools: Tools, params: Any, positions: Positions) -> Measured:
    """Measures a network and a search on labelled positions."""
    states = games.replay(tools.env, positions.histories)
    found = tools.evaluate(params, jax.random.PRNGKey(0), states)
    scores = score_exactly(found, positions.keeping, positions.values)
    return Measured(
        network=scores["network_optimal"],
        search=scores["search_optimal"],
        weights=float(np.mean(np.sum(found.action_weights * positions.keeping, axis=1))),
    )


def controls(network: PolicyValueNetwork, simulations: int) -> dict[str, Policy | None]:
    """Returns AlphaZero's searches of a network by name; `None` if the network lacks the head."""
    has_early = isinstance(network, Network) and len(network.head_depths) == 2
    return {
        "alphazero": AlphaZero(simulations).for_evaluation(),
        "alphazero_42": AlphaZero(max(1, simulations // 2)).for_evaluation(),
        "alphazero_early": AlphaZero(simulations, head=0).for_evaluation() if has_early else None,
    }


def measure_run(
    run: Run, labelled: dict[str, Positions], batch_size: int, simulations: int
) -> Iterable[Row]:
    """Measures a run after each of its steps; each search is compiled once.

    Args:
      run: the run to measure.
      labelled: the positions of each kind.
      batch_size: positions searched at once.
      simulations: simulations of AlphaZero's search.
    """
    first = run.subjects[0]
    policies = {"search": first.policy} | controls(first.network, simulations)
    # Equal searches are measured once, under the first of their names.
    names = list(policies)
    same = {name: names[[*policies.values()].index(policies[name])] for name in names}
    tools = {
        name: make_tools(first._replace(policy=policies[name]), batch_size)
        for name in names
        if same[name] == name and policies[name] is not None
    }
    for subject in run.subjects:
        for kind, positions in labelled.items():
            number = len(positions.histories)
            found = {name: measure(x, subject.params, positions) for name, x in tools.items()}
            columns: dict[str, Any] = {}
            for name in names[1:]:
                x = found.get(same[name])
                columns[name] = x and estimate(x.search, number)
                columns[f"{name}_weights"] = x and round(x.weights, 3)
            own = found["search"]
            yield Row(
                algorithm=run.algorithm,
                seed=run.seed,
                step=subject.iteration,
                minutes=subject.minutes,
                positions=kind,
                random=round(positions.random_share(), 3),
                network=estimate(own.network, number),
                weights=round(own.weights, 3),
                search=estimate(own.search, number),
                **columns,
            )


def mean_over_seeds(rows: list[Row]) -> list[dict[str, Any]]:
    """Returns the means of all shares over seeds, in the order of the rows."""
    groups: dict[tuple, list[Row]] = {}
    for row in rows:
        groups.setdefault((row.algorithm, row.step, row.positions), []).append(row)
    return [
        {
            "algorithm": algorithm,
            "step": step,
            "minutes": _mean(x.minutes or 0.0 for x in some),
            "positions": positions,
            "seeds": len(some),
            **{name: _mean_column(some, name) for name in Row._fields[6:]},
        }
        for (algorithm, step, positions), some in groups.items()
    ]


def _mean_column(rows: list[Row], name: str) -> float | None:
    cells = [getattr(row, name) for row in rows]
    if None in cells:
        return None
    return _mean(x.share if isinstance(x, Estimate) else x for x in cells)


def _mean(shares: Iterable[float]) -> float:
    return round(statistics.fmean(shares), 3)


def read_options(arguments: list[str] | None) -> tuple[argparse.ArgumentParser, Any]:
    """Reads the command line."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("folders", type=pathlib.Path, nargs="*", metavar="FOLDER", help="an experiment")
    add("--steps", type=int, nargs="+", default=[0, 4, 8, 12, 16], help="steps to measure")
    add("--algorithms", nargs="+", metavar="NAME", help="default: all")
    add("--positions", type=pathlib.Path, nargs="+", metavar="FILE.csv", help="labelled")
    add("--number", type=int, default=500, help="positions to make, of each kind")
    add("--simulations", type=int, default=85, help="of AlphaZero's search")
    add("--batch-size", type=int, default=250, help="positions searched at once")
    add("--seed", type=int, default=0, help="seed of the positions")
    options = parser.parse_args(arguments)
    if options.quick:
        options.number, options.batch_size, options.simulations = 8, 8, 4
    elif not options.folders:
        parser.error("FOLDER is missing: `dualmctx reproduce --games connect-four` makes one")
    return parser, options


def main(arguments: list[str] | None = None) -> None:
    """Runs the benchmark and prints its tables."""
    parser, options = read_options(arguments)
    try:
        runs = [
            run
            for folder in options.folders
            for run in find_runs(folder, options.steps, options.algorithms)
        ]
        labelled = find_positions(make_solver(), options)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    if not options.folders:
        policy = AlphaZero(4).for_evaluation()
        runs = [Run("untrained", 0, [Subject(*untrained_model(), policy, 0, None)])]
    rows = []
    for run in runs:
        for row in measure_run(run, labelled, options.batch_size, options.simulations):
            rows.append(row)
            # Each row is printed when it is done: all rows take many minutes.
            print(row._asdict(), file=sys.stderr)
    show("Moves that keep the game's value", [row._asdict() for row in rows])
    show("Means over seeds", mean_over_seeds(rows))
    write_json(options.json, [row._asdict() for row in rows])


if __name__ == "__main__":
    main()
