"""Training with search-contempt or AlphaZero: `python -m benchmarks.contempt_training GAME`.

GAME is a preset of `train.py`: a game with an exact solution, or connect-four, whose positions are
labelled by a perfect player. For each seed, two networks start from the same parameters and learn
with the settings of the preset. They differ only in the search of self-play: AlphaZero, or
search-contempt with as many simulations. After some iterations, both are measured on the same
positions, in which some move loses value: the share of moves that keep the value, by the network
alone and by AlphaZero's search on the network, without noise. The search that is measured is
therefore the same for both.

Differences are search-contempt's share minus AlphaZero's, paired by seed, with 95 % intervals by
the t distribution over seeds. `area` is the mean of a run's shares over all measured iterations
except the first, which is before training. Without any true difference, the interval of one row
would miss 0 in one of twenty cases. As there are several rows, judge by `area`.

Source: Joshi 2025 (arXiv 2504.07757), which proposes this training and does not measure it.
"""

import argparse
import dataclasses
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

import dualmctx
import games
from benchmarks.common import make_parser, show, write_json
from dualmctx import AlphaZero, Contempt
from dualmctx.evaluation.evaluations import make_evaluate
from dualmctx.experiment.assemble import build_trainer, record_of
from dualmctx.reproduction.estimates import Estimate, estimate
from dualmctx.runs.saved_network import build_network
from dualmctx.training.config import Config
from dualmctx.training.presets import PRESETS
from dualmctx.types import Environment, Policy, PolicyValueNetwork

ALGORITHMS = ("alphazero", "contempt")
AREA = "area"
MEASURES = ("network", "search")


class Row(NamedTuple):
    """A network after some iterations.

    Attributes:
      positions: new positions of self-play so far.
      decided: share of the games of self-play so far that were not drawn; `None` before any ended.
      network: share of moves that keep the value, by the network alone.
      search: the same share, by AlphaZero's search on the network.
      seconds: time of self-play and learning so far.
    """

    algorithm: str
    seed: int
    iteration: int
    positions: int
    decided: float | None
    network: float
    search: float
    seconds: float


MeasureFn = Callable[[Any], tuple[float, float]]
"""`params -> (share, share)`: of the network alone and of the search."""


def make_configs(options: Any) -> dict[str, Config]:
    """Makes both configurations: the preset with either search."""
    preset = PRESETS[options.game]
    number = options.simulations
    searches: dict[str, Policy] = {
        "alphazero": AlphaZero(number),
        "contempt": Contempt(number, options.limit),
    }
    selfplay = dataclasses.replace(preset.selfplay, num_games=options.num_games)
    settings = {"selfplay": selfplay, "num_iterations": options.iterations, "devices": 1}
    return {
        name: dataclasses.replace(preset, search=search, **settings)
        for name, search in searches.items()
    }


def find_positions(env: Environment, number: int) -> tuple[Any, np.ndarray]:
    """Returns `[S]` states in which some move loses value, and `[S, A]` bool, moves that do not."""
    if env.id == "connect_four":
        # Only Connect Four needs the perfect player.
        from benchmarks.connect_four import game_positions, make_solver

        labelled = game_positions(make_solver(), number, 0)
        return games.replay(env, labelled.histories), labelled.keeping
    solution = games.solve(env)
    states = games.replay(env, solution.histories)
    legal = np.asarray(states.legal_action_mask)
    rows = np.flatnonzero(np.any(legal & ~solution.optimal_actions, axis=1))
    rows = np.sort(np.random.default_rng(0).permutation(rows)[:number])
    return jax.tree.map(lambda x: x[rows], states), solution.optimal_actions[rows]


def make_measure(
    env: Environment, network: PolicyValueNetwork, simulations: int, number: int
) -> MeasureFn:
    """Makes the function that measures parameters; its search is compiled once for all runs."""
    states, keeping = find_positions(env, number)
    search_fn = dualmctx.make_search_fn(env, network, AlphaZero(simulations).for_evaluation())
    rows = np.arange(len(keeping))
    evaluate = make_evaluate(network, search_fn, min(512, len(rows)))

    def measure(params: Any) -> tuple[float, float]:
        found = evaluate(params, jax.random.PRNGKey(0), states)
        chosen = found.network_action[:, -1], found.action
        network_share, search_share = (float(np.mean(keeping[rows, x])) for x in chosen)
        return network_share, search_share

    return measure


