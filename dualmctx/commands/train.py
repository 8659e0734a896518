"""Command line of training and of the pipeline: `dualmctx train PRESET`, or `python train.py`."""

import sys
import textwrap
from collections.abc import Callable
from itertools import pairwise

from dualmctx.commands.main import fail
from dualmctx.commands.train_request import KINDS, Request, read_request, read_resumed
from dualmctx.commands.train_settings import Settled, settle, to_toml
from dualmctx.distributed.backend import require_backend
from dualmctx.distributed.processes import from_first, is_first, join, require_same
from dualmctx.distributed.signals import signals_as_interrupt
from dualmctx.errors import UserError
from dualmctx.experiment.assemble import build_worker_trainer, record_of
from dualmctx.experiment.multihost import run_coordinator, run_worker
from dualmctx.experiment.runner import STOPPED, RunFailed
from dualmctx.experiment.selfplay import run_training
from dualmctx.pipeline.start import ALPHAGO, PIPELINE, start_stage
from dualmctx.pipeline.whole import run_all
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
_PIPELINE_USAGE = """\
AlphaGo's pipeline:
`{program} PRESET --pipeline STAGE [--FIELD VALUE ...]`, or
`{program} --game GAME --pipeline STAGE [--FIELD VALUE ...]`.

Stages:
{stages}

`{program} --pipeline STAGE --help` describes the flags of a stage.
`{program} --resume FOLDER` continues a stage or the whole pipeline.
docs/pipeline.md describes the stages and their results.

Exit codes: 0 at the end of the stage; 2 for bad input, or if memory, the disk
or a device fails; 3 if training diverges; 130 after Ctrl-C or SIGTERM."""


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
    if any(x == f"--{PIPELINE}" and y in ("-h", "--help") for x, y in pairwise(arguments)):
        width = max(map(len, KINDS)) + 2
        stages = "\n".join(f"  {name:<{width}}{kind.summary}" for name, kind in KINDS.items())
        print(_PIPELINE_USAGE.format(program=program, stages=stages))
        return 0
    try:
        try:
            request = read_request(arguments, program)
            settled = _join_and_settle(request, program)
            if request.early.print_config:
                print(to_toml(*settled), end="")
                return 0
            require_backend(program)
        except UserError as error:
            return fail(program, str(error))
        if settled.stage is None:
            return _run_self_play(settled.preset, settled.config, program)
        with signals_as_interrupt():
            return _report(lambda warn: _run_stages(settled, warn), program)
    except KeyboardInterrupt as stop:
        print(f"{program}: stopped immediately{''.join(stop.args)}", file=sys.stderr)
        return STOPPED


def parse(arguments: list[str], program: str = PROGRAM) -> tuple[str, Config]:
    """Parses a command line of self-play in a single process; see `settle`.

    Args:
      arguments: the arguments after the program's name.
      program: the program's name, for `--help`.

    Returns:
      The preset's name and the configuration.

    Raises:
      UserError: if an argument, the file of settings or the run to resume is invalid.
      SystemExit: with code 0, after `--help`; with code 2, if a flag is wrong.
    """
    request = read_request(arguments, program)
    return settle(request, read_resumed(request), program)[:2]


def _join_and_settle(request: Request, program: str) -> Settled:
    """Joins the other processes, if there are any, and combines the settings.

    The first process reads the configuration of a run to resume, and sends it to the others, which
    may have no access to the folder.

    Raises:
      UserError: as `parse`, or if a process cannot be joined.
      SystemExit: as `parse`; or in the other processes, if the first one cannot read the run.
    """
    given = request.named
    if given.coordinator is None or request.early.print_config:
        return settle(request, read_resumed(request), program)
    if request.early.resume is None:
        # Bad flags are refused before waiting for the other processes.
        settle(request, None, program)
    join(given.coordinator, given.num_processes, given.process_id, program)
    return settle(request, from_first(lambda: read_resumed(request)), program)


def _run_self_play(preset: str, config: Config, program: str) -> int:
    try:
        # Does nothing in a single process.
        require_same(record_of(preset, config) | {"devices": config.devices})
    except UserError as error:
        return fail(program, str(error))
    if not is_first():
        return run_worker(lambda: build_worker_trainer(preset, config), config.seed, program)
    with signals_as_interrupt():
        return run_coordinator(lambda: run(preset, config, program), program)


def run(preset: str, config: Config, program: str) -> int:
    """Runs training; reports a failure on standard error; returns the exit code."""
    return _report(lambda warn: run_training(preset, config, warn=warn), program)


def _run_stages(settled: Settled, warn: Callable[[str], None]) -> int:
    if settled.stage == ALPHAGO:
        return run_all(settled.preset, settled.config, warn)
    return start_stage(str(settled.stage), settled.preset, settled.config, warn)


def _report(command: Callable[[Callable[[str], None]], int], program: str) -> int:
    """Runs a command, which gets a function for warnings; reports its failure."""
    try:
        return command(lambda line: print(f"{program}: {line}", file=sys.stderr))
    except RunFailed as error:
        fail(program, str(error))
        return error.exit_code
