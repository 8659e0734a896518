"""The runs that `benchmarks.pipeline` compares: the stages of the pipeline, and self-play."""

import dataclasses
import json
import pathlib
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import games
from dualmctx.experiment.assemble import build_trainer
from dualmctx.experiment.run_record import record_of
from dualmctx.runs.network_record import build_network
from dualmctx.runs.saved_network import Trained, make_trained
from dualmctx.training.config import Config

COSTS = "costs.json"
"""The file of the measured times in the folder of a pipeline."""
GAMES, SUPERVISED, REINFORCED, VALUE, PLAYER = (
    "games",
    "supervised",
    "reinforced",
    "value",
    "player",
)
STAGES = (GAMES, SUPERVISED, REINFORCED, VALUE, PLAYER)
"""The stages, by the names of their folders."""
TRAINING = STAGES[:-1]
"""The stages whose time self-play gets; the last one plays matches only."""
CLOCKS: dict[str, Callable[[], float]] = {"clock": time.perf_counter, "cpu": time.process_time}
# Iterations that are timed to find the length of the schedule.
_TIMED = 3
# Iterations between lines of progress.
_SHOWN = 25


class Cost(NamedTuple):
    """The time of a run in seconds.

    Attributes:
      clock: by the clock.
      cpu: of all processor cores together, with those of child processes; `None` if unknown.
    """

    clock: float
    cpu: float | None


def stage_commands(folder: pathlib.Path, number: int, simulations: int) -> dict[str, list[str]]:
    """Returns the arguments of `dualmctx` for each stage, by the names of their folders.

    Args:
      folder: the folder of the pipeline, as of `--pipeline alphago`.
      number: number of the teacher's games.
      simulations: simulations per move of the teacher, OpenSpiel's MCTS.
    """
    paths = {name: str(folder / name) for name in STAGES}
    teacher = ["--from", "openspiel-mcts", "--games", str(number)]
    inputs = {
        "supervised": ["--dataset", paths[GAMES]],
        "reinforce": ["--init-from", paths[SUPERVISED]],
        "value": ["--init-from", paths[REINFORCED], "--supervised", paths[SUPERVISED]],
        "player": ["--supervised", paths[SUPERVISED], "--value", paths[VALUE]],
    }
    commands = {GAMES: ["dataset", "connect_four", *teacher, "--simulations", str(simulations)]}
    for name, (stage, flags) in zip(STAGES[1:], inputs.items(), strict=True):
        commands[name] = ["train", "connect-four", "--pipeline", stage, *flags]
    return {name: [*command, "--out", paths[name]] for name, command in commands.items()}


def run_command(arguments: Sequence[str]) -> Cost:
    """Runs `dualmctx` in a process of its own.

    Raises:
      ValueError: if its exit code is not 0.
    """
    before, start = _cpu_of_children(), time.perf_counter()
    code = subprocess.run([sys.executable, "-m", "dualmctx", *arguments], check=False).returncode
    if code:
        raise ValueError(f"`dualmctx {' '.join(arguments)}` ended with exit code {code}")
    return Cost(time.perf_counter() - start, _cpu_of_children() - before)


def _cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run_stages(
    folder: pathlib.Path,
    commands: Mapping[str, Sequence[str]],
    run: Callable[[Sequence[str]], Cost] = run_command,
) -> dict[str, Cost]:
    """Runs the stages that have not finished, and returns the costs of all that are known.

    The costs are kept in the folder. Those of stages that were run by other commands are their
    seconds of training, from their summaries.

    Raises:
      ValueError: if a stage fails.
    """
    costs = read_costs(folder)
    for name, arguments in commands.items():
        if not is_finished(folder / name):
            print(f"dualmctx {' '.join(arguments)}", file=sys.stderr)
            costs[name] = run(arguments)
            write_costs(folder, costs)
        elif name not in costs and (summary := folder / name / "summary.json").exists():
            costs[name] = Cost(json.loads(summary.read_text())["seconds"], None)
    return costs


def is_finished(folder: pathlib.Path) -> bool:
    """Returns whether a folder is a complete data set or a finished run."""
    return any((folder / name).exists() for name in ("dataset.json", "summary.json"))


def read_costs(folder: pathlib.Path) -> dict[str, Cost]:
    """Reads the costs of the runs in a folder."""
    file = folder / COSTS
    content = json.loads(file.read_text()) if file.exists() else {}
    return {name: Cost(**cost) for name, cost in content.items()}


def write_costs(folder: pathlib.Path, costs: Mapping[str, Cost]) -> None:
    """Writes the costs of the runs in a folder."""
    content = {name: cost._asdict() for name, cost in costs.items()}
    (folder / COSTS).write_text(json.dumps(content, indent=2) + "\n")


def seconds_of_training(costs: Mapping[str, Cost], which: str) -> float:
    """Returns the time of all stages but the last one.

    Args:
      costs: the costs by stage.
      which: a name of `CLOCKS`.

    Raises:
      ValueError: if the time of a stage is not known.
    """
    times: dict[str, float] = {
        name: seconds
        for name in TRAINING
        if (seconds := getattr(costs.get(name), which, None)) is not None
    }
    unknown = [name for name in TRAINING if name not in times]
    if unknown:
        raise ValueError(
            f"the time of {', '.join(unknown)} is not known ({which}); give --minutes for self-play"
        )
    return sum(times.values())


def train_until(
    name: str, config: Config, seed: int, seconds: float, which: str = "clock"
) -> tuple[Trained, Cost]:
    """Trains a preset by self-play for a time, without that of compilation.

    The schedule of the learning rate gets the length that fits into the time, by a few iterations
    that are timed before.

    Args:
      name: the name of the preset.
      config: its configuration.
      seed: seed of the run.
      seconds: the time; the last iteration begins before its end.
      which: a name of `CLOCKS`.

    Returns:
      The network and the time that its training took.
    """
    env = games.make(config.game, **config.game_parameters)
    network = build_network(record_of(name, config), env)
    read_time = CLOCKS[which]

    def train(length: int, is_over: Callable[[int, float], bool]) -> tuple[Any, int, Cost]:
        config_of_length = dataclasses.replace(config, schedule_iterations=length)
        trainer = build_trainer(config_of_length, env, network)
        state = trainer.init(seed)
        iterate = trainer.compile(state)
        start = {x: read() for x, read in CLOCKS.items()}
        number = 0
        while not is_over(number, read_time() - start[which]):
            # The metrics are numbers on the host, so the iteration has ended.
            state, _ = iterate(state)
            number += 1
            if number % _SHOWN == 0:
                spent = read_time() - start[which]
                print(f"iteration {number}: {spent:.0f} of {seconds:.0f} s", file=sys.stderr)
        return state.params, number, Cost(**{x: read() - start[x] for x, read in CLOCKS.items()})

    *_, timed = train(1, lambda number, _: number == _TIMED)
    length = max(1, round(seconds * _TIMED / getattr(timed, which)))
    params, number, cost = train(length, lambda _, spent: spent >= seconds)
    parameters = config.game_parameters
    saved = make_trained(
        config.game, network, params, config.search, game_parameters=parameters, iteration=number
    )
    return saved, cost