def train(
    name: str, config: Config, seeds: list[int], every: int, make_measure_fn: Any
) -> Iterator[Row]:
    """Trains a network for each seed; yields its measurements every `every` iterations."""
    env = games.make(config.game, **config.game_parameters)
    network = build_network(record_of(name, config), env)
    measure, trainer = make_measure_fn(env, network), build_trainer(config, env, network)
    iterate = None
    for seed in seeds:
        state = trainer.init(seed)
        iterate = iterate or trainer.compile(state)
        ended = drawn = positions = 0
        seconds = 0.0
        for iteration in range(config.num_iterations + 1):
            if iteration:
                state, metrics = iterate(state)
                ended, drawn = ended + metrics["games"], drawn + metrics["draws"]
                positions += int(metrics["positions"])
                seconds += metrics["selfplay_seconds"] + metrics["learn_seconds"]
            if iteration % every == 0 or iteration == config.num_iterations:
                by_network, by_search = measure(state.params)
                yield Row(
                    algorithm=name,
                    seed=seed,
                    iteration=iteration,
                    positions=positions,
                    decided=round(1 - drawn / ended, 3) if ended else None,
                    network=round(by_network, 4),
                    search=round(by_search, 4),
                    seconds=round(seconds, 1),
                )


def summarize(rows: list[Row]) -> list[dict[str, Any]]:
    """Compares the algorithms after each measured iteration, and by their areas."""
    iterations = sorted({row.iteration for row in rows})
    seeds = sorted({row.seed for row in rows})
    found = {(row.algorithm, row.seed, row.iteration): row for row in rows}

    def shares(algorithm: str, measure: str, at: list[int]) -> np.ndarray:
        """Returns `[seeds]` shares, means over the iterations."""
        by_seed = [[getattr(found[algorithm, x, i], measure) for i in at] for x in seeds]
        return np.mean(by_seed, axis=1)

    lines = [(str(i), [i]) for i in iterations] + [(AREA, iterations[1:])]
    return [
        {"iteration": title, "measure": measure}
        | {name: round(float(shares(name, measure, at).mean()), 4) for name in ALGORITHMS}
        | _difference(shares("contempt", measure, at) - shares("alphazero", measure, at))
        for measure in MEASURES
        for title, at in lines
    ]


def _difference(gaps: np.ndarray) -> dict[str, Any]:
    """Returns the mean and the interval of `[seeds]` differences; one seed has no interval."""
    found: Estimate | None = estimate(gaps.tolist())
    low, high = (None, None) if found is None else (found.low, found.high)
    ends = {name: None if x is None else round(x, 4) for name, x in (("low", low), ("high", high))}
    return {"difference": round(float(gaps.mean()), 4)} | ends | {"seeds": len(gaps)}


def read_options(arguments: list[str] | None) -> tuple[argparse.ArgumentParser, Any]:
    """Reads the command line."""
    parser = make_parser(__doc__)
    solved = [name for name in PRESETS if name in ("connect2", "nim", "hsr", "tic-tac-toe")]
    add = parser.add_argument
    add("game", nargs="?", choices=(*solved, "connect-four"), help="a preset")
    add(
        "--seeds",
        type=int,
        nargs="+",
        default=[0, 1, 2, 3, 4],
        help="one run per algorithm and seed",
    )
    add("--iterations", type=int, default=30, help="training iterations")
    add("--every", type=int, default=5, help="iterations between measurements")
    add("--simulations", type=int, default=32, help="per move, of both")
    add("--limit", type=int, default=5, help="N_scl of search-contempt")
    add("--num-games", type=int, default=64, help="games side by side")
    add("--number", type=int, default=500, help="positions to measure, at most")
    options = parser.parse_args(arguments)
    if options.quick:
        options.game, options.seeds, options.iterations, options.every = "connect2", [0, 1], 2, 1
        options.simulations, options.num_games, options.limit = 16, 16, 2
    elif options.game is None:
        parser.error("GAME is missing, such as tic-tac-toe")
    return parser, options


def main(arguments: list[str] | None = None) -> None:
    """Trains, measures, and prints the tables."""
    parser, options = read_options(arguments)

    def make_measure_fn(env: Environment, network: PolicyValueNetwork) -> MeasureFn:
        return make_measure(env, network, options.simulations, options.number)

    rows = []
    try:
        for name, config in make_configs(options).items():
            for row in train(name, config, options.seeds, options.every, make_measure_fn):
                rows.append(row)
                # Each row is printed when it is done.
                print(row, file=sys.stderr)
    except ValueError as error:
        parser.error(str(error))
    show(f"Moves that keep the value in {options.game}", [row._asdict() for row in rows])
    table = summarize(rows)
    show(f"search-contempt (N_scl = {options.limit}) less AlphaZero, over seeds", table)
    write_json(options.json, {"rows": [row._asdict() for row in rows], "summary": table})


if __name__ == "__main__":
    main()
