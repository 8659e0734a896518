"""`dualmctx reproduce --out FOLDER`: runs the experiments of the Dual MCTS paper."""

import dataclasses
import importlib
import json
import shlex
import sys
from pathlib import Path
from typing import Any, Literal

from dualmctx.commands.flags import ConfigFlag, Unprefixed, parse_flags, take_flags
from dualmctx.commands.settings import read_settings
from dualmctx.distributed.backend import require_backend
from dualmctx.errors import UserError
from dualmctx.matches.report.machine import machine, versions
from dualmctx.reproduction.experiments import GAMES, make_algorithms
from dualmctx.reproduction.plan import Experiment, check_experiment
from dualmctx.reproduction.report import write_report
from dualmctx.reproduction.size import QUICK, Size
from dualmctx.reproduction.stages import run_experiment
from dualmctx.reproduction.summary import changed_policies, refresh
from dualmctx.runs.atomic_io import atomic_write_text
from dualmctx.runs.folder import create_run, lock_folder, reopen_run, to_dict
from dualmctx.runs.progress import showing

_PROGRAM = "dualmctx reproduce"
_DESCRIPTION = """Trains AlphaZero, MPV-MCTS and Dual MCTS on the games of the paper, plays matches
between their checkpoints, and writes a report that compares the results with the numbers of the
paper: report.html, report.md and report.json. --quick runs a tiny size in minutes, to show that
everything works. docs/reproduce.md describes the measurements and the time that the full size
takes. Exit codes: 0 for success, 2 for invalid input, 130 after Ctrl-C or SIGTERM; --resume
continues."""


