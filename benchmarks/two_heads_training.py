"""What a second head is worth in training: `python -m benchmarks.two_heads_training --out FOLDER`.

benchmarks/README.md lists the searches ("arms"). All run equally many blocks of the network per
move, as closely as whole simulations allow. The early head comes after one block. Every arm trains
both heads, so only the search differs.

After every few steps, the network is exported to FOLDER/networks, and a perfect player judges it on
fixed positions: some after random moves (`random`), and some of games between bots in which some
move changes the result (`games`). A row of FOLDER/strength.jsonl has the shares of moves that keep
the result of the game: `network`, without a search, by the head that the search plays with (the
early head in `early`, else the final head); `search`, by the arm's own search without noise; and
`common`, by AlphaZero with 32 simulations of the final head, the same search for all arms.

The summary has means over seeds, differences to `final`, `early` and `root` paired by seed, at
equal steps and at equal time, and the time to levels that all seeds reach. The intervals are 95 % t
intervals over seeds, for these positions. Time is processor time of self-play and learning, because
other work disturbs the clock. Rows of a run on a GPU have none: the summary gives them the mean
time of the rows of a CPU with their arm and step. At equal time the slower arm is cut off before
its learning rate has fallen, which counts against it.

The arms of a seed take turns, one step each, and a seed is complete before the next one starts. The
same command continues after a stop.
"""

import contextlib
import dataclasses
import functools
import itertools
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

import games
from benchmarks.common import Row, ending, keeping_rows, make_parser
from benchmarks.connect_four import Positions, game_positions, labelled, random_positions
from benchmarks.ledger import write_measurement
from benchmarks.paper import Training, compile_step, open_training, take_step
from benchmarks.paper_setup import GAMES, Algorithm, Size, make_config
from benchmarks.strength import keeps_value
from benchmarks.two_heads_training_report import draw_curves, list_ends, show_summary, summarize
from dualmctx import AlphaZero, Dual, Gumbel, UserError, export_trained, load_trained
from dualmctx.matches import Player, policy_player, search_player
from dualmctx.models.costs import move_cost
from dualmctx.runs.folder import keep_settings
from dualmctx.runs.journal import read_rows
from dualmctx.runs.progress import showing
from dualmctx.training.config import Config
from dualmctx.training.trainer import IterateFn
from dualmctx.types import Environment

GAME = GAMES["connect-four"]
EARLY_BLOCKS = 1
COMMON = AlphaZero(32).for_evaluation()
"""The search that is the same for all arms."""
POSITIONS_SEED = 0
ROWS = "strength.jsonl"
KINDS = {"random": random_positions, "games": game_positions}


