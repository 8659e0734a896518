"""Trains a network by self-play: `python train.py PRESET [--FIELD VALUE ...]`.

Presets: connect2, nim, hsr, tic-tac-toe, connect-four. `python train.py PRESET --help` lists every
field with its default.
"""

import dataclasses
import logging
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, Union

import jax

import games
from dualmctx.arena import batch_player
from dualmctx.budget import (
    TrainingMemory,
    describe_memory,
    free_memory,
    require_memory,
    training_memory,
)
from dualmctx.checkpoint import Checkpoints, open_checkpoints
from dualmctx.cli import parse_flags, take_flag
from dualmctx.display import Display, stopped_by_ctrl_c, summary_table
from dualmctx.evaluate import make_evaluate
from dualmctx.exam import (
    Exact,
    ExamFn,
    is_solved,
    make_exact_exam,
    make_match_exam,
    take_exams,
)
from dualmctx.learner import Learner
from dualmctx.memory import search_memory
from dualmctx.model import make_search_fn
from dualmctx.network import make_network
from dualmctx.plot import plot_training
from dualmctx.policies import REGISTRY, Dual
from dualmctx.runs import RunFolder, create_run, reopen_run, to_dict
from dualmctx.selfplay import SelfPlay
from dualmctx.training import IterateFn, Trainer, TrainState, make_trainer
from dualmctx.types import Policy

if TYPE_CHECKING:
    SearchOptions = Policy
else:
    SearchOptions = Union[tuple(row.policy for row in REGISTRY.values())]  # noqa: UP007


@dataclasses.dataclass(frozen=True)
class NetworkOptions:
    """The network's size, and what a search keeps for it in its nodes."""

    trunk: Literal["auto", "conv", "mlp"] = "auto"
    """Convolutions, dense layers, or (auto) convolutions for boards only."""
    width: int = 64
    """Features of the trunk."""
    num_blocks: int = 4
    """Residual blocks."""
    head_depths: tuple[int, ...] | None = None
    """After how many blocks each head stands, or with separate trunks the blocks of each network;
    by default the middle and the end, or as many at even distances as the search has trees."""
    separate_trunks: bool | None = None
    """Give each head a network of its own, the first one of num_blocks, the next half as large
    again; by default only for searches that are meant so (mpv)."""
    kept_activations: Literal["float32", "bfloat16"] = "float32"
    """Type in which a search keeps the trunk's activations for the final head: exact, or rounded in
    half the memory."""
    compact_states: bool = False
    """Hold the game states in a search's nodes packed: the same search, less memory where states
    are large (chess, go, shogi)."""

    def of_model(self) -> dict[str, Any]:
        """Returns the options of `make_model`."""
        return {"activations_dtype": self.kept_activations, "compact_states": self.compact_states}


@dataclasses.dataclass(frozen=True)
class Exams:
    """How the network is examined while it learns."""

    every: int = 10
    """Iterations from one exam to the next; 0 for an exam at the end only."""
    num_games: int = 100
    """Games against an opponent; an even number."""
    batch_size: int = 256
    """Positions a call of the device."""
    max_positions: int = 1000
    """About how many positions of a solved game an exam on the way takes, besides all that optimal
    play can reach; the last exam takes them all."""
    stop_when_solved: int = 0
    """End after this many exams in a row in which network and search play optimally wherever
    optimal play can lead; 0 for never."""