@dataclasses.dataclass(frozen=True)
class Options:
    """The games, the seeds, the comparisons and the folder."""

    out: str = "runs/reproduce"
    """The folder of the runs, the games and the report."""
    games: tuple[Literal["hsr", "nim", "connect-four"], ...] = ("hsr", "nim", "connect-four")
    """The games, a subset of those of the paper."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """The seeds. Each algorithm has one run per seed; intervals are over seeds."""
    comparisons: tuple[Literal["paper", "best", "cost", "seconds", "controls"], ...] = (
        *("paper", "best"),
        *("cost", "seconds"),
    )
    """The comparisons. paper: the setting of the paper; best, cost, seconds: this project's Dual
    at equal simulations, equal network cost and equal seconds per move; controls: AlphaZero with
    each head alone, at equal network cost."""
    quick: bool = False
    """Use a tiny size, two games, one seed and only the setting of the paper, unless flags say
    otherwise."""
    resume: bool = False
    """Continue in the folder. Games, seeds and comparisons may be added."""
    size: Unprefixed[Size] = dataclasses.field(default_factory=Size)
    """The size of the experiments."""

    def __post_init__(self) -> None:
        """Checks the options that are checked nowhere else."""
        for name in ("games", "seeds", "comparisons"):
            values = getattr(self, name)
            if not values or len(set(values)) < len(values):
                shown = " ".join(map(str, values)) or "empty"
                raise UserError(f"{name} is {shown}; it must have at least one value, each once")
        if not all(0 <= seed < 2**32 for seed in self.seeds):
            raise UserError(f"seeds is {self.seeds}; each must be from 0 to {2**32 - 1}")


_QUICK = Options(
    games=("nim", "connect-four"), seeds=(0,), comparisons=("paper",), quick=True, size=QUICK
)


def main(arguments: list[str]) -> int:
    """Runs the command; returns its exit code."""
    default = _QUICK if _is_quick(arguments) else Options()
    options = parse_flags(default, arguments, _PROGRAM, _DESCRIPTION)
    _require_open_spiel()
    require_backend(_PROGRAM)
    with lock_folder(Path(options.out), resume=options.resume):
        return run(options, arguments)


def run(options: Options, arguments: list[str]) -> int:
    """Runs the experiments in a locked folder; returns the exit code."""
    out = Path(options.out)
    experiments = [
        Experiment(game, options.size, options.seeds, options.comparisons, out / game)
        for game in options.games
    ]
    record = {"size": to_dict(options.size)}
    if options.resume:
        reopen_run(out, record)
    for experiment in experiments:
        check_experiment(experiment)
    if not options.resume:
        create_run(out, record)
    to_repeat = [argument for argument in arguments if argument != "--resume"]
    command = shlex.join([*_PROGRAM.split(), *to_repeat])
    session = {"command": command, "machine": machine() | versions()}
    earlier = read_earlier_report(out)
    check_policies(earlier, options)
    report = {**record, "sessions": {}, "games": {}, **earlier}
    try:
        for experiment in experiments:
            report["sessions"][experiment.game] = note_session(experiment.folder, session)
            with showing() as show:
                summaries = run_experiment(experiment, show, _warn)
            others = report["games"].get(experiment.game, {})
            report["games"][experiment.game] = others | summaries
            # The report is usable while the next game runs.
            files = write_report(report, out)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f": all finished steps and games are in {out}; --resume continues"
        ) from None
    print(f"results in {', '.join(map(str, files))}")
    return 0


def _warn(line: str) -> None:
    print(f"{_PROGRAM}: {line}", file=sys.stderr)


def _is_quick(arguments: list[str]) -> bool:
    """Returns whether a flag or the file of settings asks for the quick size."""
    files = take_flags(ConfigFlag(), arguments, _PROGRAM)[0].config
    in_file = any(read_settings(file).get("quick") is True for file in files)
    return "--quick" in arguments or in_file


def _require_open_spiel() -> None:
    """Checks at the start, not after hours of training, that α-rank is available.

    Raises:
      ValueError: if OpenSpiel cannot be imported.
    """
    try:
        importlib.import_module("open_spiel.python.egt.alpharank")
    except ImportError as error:
        raise UserError(
            f'α-rank needs OpenSpiel ({error}): pip install "dualmctx[compare]"'
        ) from None


def read_earlier_report(out: Path) -> dict[str, Any]:
    """Reads the sessions and games of an earlier report; empty if there is none.

    Raises:
      ValueError: if the report cannot be read.
    """
    file = out / "report.json"
    try:
        saved = json.loads(file.read_text()) if file.exists() else {}
        earlier = {name: dict(saved[name]) for name in ("sessions", "games") if name in saved}
        for game, comparisons in earlier.get("games", {}).items():
            earlier["games"][game] = {
                name: refresh(summary) for name, summary in comparisons.items()
            }
        return earlier
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{file} cannot be read ({error}); remove it to write it again") from error


def check_policies(report: dict[str, Any], options: Options) -> None:
    """Checks that the algorithms of an earlier report have the current policies.

    A comparison that does not record its policies is accepted only if it is selected, because it
    is then made again.

    Raises:
      ValueError: if a policy differs or is not recorded; the message names the algorithm and field.
    """
    file = Path(options.out) / "report.json"
    for game, comparisons in report.get("games", {}).items():
        # `alphazero-seconds` is not among these, because its budget is measured.
        algorithms = make_algorithms(GAMES[game], options.size)
        for name, summary in comparisons.items():
            is_selected = game in options.games and name in options.comparisons
            has_policies = all("policy" in x for x in summary["algorithms"].values())
            changes = [*changed_policies(summary, algorithms)]
            if not (has_policies or is_selected):
                changes.append("it does not record the policies of its algorithms")
            if changes:
                raise UserError(
                    f"{file} is from another version, comparison {name} in {game}: {changes[0]}; "
                    "choose another --out"
                )


def note_session(folder: Path, session: dict[str, Any]) -> list[dict[str, Any]]:
    """Records the command, the machine and the versions of a session in the folder of a game.

    Each session is recorded, because another one may have run on another machine.

    Returns:
      All distinct sessions so far.

    Raises:
      ValueError: if the record of earlier sessions cannot be read.
    """
    file = folder / "sessions.json"
    try:
        sessions = list(json.loads(file.read_text())) if file.exists() else []
    except (ValueError, TypeError) as error:
        raise UserError(f"{file} cannot be read ({error}); remove it") from error
    # Convert to JSON values, as in the file.
    session = json.loads(json.dumps(session))
    if session not in sessions:
        sessions.append(session)
        folder.mkdir(parents=True, exist_ok=True)
        atomic_write_text(file, json.dumps(sessions, indent=1) + "\n")
    return sessions
