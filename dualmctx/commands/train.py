"""Command line of training: `dualmctx train PRESET`, or `python train.py PRESET`."""

import sys
import textwrap

from dualmctx.commands.main import fail
from dualmctx.commands.pipeline import is_pipeline, run_pipeline
from dualmctx.commands.settings_toml import to_toml
from dualmctx.commands.train_request import (
    PRINT_CONFIG,
    processes_of,
    read_request,
    read_resumed,
)
from dualmctx.commands.train_settings import settle
from dualmctx.distributed.backend import require_backend
from dualmctx.distributed.processes import from_first, is_first, join, require_same
from dualmctx.distributed.signals import signals_as_interrupt
from dualmctx.errors import UserError
from dualmctx.experiment.assemble import build_worker_trainer
from dualmctx.experiment.multihost import run_coordinator, run_worker
from dualmctx.experiment.run_record import record_of
from dualmctx.experiment.runner import STOPPED, RunFailed
from dualmctx.experiment.selfplay import run_training
from dualmctx.training.config import Config
from dualmctx.training.presets import PRESETS

PROGRAM = "dualmctx train"
_USAGE = """\
Trains a network by self-play: `{program} PRESET [--FIELD VALUE ...]`, or
`{program} --game package.module:factory [--FIELD VALUE ...]` for a game
without a preset, such as one of your own (games/README.md).

Presets:
{presets}
`{program} PRESET --help` describes every field, with its default.
--config FILE reads fields from a TOML or JSON file, and --print-config
prints them all. `{program} --resume FOLDER` continues a run.

`{program} PRESET --pipeline STAGE` runs AlphaGo's pipeline instead of
self-play; `{program} --pipeline --help` lists the stages.

Ctrl-C or SIGTERM finishes the iteration, saves a checkpoint and stops.
A second signal stops immediately. The same command with --resume continues.

Exit codes: 0 at the end of the run; 2 for bad input, or if memory, the disk,
the network or a device fails; 3 if training diverges; 130 after Ctrl-C or
SIGTERM."""


def main(arguments: list[str], program: str = PROGRAM) -> int:
    """Runs the command.

    Args:
      arguments: the arguments after the program's name.
      program: the program's name, for usage and messages.

    Returns:
      The exit code.
    """
    if not arguments or arguments[0] in ("-h", "--help"):
        presets = textwrap.fill(", ".join(PRESETS), 78, break_on_hyphens=False)
        print(_USAGE.format(program=program, presets=textwrap.indent(presets, "  ")))
        return 0 if arguments else 2
    try:
        if is_pipeline(arguments):
            return run_pipeline(arguments, program)
        try:
            if PRINT_CONFIG in arguments:
                print(to_toml(*parse(arguments, program)), end="")
                return 0
            name, config = join_and_parse(arguments, program)
            require_backend(program)
            # Does nothing in a single process.
            require_same(record_of(name, config) | {"devices": config.devices})
        except UserError as error:
            return fail(program, str(error))
        if not is_first():
            return run_worker(lambda: build_worker_trainer(name, config), config.seed, program)
        with signals_as_interrupt():
            return run_coordinator(lambda: run(name, config, program), program)
    except KeyboardInterrupt as stop:
        print(f"{program}: stopped immediately{''.join(stop.args)}", file=sys.stderr)
        return STOPPED


def parse(arguments: list[str], program: str = PROGRAM) -> tuple[str, Config]:
    """Parses a command line of a single process; see `settle`.

    Args:
      arguments: the arguments after the program's name.
      program: the program's name, for `--help`.

    Returns:
      The preset's name and the configuration.

    Raises:
      ValueError: if an argument, the file of settings or the run to resume is invalid.
      SystemExit: with code 0, after `--help`.
    """
    request = read_request(arguments)
    return settle(request, read_resumed(request), program)


def join_and_parse(arguments: list[str], program: str) -> tuple[str, Config]:
    """Joins the other processes, if there are any, and parses the command line.

    The first process reads the configuration of a run to resume, and sends it to the others, which
    may have no access to the folder.

    Raises:
      ValueError: as `parse`, or if a process cannot be joined.
      SystemExit: as `parse`; or in the other processes, if the first one cannot read the run.
    """
    request = read_request(arguments)
    processes = processes_of(request, program)
    if processes.coordinator is None:
        return settle(request, read_resumed(request), program)
    if request.resume is None:
        # Bad flags are refused before waiting for the other processes.
        settle(request, None, program)
    join(processes.coordinator, processes.num_processes, processes.process_id, program)
    return settle(request, from_first(lambda: read_resumed(request)), program)


def run(name: str, config: Config, program: str) -> int:
    """Runs training; reports a failure on standard error; returns the exit code."""
    try:
        return run_training(
            name, config, warn=lambda line: print(f"{program}: {line}", file=sys.stderr)
        )
    except RunFailed as error:
        fail(program, str(error))
        return error.exit_code
