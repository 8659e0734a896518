"""Trains a network by self-play: the same command as `dualmctx train`."""

import sys

from dualmctx.commands import train
from dualmctx.commands.compilation_cache import use_cache
from dualmctx.commands.main import run_command

PROGRAM = "train.py"

if __name__ == "__main__":
    sys.exit(run_command(PROGRAM, lambda: train.main(use_cache(sys.argv[1:], PROGRAM), PROGRAM)))
