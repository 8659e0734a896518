"""AlphaGo's pipeline against self-play in Connect Four: `python -m benchmarks.pipeline FOLDER`.

FOLDER is that of `dualmctx train connect-four --pipeline alphago`. Stages that it lacks are run
first, each by its command with the defaults, from games of OpenSpiel's MCTS with 1,000 simulations.
The times of the stages are measured by the clock and as time of all processor cores, and kept in
FOLDER/costs.json. Then the preset connect-four learns by self-play, once for each of `--seeds`, for
as long as all stages took together, without the last one, which only plays matches. The time of
the teacher's games counts. The learning rate's schedule is fitted to that time.

Both are measured in two ways:

- The share of positions in which the move keeps the game's value, by a perfect player's labels, on
  the two sets of positions of `benchmarks.strength`: for each policy alone, for the searches with
  `--simulations` per move, and for the teacher.
- A match from balanced openings, each played twice with the sides swapped: the search with the
  networks of the pipeline, self-play's search, both policies alone, the teacher, and uniformly
  random moves. `--budgets seconds` adds a match of the searches at equal time per move.

Shares and points have Wilson's 95 % intervals. The reports of the matches in FOLDER have Elo.
"""

import argparse
import dataclasses
import json
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.common import make_parser, show, write_json
from benchmarks.connect_four import balanced_openings, make_solver
from benchmarks.pipeline_measures import (
    list_measured,
    match_players,
    measure_shares,
    measure_teacher,
    play_match,
)
from benchmarks.pipeline_runs import (
    CLOCKS,
    Cost,
    read_costs,
    run_stages,
    seconds_of_training,
    stage_commands,
    train_until,
    write_costs,
)
from benchmarks.strength import find_positions
from dualmctx.runs.saved_network import Trained, export_trained, load_trained
from dualmctx.training.config import Config
from dualmctx.training.presets import PRESETS

PRESET = "connect-four"
SHOWN = ("first", "second", "wins", "draws", "losses", "points")
"""The columns of the tables of games."""


def train_self_play(
    folder: pathlib.Path, config: Config, seeds: Sequence[int], seconds: float, which: str
) -> dict[str, Trained]:
    """Trains the preset for a time with each seed, unless the folder has its network."""
    trained = {}
    for seed in seeds:
        name = f"self-play-{seed}"
        file = folder / f"{name}.safetensors"
        if not file.exists():
            print(f"{name}: {seconds:.0f} s ({which})", file=sys.stderr)
            found, cost = train_until(PRESET, config, seed, seconds, which)
            export_trained(found, file)
            write_costs(folder, read_costs(folder) | {name: cost})
        trained[name] = load_trained(file)
    return trained


def read_options(arguments: list[str] | None) -> tuple[argparse.ArgumentParser, Any]:
    """Reads the command line."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("folder", type=pathlib.Path, nargs="?", metavar="FOLDER", help="of the pipeline")
    add("--minutes", type=float, help="of self-play; default: the time of the stages")
    add("--equal", choices=tuple(CLOCKS), default="clock", help="which time is equal")
    add("--seeds", type=int, nargs="+", default=[0], help="of self-play")
    add("--games", type=int, default=2000, help="of the teacher, for the data set")
    add("--teacher", type=int, default=1000, help="simulations per move of the teacher")
    add("--simulations", type=int, default=85, help="per move of the searches with networks")
    add("--budgets", nargs="*", default=["simulations"], choices=("simulations", "seconds"))
    add("--positions", type=pathlib.Path, nargs="+", metavar="FILE.csv", help="labelled")
    add("--number", type=int, default=500, help="positions to make, of each kind")
    add("--openings", type=int, default=50, help="openings, each played twice")
    add("--seed", type=int, default=0, help="seed of positions and openings")
    options = parser.parse_args(arguments)
    if options.folder is None:
        parser.error("FOLDER is missing: a new folder, or one of --pipeline alphago")
    if options.quick:
        options.number, options.openings, options.simulations, options.teacher = 8, 2, 4, 10
        options.games, options.minutes = 40, 0.001
    return parser, options


def make_config(*, quick: bool) -> Config:
    """Returns the preset, or a tiny version of it."""
    preset = PRESETS[PRESET]
    if not quick:
        return preset
    return dataclasses.replace(
        preset,
        network=dataclasses.replace(preset.network, width=8),
        selfplay=dataclasses.replace(preset.selfplay, num_games=8, num_steps=4),
        learner=dataclasses.replace(preset.learner, batch_size=16, num_updates=2, capacity=256),
    )


QUICK = {
    "games": ["--validation", "0.2", "--test", "0.2"],
    "supervised": [
        *("--supervised.num-iterations", "1", "--supervised.num-updates", "2"),
        *("--supervised.batch-size", "32"),
        *("--network.trunk", "mlp", "--network.width", "8"),
    ],
    "reinforced": [
        *("--reinforce.num-iterations", "1", "--reinforce.num-games", "4"),
        *("--reinforce.eval-games", "4"),
    ],
    "value": [
        *("--value.num-games", "64", "--value.num-iterations", "1", "--value.num-updates", "2"),
        *("--value.batch-size", "16", "--value.games-per-batch", "32"),
    ],
    "player": ["--player.num-simulations", "4", "--player.num-games", "4"],
}
"""Flags of a tiny size, by stage."""


def run_all(options: Any) -> tuple[dict[str, Cost], dict[str, Trained]]:
    """Runs the stages and self-play, as far as the folder lacks them."""
    folder = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    commands = stage_commands(folder, options.games, options.teacher)
    if options.quick:
        commands = {name: [*command, *QUICK[name]] for name, command in commands.items()}
    costs = run_stages(folder, commands)
    seconds = options.minutes and 60 * options.minutes
    seconds = seconds or seconds_of_training(costs, options.equal)
    config = make_config(quick=options.quick)
    trained = train_self_play(folder, config, options.seeds, seconds, options.equal)
    return costs | read_costs(folder), trained


def main(arguments: list[str] | None = None) -> None:
    """Runs the stages that the folder lacks, measures, and prints the tables."""
    parser, options = read_options(arguments)
    try:
        solver = make_solver()
        labelled = find_positions(solver, options)
        costs, self_play = run_all(options)
        measured = list_measured(options.folder, self_play, options.simulations)
        file = options.folder / "openings.jsonl"
        openings = balanced_openings(solver, options.openings, options.seed)
        file.write_text("".join(json.dumps({"moves": x}) + "\n" for x in openings))
        shares, matches = [], []
        for one in measured:
            shares += [row._asdict() for row in measure_shares(one, labelled)]
            print(shares[-1], file=sys.stderr)
        shares += [row._asdict() for row in measure_teacher(options.teacher, labelled)]
        for budget in options.budgets:
            numbers = (options.simulations, options.teacher)
            players = match_players(options.folder, list(self_play), *numbers, budget)
            found = play_match(options.folder, players, file, 2 * len(openings), budget)
            matches += [row._asdict() for row in found]
    except (ValueError, OSError) as error:
        parser.error(str(error))
    times = [
        {"run": name} | {x: y and round(y, 1) for x, y in cost._asdict().items()}
        for name, cost in costs.items()
    ]
    show("Seconds", times)
    show("Moves that keep the game's value", shares)
    for budget in options.budgets:
        rows = [{x: row[x] for x in SHOWN} for row in matches if row["budget"] == budget]
        show(f"Games, budget {budget}, {2 * len(openings)} of each pair", rows)
    content = {"seconds": times, "positions": shares, "matches": matches}
    write_json(options.json, content)


if __name__ == "__main__":
    main()
