"""`python -m dualmctx` is the command `dualmctx`."""

import sys

from dualmctx.commands.main import main

if __name__ == "__main__":
    sys.exit(main())