class Setup(NamedTuple):
    """The size of the experiment.

    Attributes:
      training: the size of a run; its `budgets` are not used.
      evaluations: evaluations by the final head per move, the root's not counted.
      number: positions of each kind on which networks are judged.
    """

    training: Size = Size(
        steps=72,
        positions=16_384,
        num_games=256,
        batch_size=512,
        width=256,
        num_blocks=4,
        evaluate_every=8,
    )
    evaluations: int = 16
    number: int = 1000

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that the folder keeps, as JSON values."""
        size = self.training._replace(budgets=[*self.training.budgets])
        return self._asdict() | {"training": size._asdict()}


QUICK = Setup(Size(2, 64, 16, 32, width=8, num_blocks=4, evaluate_every=1), 3, 16)
"""A tiny size, only to show that everything works."""


def make_arms(setup: Setup) -> dict[str, Algorithm]:
    """Returns the arms; see the module. A move of each runs as many blocks as one of `final`."""
    full, own = setup.training.num_blocks, EARLY_BLOCKS
    rest, heads = full - own, (own, full)
    # The root's evaluation is one more. With two heads, the root is evaluated by both: Dual resumes
    # from the early head, and the second opinion runs the whole network.
    blocks = full * (setup.evaluations + 1)
    simulations = blocks // own
    small, large = Size().budgets
    large = max(1, round((blocks - full) / (small / large * own + rest)))
    small = (blocks - full - large * rest) // own
    paper = Dual((small, large), num_rounds=min(5, large), action_weights="all_visits")
    dual = Dual(((blocks - full - rest) // own, 1), num_rounds=1, action_weights="all_visits")
    return {
        "dual-paper": Algorithm(paper, heads),
        "dual": Algorithm(dual, heads),
        "final": Algorithm(AlphaZero(setup.evaluations), heads),
        "early": Algorithm(AlphaZero(simulations - 1, head=0), heads),
        "root": Algorithm(AlphaZero((blocks - own - full) // own, head=0, root_head=-1), heads),
        "gumbel": Algorithm(Gumbel(setup.evaluations), heads),
    }


ARMS = tuple(make_arms(Setup()))


def blocks_per_move(arm: Algorithm) -> int:
    """Returns the blocks of the network that a move runs, the evaluations of the root included."""
    first, *others = (arm.head_depths[head] for head in arm.policy.heads)
    # Only a search with several trees resumes the evaluation of its root.
    resumes = isinstance(arm.policy, Dual)
    root = first + sum(depth - first if resumes else depth for depth in others)
    return (move_cost(arm.policy, arm).blocks or 0) + root


def configure(name: str, setup: Setup, folder: Path, seed: int) -> Config:
    """Returns the configuration of a run; only the search and the heads differ between arms."""
    config = make_config(name, make_arms(setup)[name], GAME, setup.training, folder / "runs", seed)
    return dataclasses.replace(
        config,
        network=dataclasses.replace(config.network, trunk="mlp"),
        selfplay=dataclasses.replace(config.selfplay, random_plies=GAME.temperature_plies),
        learner=dataclasses.replace(config.learner, augment=True),
        # Networks are exported, so that old checkpoints, with their buffers, can go.
        keep=2,
    )


def with_processor_time(step_fn: IterateFn) -> IterateFn:
    """Adds the processor time of a training step to its row; `None` on a GPU."""

    def step(state: Any) -> Any:
        start = time.process_time()
        state, row = step_fn(state)
        seconds = time.process_time() - start
        is_timed = jax.default_backend() == "cpu"
        return state, row | {"processor_seconds": seconds if is_timed else None}

    return step


def load_positions(folder: Path, number: int) -> dict[str, Positions]:
    """Reads the labelled positions of the folder; makes and labels those that it does not have."""
    files = {kind: folder / "positions" / f"{kind}.csv" for kind in KINDS}
    return {
        kind: labelled(file, lambda kind=kind: KINDS[kind](number, POSITIONS_SEED))
        for kind, file in files.items()
    }


class Examiner:
    """Measures networks on labelled positions."""

    def __init__(self, setup: Setup, folder: Path) -> None:
        """Reads or makes the positions."""
        self.arms = make_arms(setup)
        # One environment for all networks, so that they share compiled programs.
        self.env: Environment = games.make(GAME.name)
        self.positions = load_positions(folder, setup.number)

    def measure(self, name: str, file: Path) -> dict[str, dict[str, float]]:
        """Returns, for both kinds of positions, the share of moves that keep the value."""
        players = self.make_players(name, file)
        return {
            kind: {
                measure: round(float(keeps_value(self.env, player, positions).mean()), 5)
                for measure, player in players.items()
            }
            for kind, positions in self.positions.items()
        }

    def make_players(self, name: str, file: Path) -> dict[str, Player]:
        """Returns the players of a network: without a search, with its own, with the common one."""
        trained, policy = load_trained(file), self.arms[name].policy
        network, params = trained.network, trained.params
        make = functools.partial(search_player, env=self.env, network=network, params=params)
        head = 0 if policy.heads == (0,) else -1
        return {
            "network": policy_player("network", network, params, head=head),
            "search": make("search", policy=policy.for_evaluation()),
            "common": make("common", policy=COMMON),
        }


@dataclasses.dataclass
class Experiment:
    """The experiment in a folder: the rows of its journal, and a function that appends one."""

    setup: Setup
    folder: Path
    rows: list[Row]
    append: Callable[[Row], None]

    def __post_init__(self) -> None:
        """Reads or makes the positions."""
        self.programs: dict[str, IterateFn] = {}
        self.examiner = Examiner(self.setup, self.folder)

    def run_seed(self, seed: int, arms: Sequence[str], show: Callable[[int], None]) -> None:
        """Trains and measures the arms with a seed; they take turns, one step each."""
        size = self.setup.training
        done = {(row["arm"], row["seed"], row["step"]) for row in self.rows}
        if {(arm, seed, step) for arm in arms for step in size.evaluated} <= done:
            return
        with contextlib.ExitStack() as locks:
            make = functools.partial(configure, setup=self.setup, folder=self.folder, seed=seed)
            trainings = [open_training(arm, make(arm), locks) for arm in arms]
            turns = itertools.product(range(size.steps + 1), trainings)
            for number, (step, x) in enumerate(turns, start=1):
                if len(x.rows) < step:
                    take_step(x, self._program(x), ())
                if step in size.evaluated and (x.run.name, seed, step) not in done:
                    self.append(self._measure(x, step))
                show(number)

    def _program(self, x: Training) -> IterateFn:
        """Returns the compiled step of an arm; runs with other seeds share it."""
        if x.run.name not in self.programs:
            self.programs[x.run.name] = with_processor_time(compile_step(x.run))
        return self.programs[x.run.name]

    def _measure(self, x: Training, step: int) -> Row:
        """Exports the network of a step and measures it."""
        name, seed = x.run.name, x.run.config.seed
        file = self.folder / "networks" / name / f"seed-{seed}" / f"step-{step}.safetensors"
        if not file.exists():
            # The checkpoint of step 0 is written in the background.
            x.run.checkpoints.wait()
            export_trained(load_trained(str(x.run.config.out), step), file)
        positions = step * self.setup.training.positions
        spent = [row["processor_seconds"] for row in x.rows[:step]]
        is_timed = None not in spent and jax.default_backend() == "cpu"
        seconds = x.rows[step - 1]["seconds"] if step else 0.0
        return {
            "arm": name,
            "seed": seed,
            "step": step,
            "positions": positions,
            "blocks": positions * blocks_per_move(self.examiner.arms[name]),
            "seconds": seconds if is_timed else None,
            "processor_seconds": sum(spent) if is_timed else None,
            "kept": self.examiner.measure(name, file),
        }


def run(setup: Setup, folder: Path, seeds: list[int], arms: list[str]) -> list[Row]:
    """Completes training and measurements; returns the rows of all measurements.

    Raises:
      UserError: if the folder holds another experiment or is damaged.
    """
    keep_settings(folder, setup.settings, {})
    steps = len(arms) * (setup.training.steps + 1)
    with keeping_rows(folder / ROWS) as (rows, append), showing() as show:
        experiment = Experiment(setup, folder, rows, append)
        for i, seed in enumerate(seeds):
            experiment.run_seed(
                seed,
                arms,
                lambda x, i=i: show("training steps", i * steps + x, len(seeds) * steps),
            )
    return rows


def main(arguments: list[str] | None = None) -> None:
    """Runs the experiment, prints its tables and draws its curves."""
    parser = make_parser(__doc__)
    add = parser.add_argument
    add("--out", type=Path, required=True, metavar="FOLDER", help="runs, networks and rows")
    add("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4], help="default: 0 1 2 3 4")
    add("--arms", nargs="+", choices=ARMS, default=[*ARMS], help="default: all")
    add("--report", action="store_true", help="only show what has been measured so far")
    options = parser.parse_args(arguments)
    setup = QUICK if options.quick else Setup()
    with ending(parser):
        if options.report:
            rows = read_rows(options.out / ROWS)
        else:
            rows = run(setup, options.out, options.seeds, options.arms)
        rows = [row for row in rows if row["arm"] in options.arms and row["seed"] in options.seeds]
        if not rows:
            where = options.out / ROWS
            raise UserError(f"{where} has no such rows; choose another --out, --seeds or --arms")
    summary = summarize(rows)
    show_summary(summary)
    draw_curves(summary, options.out / "curves.png")
    ends = {kind: list_ends(summary, kind) for kind in KINDS} if summary["means"] else {}
    write_measurement(options.json, rows, summary=summary, **ends)


if __name__ == "__main__":
    main()
