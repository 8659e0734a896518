"""`dualmctx train GAME --pipeline STAGE`: one stage of AlphaGo's pipeline, or all of them."""

import importlib
import sys

from dualmctx.commands.flags import take_flag
from dualmctx.commands.main import fail
from dualmctx.commands.pipeline_settings import FLAG, KINDS, Settled, settle_stage, stage_of_folder
from dualmctx.commands.settings_toml import format_settings, option_values
from dualmctx.commands.train_request import PRINT_CONFIG
from dualmctx.distributed.backend import require_backend
from dualmctx.distributed.signals import signals_as_interrupt
from dualmctx.errors import UserError
from dualmctx.experiment.runner import RunFailed
from dualmctx.pipeline.registry import ALL_STAGES, ALPHAGO
from dualmctx.pipeline.start import PIPELINE, start_stage

_USAGE = """\
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


def is_pipeline(arguments: list[str]) -> bool:
    """Returns whether a command line of `dualmctx train` is for a stage of the pipeline."""
    return take_flag(arguments, FLAG)[0] is not None or stage_of_folder(arguments)


def run_pipeline(arguments: list[str], program: str) -> int:
    """Runs a stage or the whole pipeline.

    Args:
      arguments: the arguments after the program's name.
      program: the program's name, for usage and messages.

    Returns:
      The exit code.

    Raises:
      KeyboardInterrupt: if it is stopped immediately.
    """
    if take_flag(arguments, FLAG)[0] in ("-h", "--help"):
        width = max(map(len, KINDS)) + 2
        stages = "\n".join(f"  {name:<{width}}{kind.summary}" for name, kind in KINDS.items())
        print(_USAGE.format(program=program, stages=stages))
        return 0
    try:
        settled = settle_stage([x for x in arguments if x != PRINT_CONFIG], program)
        if PRINT_CONFIG in arguments:
            print(_to_toml(settled), end="")
            return 0
        require_backend(program)
    except UserError as error:
        return fail(program, str(error))

    def warn(line: str) -> None:
        print(f"{program}: {line}", file=sys.stderr)

    with signals_as_interrupt():
        try:
            if settled.stage == ALPHAGO:
                run_all = importlib.import_module(ALL_STAGES.module).run_all
                return run_all(settled.preset, settled.config, warn)
            return start_stage(*settled, warn)
        except RunFailed as error:
            fail(program, str(error))
            return error.exit_code


def _to_toml(settled: Settled) -> str:
    """Returns all settings of a command as TOML, which `--config` reads back."""
    values = option_values(settled.config)
    known = {name: x for name, x in values.items() if x is not None and name != "resume"}
    return format_settings({PIPELINE: settled.stage, "preset": settled.preset} | known)
