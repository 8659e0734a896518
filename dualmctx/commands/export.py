"""`dualmctx export RUN FILE.npz`: writes the network of a run to one file."""

import dataclasses
from pathlib import Path
from typing import Annotated

from dualmctx.commands.flags import REQUIRED, Positional, named, parse_flags
from dualmctx.distributed.backend import require_backend
from dualmctx.runs.locks import lock_beside, locked
from dualmctx.runs.saved_network import export_trained, load_trained

_PROGRAM = "dualmctx export"
_DESCRIPTION = """Writes the parameters and the configuration of a run to one file, without the
rest of the training state. The other commands accept the file instead of the run folder."""


@dataclasses.dataclass(frozen=True)
class Options:
    """The run and the exported file."""

    run: Positional[Annotated[str, named(metavar="RUN")]] = REQUIRED
    """The run folder."""
    file: Positional[Annotated[str, named(metavar="FILE")]] = REQUIRED
    """The file to write; it must end in .npz and must not exist."""
    iteration: int | None = None
    """Iteration of the checkpoint; by default the newest."""


def main(arguments: list[str]) -> int:
    """Runs the command; returns its exit code."""
    options = parse_flags(Options(), arguments, _PROGRAM, _DESCRIPTION)
    path = Path(options.file)
    _require_new(path)
    require_backend(_PROGRAM)
    trained = load_trained(options.run, options.iteration)
    with locked(lock_beside(path), path):
        _require_new(path)
        export_trained(trained, path)
    print(f"{path}: {trained.env.id} after {trained.iteration} iterations")
    return 0


def _require_new(path: Path) -> None:
    if path.exists():
        raise ValueError(f"{path} exists; choose another file")
