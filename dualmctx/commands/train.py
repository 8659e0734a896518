"""Command line of training and of the pipeline: `dualmctx train PRESET`, or `python train.py`."""

import dataclasses
import sys
import textwrap
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from dualmctx.commands.main import fail
from dualmctx.commands.settings import Settings, toml_lines
from dualmctx.commands.train_settings import (
    COMPLETE,
    RESUME,
    Request,
    Settled,
    read_request,
    run_name,
    settle,
)
from dualmctx.distributed.backend import require_backend
from dualmctx.distributed.processes import from_first, is_first, join, require_same
from dualmctx.distributed.signals import signals_as_interrupt
from dualmctx.errors import UserError
from dualmctx.experiment.assemble import build_worker_trainer, record_of
from dualmctx.experiment.multihost import run_coordinator, run_worker
from dualmctx.experiment.runner import STOPPED, RunFailed
from dualmctx.experiment.selfplay import run_training
from dualmctx.pipeline.start import ALPHAGO, PIPELINE, STAGES, start_stage
from dualmctx.pipeline.whole import run_all
from dualmctx.policies import variant_of
from dualmctx.runs import folder
from dualmctx.training.config import Config
from dualmctx.training.presets import PRESETS

PROGRAM = "dualmctx train"
AUTO = "auto"
"""The value of `--resume` that continues a run if there is one, and starts it if there is none."""
_USAGE = """\
Trains a network by self-play, or from the games of a data set (--dataset):
`{program} PRESET [--FIELD VALUE ...]`, or
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
    """Runs the command, with the program's name in messages; returns the exit code."""
    if not arguments or arguments[0] in ("-h", "--help"):
        presets = textwrap.fill(", ".join(PRESETS), 78, break_on_hyphens=False)
        print(_USAGE.format(program=program, presets=textwrap.indent(presets, "  ")))
        return 0 if arguments else 2
    if any(x == f"--{PIPELINE}" and y in ("-h", "--help") for x, y in pairwise(arguments)):
        width = max(map(len, STAGES)) + 2
        stages = "\n".join(f"  {name:<{width}}{kind.summary}" for name, kind in STAGES.items())
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


def settle_here(
    request: Request, program: str, share: Callable[[Callable[[], Any]], Any] = lambda read: read()
) -> Settled:
    """Combines the settings of a command in a single process, or in one of several.

    Args:
      request: the command line.
      program: the program's name, for `--help`.
      share: calls a function that reads the run to resume, or fetches what it returns elsewhere.
        Every process calls it once.

    Raises:
      UserError: if an argument, the file of settings or the run to resume is invalid.
      SystemExit: with code 0, after `--help`; with code 2, if a flag is wrong.
    """

    def read() -> tuple[str | None, Settings | None]:
        path = resumed_folder(request)
        return (None, None) if path is None else (str(path), read_resumed(request, path))

    # Also for a new run, as `--resume` of another process may differ.
    path, saved = share(read)
    return settle(request, None if path is None else Path(path), saved, program)


def _join_and_settle(request: Request, program: str) -> Settled:
    """Joins the other processes, if there are any, and combines the settings.

    The first process decides whether to resume a run, and which one. It sends the configuration of
    that run to the others, which may have no access to the folder.
    """
    given = request.named
    if given.coordinator is None or request.early.print_config:
        return settle_here(request, program)
    if request.early.resume is None:
        # Bad flags are refused before waiting for the other processes.
        settle_here(request, program)
    join(given.coordinator, given.num_processes, given.process_id, program)
    return settle_here(request, program, from_first)


def resumed_folder(request: Request) -> Path | None:
    """Returns the folder of the run to resume; `None` for a new run."""
    resume, out = request.early.resume, request.named.out
    if resume is None:
        return None
    if resume not in ("", AUTO):
        if out is not None and Path(out) != Path(resume):
            raise UserError(f"--out is {out}, but {RESUME} names {resume}; leave one out")
        return Path(resume)
    if out is not None:
        return Path(out)
    name = request.preset or run_name(request.named.game)
    if name:
        return folder.default_folder(name, request.stage)
    if not resume and Path(folder.CONFIG).exists():
        return Path()
    raise UserError(f"{RESUME} needs the folder of a run: {RESUME} FOLDER, or --out FOLDER")


def read_resumed(request: Request, path: Path) -> Settings | None:
    """Reads the configuration of the run to resume; `None` if a new one is to be started."""
    if request.early.resume == AUTO and not (path / folder.CONFIG).exists():
        return None
    saved = folder.read_config(path)
    if request.stage is not None and PIPELINE not in saved:
        raise UserError(
            f"{path} is not the folder of a stage of the pipeline; leave out --{PIPELINE} to "
            "continue it"
        )
    if "preset" not in saved or not (PIPELINE in saved or saved.keys() >= COMPLETE):
        raise UserError(f"{path} is not the folder of a training run")
    found = {name: saved.get(name) for name in (PIPELINE, "preset")}
    for name, given in ((PIPELINE, request.stage), ("preset", request.preset)):
        if given not in (None, found[name]):
            raise UserError(
                f"{path} is a run of the {name} {found[name]}, not of {given}; leave {given} out"
            )
    return saved


def to_toml(preset: str, config: Any, stage: str | None = None) -> str:
    """Returns all settings of a run as TOML; `dualmctx train --config` reads the same ones back.

    Settings of the run that have no value, such as `wandb`, are left out: no preset has one. The
    entry `resume` is left out, as it is a flag only.

    Args:
      preset: the name of the preset.
      config: the configuration.
      stage: the stage of the pipeline; `None` for self-play.
    """
    settings = {PIPELINE: stage, "preset": preset} | dataclasses.asdict(config)
    settings = {name: x for name, x in settings.items() if x is not None and name != "resume"}
    if stage is None:
        settings["search"] = {"variant": variant_of(config.search)} | settings["search"]
    return "\n".join(toml_lines(settings)) + "\n"


def _run_self_play(preset: str, config: Config, program: str) -> int:
    try:
        # Does nothing in a single process.
        require_same(record_of(preset, config) | {"devices": config.devices})
    except UserError as error:
        return fail(program, str(error))
    if not is_first():
        return run_worker(lambda: build_worker_trainer(preset, config), config.seed, program)
    with signals_as_interrupt():
        return run_coordinator(
            lambda: _report(lambda warn: run_training(preset, config, warn), program), program
        )


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
