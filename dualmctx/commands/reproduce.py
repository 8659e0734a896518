"""`dualmctx reproduce --out FOLDER`: the experiments of the Dual MCTS paper, on this machine."""

import dataclasses
import importlib
import json
import shlex
from pathlib import Path
from typing import Any, Literal

from dualmctx.commands.flags import Unprefixed, parse_flags
from dualmctx.matches.report.machine import machine, versions
from dualmctx.reproduction.experiments import GAMES, make_algorithms
from dualmctx.reproduction.plan import Experiment, check_experiment
from dualmctx.reproduction.report import write_report
from dualmctx.reproduction.size import QUICK, Size
from dualmctx.reproduction.stages import run_experiment
from dualmctx.reproduction.summary import changed_policies, refresh
from dualmctx.runs.atomic_io import atomic_write_text
from dualmctx.runs.checkpoint import quietly
from dualmctx.runs.folder import claim_folder, create_run, reopen_run, to_dict
from dualmctx.runs.progress import showing

_PROGRAM = "dualmctx reproduce"
_DESCRIPTION = """Trains AlphaZero, MPV-MCTS and Dual MCTS on the paper's games, has their
checkpoints play each other, and writes a report beside the paper's numbers: report.html, report.md,
report.json. --quick is a small size, of minutes, that shows that it works. docs/reproduce.md says
what is measured, how, and how long the full size takes. The exit code is 0, 2 for bad input, and
130 after Ctrl-C; --resume goes on."""


@dataclasses.dataclass(frozen=True)
class Options:
    """What is reproduced, and where the results go."""

    out: str = "runs/reproduce"
    """The folder of runs, games and report."""
    games: tuple[Literal["hsr", "nim", "connect-four"], ...] = ("hsr", "nim", "connect-four")
    """The paper's games."""
    seeds: tuple[int, ...] = (0, 1, 2)
    """A run of each algorithm with each; intervals are over them."""
    comparisons: tuple[Literal["paper", "best", "cost", "seconds", "controls"], ...] = (
        *("paper", "best"),
        *("cost", "seconds"),
    )
    """The paper's setting; this project's Dual at equal simulations, equal network cost, and equal
    seconds a move; and, if asked for, AlphaZero by each head alone at equal network cost."""
    quick: bool = False
    """A small size, two games, one seed and the paper's setting alone, but for what flags say."""
    resume: bool = False
    """Go on with what is in the folder; games, seeds and comparisons may be added."""
    size: Unprefixed[Size] = dataclasses.field(default_factory=Size)
    """How large it is."""

    def __post_init__(self) -> None:
        """Checks what no part of the program checks by itself."""
        for name in ("games", "seeds", "comparisons"):
            values = getattr(self, name)
            if not values or len(set(values)) < len(values):
                shown = " ".join(map(str, values)) or "empty"
                raise ValueError(f"{name} is {shown}; it must be some, each once")
        if not all(0 <= seed < 2**32 for seed in self.seeds):
            raise ValueError(f"seeds is {self.seeds}; each must be from 0 to {2**32 - 1}")


_QUICK = Options(
    games=("nim", "connect-four"), seeds=(0,), comparisons=("paper",), quick=True, size=QUICK
)


@quietly()
def main(arguments: list[str]) -> int:
    """Runs the command; returns its exit code."""
    default = _QUICK if "--quick" in arguments else Options()
    options = parse_flags(default, arguments, _PROGRAM, _DESCRIPTION)
    _require_open_spiel()
    with claim_folder(Path(options.out), resume=options.resume):
        return run(options, arguments)


def run(options: Options, arguments: list[str]) -> int:
    """Runs the experiments in a folder that is locked; returns the exit code."""
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
    asked = [argument for argument in arguments if argument != "--resume"]
    command = shlex.join([*_PROGRAM.split(), *asked])
    session = {"command": command, "machine": machine() | versions()}
    earlier = earlier_report(out)
    check_policies(earlier, options)
    report = {**record, "sessions": {}, "games": {}, **earlier}
    try:
        for experiment in experiments:
            report["sessions"][experiment.game] = note_session(experiment.folder, session)
            with showing() as show:
                found = run_experiment(experiment, show)
            kept = report["games"].get(experiment.game, {})
            report["games"][experiment.game] = kept | found
            # What is there may be read while the next game is played.
            files = write_report(report, out)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f": all finished steps and games are in {out}, and --resume goes on"
        ) from None
    print(f"written: {', '.join(map(str, files))}")
    return 0


def _require_open_spiel() -> None:
    """Refuses to begin without α-rank: what comes last should not fail after hours."""
    try:
        importlib.import_module("open_spiel.python.egt.alpharank")
    except ImportError as error:
        raise ValueError(
            f'α-rank needs OpenSpiel ({error}): pip install "dualmctx[compare]"'
        ) from None


def earlier_report(out: Path) -> dict[str, Any]:
    """Reads what an earlier report in a folder says of its games; nothing if there is none."""
    file = out / "report.json"
    try:
        found = json.loads(file.read_text()) if file.exists() else {}
        kept = {name: dict(found[name]) for name in ("sessions", "games") if name in found}
        for game, comparisons in kept.get("games", {}).items():
            kept["games"][game] = {name: refresh(summary) for name, summary in comparisons.items()}
        return kept
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{file} cannot be read ({error}); remove it, and it is made anew"
        ) from error


def check_policies(report: dict[str, Any], options: Options) -> None:
    """Refuses an earlier report whose algorithms do not have, or may not have, today's policies.

    A comparison without a record of its policies is taken if it is asked for, so made anew.

    Raises:
      ValueError: in one line that names the algorithm and the field.
    """
    file = Path(options.out) / "report.json"
    for game, comparisons in report.get("games", {}).items():
        # The budget of equal seconds is measured, so its algorithm is not among these.
        algorithms = make_algorithms(GAMES[game], options.size)
        for name, summary in comparisons.items():
            is_anew = game in options.games and name in options.comparisons
            is_known = all("policy" in x for x in summary["algorithms"].values())
            changes = [*changed_policies(summary, algorithms)]
            if not (is_known or is_anew):
                changes.append("it does not say which policies its algorithms had")
            if changes:
                raise ValueError(
                    f"{file} is of another version, comparison {name} in {game}: {changes[0]}; "
                    "choose another --out"
                )


def note_session(folder: Path, session: dict[str, Any]) -> list[dict[str, Any]]:
    """Notes in a game's folder by which command, where and with what it is played.

    Times of another session may come from another machine.

    Returns:
      All sessions so far, those that differ.
    """
    file = folder / "sessions.json"
    try:
        sessions = list(json.loads(file.read_text())) if file.exists() else []
    except (ValueError, TypeError) as error:
        raise ValueError(f"{file} cannot be read ({error}); remove it") from error
    # As JSON has it.
    session = json.loads(json.dumps(session))
    if session not in sessions:
        sessions.append(session)
        folder.mkdir(parents=True, exist_ok=True)
        atomic_write_text(file, json.dumps(sessions, indent=1) + "\n")
    return sessions
