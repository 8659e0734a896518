"""Command line of training: `dualmctx train PRESET`, or `python train.py PRESET`."""

import dataclasses
import sys
import textwrap
import traceback

from dualmctx.commands.flags import parse_flags, take_flag
from dualmctx.commands.game_flags import names_game, preset_of_game
from dualmctx.commands.main import fail
from dualmctx.commands.network_flag import DESCRIPTION, expand_network_flag
from dualmctx.distributed.backend import require_backend
from dualmctx.distributed.processes import is_first, join, require_same
from dualmctx.distributed.signals import signals_as_interrupt
from dualmctx.experiment.assemble import build_worker_trainer, record_of
from dualmctx.experiment.loop import STOPPED, RunFailed, run_training
from dualmctx.experiment.multihost import run_coordinator, run_worker
from dualmctx.policies import REGISTRY
from dualmctx.runs.checkpoint import silence_orbax
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

Ctrl-C or SIGTERM finishes the iteration, saves a checkpoint and stops.
A second signal stops immediately. The same command with --resume continues.

Exit codes: 0 at the end of the run; 2 for bad input, or if memory, the disk,
the network or a device fails; 3 if training diverges; 130 after Ctrl-C or
SIGTERM."""


@silence_orbax()
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
        try:
            name, config = parse(arguments, program)
            if config.coordinator is not None:
                join(config.coordinator, config.num_processes, config.process_id, program)
            require_backend(program)
            # Does nothing in a single process.
            require_same(record_of(name, config) | {"devices": config.devices})
        except ValueError as error:
            return fail(program, str(error))
        if not is_first():
            return run_worker(lambda: build_worker_trainer(name, config), config.seed, program)
        with signals_as_interrupt():
            return run_coordinator(lambda: run(name, config, program), program)
    except KeyboardInterrupt as stop:
        print(f"{program}: stopped immediately{''.join(stop.args)}", file=sys.stderr)
        return STOPPED


def parse(arguments: list[str], program: str = PROGRAM) -> tuple[str, Config]:
    """Parses a preset and the flags that change its fields.

    Args:
      arguments: the arguments after the program's name; not empty.
      program: the program's name, for `--help`.

    Returns:
      The preset's name and the configuration.

    Raises:
      ValueError: if an argument is invalid.
      SystemExit: with code 0, after `--help`.
    """
    if names_game(arguments):
        (name, default), rest = preset_of_game(arguments, program), arguments
    else:
        preset, *rest = arguments
        # Games are named with underscores, presets with hyphens.
        name = preset.replace("_", "-")
        if name not in PRESETS:
            raise ValueError(
                f"there is no preset {preset!r}; the presets are {', '.join(PRESETS)}; other games "
                "are named with --game"
            )
        default = PRESETS[name]
    # The variant is parsed first, because it decides which other flags exist.
    variant, rest = take_flag(rest, "--search.variant")
    if variant is not None:
        if variant not in REGISTRY:
            raise ValueError(
                f"there is no search variant {variant!r}; the variants are {', '.join(REGISTRY)}"
            )
        policy = REGISTRY[variant].policy
        if not isinstance(default.search, policy):
            default = dataclasses.replace(default, search=policy())
    rest = expand_network_flag(rest)
    description = f"Trains a network with the preset {name}. {describe_variants()} {DESCRIPTION}"
    return name, parse_flags(default, rest, f"{program} {name}", description)


def describe_variants() -> str:
    """Describes the flag `--search.variant`, which is parsed before the others, for `--help`."""
    variants = "; ".join(f"{name} ({row.summary})" for name, row in REGISTRY.items())
    return f"--search.variant NAME chooses the search: {variants}."


def run(name: str, config: Config, program: str) -> int:
    """Runs training; reports a failure on standard error; returns the exit code."""
    try:
        return run_training(
            name, config, warn=lambda line: print(f"{program}: {line}", file=sys.stderr)
        )
    except RunFailed as error:
        fail(program, str(error))
        return error.exit_code
    except ValueError:
        # Bad input raises `RunFailed`, so this is a bug.
        traceback.print_exc()
        return 1