@dataclasses.dataclass(frozen=True)
class Config:
    """A training run."""

    game: str = "hsr"
    """The game, as `games.make` knows it."""
    game_parameters: dict[str, int] = dataclasses.field(default_factory=dict)
    """Parameters of the game, such as `k 4 q 4 n 16`."""
    search: SearchOptions = dataclasses.field(default_factory=Dual)
    """The search; `--search.variant NAME` chooses another one."""
    network: NetworkOptions = dataclasses.field(default_factory=NetworkOptions)
    """The network."""
    selfplay: SelfPlay = dataclasses.field(default_factory=SelfPlay)
    """Self-play."""
    learner: Learner = dataclasses.field(default_factory=Learner)
    """Learning."""
    exams: Exams = dataclasses.field(default_factory=Exams)
    """Exams on the way."""
    num_iterations: int = 100
    """Iterations of self-play and learning."""
    checkpoint_every: int = 20
    """Iterations from one checkpoint to the next; the end of the run is always saved."""
    keep: int = 2
    """Checkpoints kept, the newest ones."""
    seed: int = 0
    """Of all randomness; the same seed gives the same run."""
    out: str | None = None
    """The run's folder; by default runs/PRESET."""
    resume: bool = False
    """Go on with the run in that folder."""
    memory_limit: float | None = None
    """GiB that the run may take; by default what the device has free. A run that needs more is
    refused before it starts."""

    def __post_init__(self) -> None:
        """Checks the fields that no part of the program checks by itself."""
        for name in ("num_iterations", "checkpoint_every", "keep"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        budgets = self.search.num_simulations
        if isinstance(budgets, tuple) and min(budgets) < 1:
            raise ValueError(
                f"search.num_simulations is {' '.join(map(str, budgets))}; each tree needs at "
                "least 1 (for a single tree there is --search.variant alphazero)"
            )
        # PRNGKey reads 32 bits: other numbers would repeat these seeds or overflow.
        if not 0 <= self.seed < 2**32:
            raise ValueError(f"seed is {self.seed}; it must be from 0 to {2**32 - 1}")
        minima = {"every": 0, "batch_size": 1, "max_positions": 1, "stop_when_solved": 0}
        for name, minimum in minima.items():
            value = getattr(self.exams, name)
            if value < minimum:
                raise ValueError(f"exams.{name} is {value}; it must be at least {minimum}")
        if self.exams.num_games < 2 or self.exams.num_games % 2:
            raise ValueError(
                f"exams.num_games is {self.exams.num_games}; it must be even and at least 2"
            )
        # Not a number is neither above 0 nor below.
        if self.memory_limit is not None and not self.memory_limit > 0:
            raise ValueError(f"memory_limit is {self.memory_limit}; it must be above 0")


PRESETS: dict[str, Config] = {
    # Some seconds, and then perfect play.
    "connect2": Config(
        game="connect2",
        search=Dual(num_simulations=(16, 8), num_rounds=2),
        selfplay=SelfPlay(num_games=64, num_steps=8, temperature_plies=4, random_plies=2),
        learner=Learner(learning_rate=2e-3, batch_size=128, capacity=4096),
        exams=Exams(every=5),
        num_iterations=30,
    ),
    "nim": Config(
        game="nim",
        selfplay=SelfPlay(num_games=128, num_steps=16, temperature_plies=8, random_plies=10),
        learner=Learner(learning_rate=2e-3, capacity=16_384),
        exams=Exams(every=5, stop_when_solved=4),
        num_iterations=60,
    ),
    # Optimal play within seconds, right values within a minute.
    "hsr": Config(
        game="hsr",
        selfplay=SelfPlay(num_games=128, num_steps=8, temperature_plies=8, random_plies=6),
        learner=Learner(learning_rate=2e-3, capacity=16_384),
        exams=Exams(every=5),
        num_iterations=100,
    ),
    "tic-tac-toe": Config(
        game="tic_tac_toe",
        # Dense layers: on a board this small they are faster and no worse.
        network=NetworkOptions(trunk="mlp"),
        selfplay=SelfPlay(num_games=256, num_steps=8, temperature_plies=6, random_plies=6),
        learner=Learner(learning_rate=2e-3, capacity=32_768, num_updates=32),
        exams=Exams(every=10, stop_when_solved=2),
        num_iterations=60,
    ),
    # The paper's network and budgets; beats uniform random play after a few minutes.
    "connect-four": Config(
        game="connect_four",
        selfplay=SelfPlay(num_games=32, num_steps=32, temperature_plies=12, random_plies=4),
        learner=Learner(num_updates=16, capacity=131_072),
        exams=Exams(every=10),
        num_iterations=400,
        checkpoint_every=5,
    ),
}


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


def main(arguments: list[str]) -> int:
    """Runs the command; returns its exit code."""
    # orbax logs every phase of every save.
    logging.getLogger("absl").setLevel(logging.ERROR)
    try:
        try:
            name, config = parse(arguments)
            run = set_up(name, config)
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


def set_up(name: str, config: Config) -> Run:
    """Puts a run together; the folder is made last, when everything else was right.

    Raises:
      ValueError: when something is wrong, in one line.
    """
    env = games.make(config.game, **config.game_parameters)
    state = jax.eval_shape(env.init, jax.random.PRNGKey(0))
    network = make_network(
        state.legal_action_mask.shape[0],
        state.observation.shape,
        width=config.network.width,
        num_blocks=config.network.num_blocks,
        head_depths=config.network.head_depths,
        num_heads=len(config.search.heads),
        separate_trunks=has_separate_trunks(config),
        trunk=config.network.trunk,
    )
    trainer = make_trainer(
        env,
        network,
        config.search,
        config.selfplay,
        config.learner,
        num_iterations=config.num_iterations,
        **config.network.of_model(),
    )
    memory = check_memory(env, network, trainer, config)
    search_fn = make_search_fn(env, network, config.search.noiseless(), **config.network.of_model())
    exams, last_exams, num_positions = make_exams(env, network, search_fn, config.exams)
    path = Path(config.out or f"runs/{name}")
    # Where and how it runs, not what.
    what = dataclasses.replace(config, out=None, resume=False, memory_limit=None)
    record = to_dict(what) | {"preset": name}
    folder = (reopen_run if config.resume else create_run)(path, record)
    checkpoints = open_checkpoints(folder.checkpoints, keep=config.keep)
    return Run(config, name, folder, checkpoints, trainer, exams, last_exams, num_positions, memory)


def has_separate_trunks(config: Config) -> bool:
    """Tells whether each head is a network of its own: as asked, else as the search is meant."""
    asked = config.network.separate_trunks
    return getattr(config.search, "separate_trunks", False) if asked is None else asked


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
