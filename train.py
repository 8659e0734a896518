"""Trains a network by self-play: the same command as `dualmctx train`."""

import sys

from dualmctx.__main__ import stop_quietly

PROGRAM = "train.py"


def main() -> int:
    """Runs the command; returns its exit code."""
    from dualmctx.commands import train
    from dualmctx.commands.compilation_cache import use_cache
    from dualmctx.commands.main import run_command

    return run_command(PROGRAM, lambda: train.main(use_cache(sys.argv[1:], PROGRAM), PROGRAM))


if __name__ == "__main__":
    sys.exit(stop_quietly(PROGRAM, main))
