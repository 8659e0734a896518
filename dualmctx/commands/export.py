"""`dualmctx export RUN FILE.npz`: what a run has learned, as one file to keep or to hand on."""

import dataclasses
from pathlib import Path
from typing import Annotated

from dualmctx.commands.flags import REQUIRED, Positional, named, parse_flags
from dualmctx.runs.locks import lock_beside, locked
from dualmctx.runs.saved_network import export_trained, load_trained

_PROGRAM = "dualmctx export"
_DESCRIPTION = """Writes what a run has learned to one file: its parameters and its configuration,
without the state of its training. The other commands take the file in place of the run's folder."""


@dataclasses.dataclass(frozen=True)
class Options:
    """What to export."""

    run: Positional[Annotated[str, named(metavar="RUN")]] = REQUIRED
    """The run's folder."""
    file: Positional[Annotated[str, named(metavar="FILE")]] = REQUIRED
    """The file to write; its name ends in .npz. It must not exist."""
    iteration: int | None = None
    """Of the checkpoint; by default the newest one's."""


def main(arguments: list[str]) -> int:
    """Runs the command; returns its exit code."""
    options = parse_flags(Options(), arguments, _PROGRAM, _DESCRIPTION)
    path = Path(options.file)
    _require_new(path)
    trained = load_trained(options.run, options.iteration)
    with locked(lock_beside(path), path):
        _require_new(path)
        export_trained(trained, path)
    print(f"{path}: {trained.env.id} after {trained.iteration} iterations")
    return 0


def _require_new(path: Path) -> None:
    if path.exists():
        raise ValueError(f"{path} exists; choose another file")
