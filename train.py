"""Trains a network by self-play: the same command as `dualmctx train`."""

import sys

from dualmctx.commands.train import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], program="train.py"))
