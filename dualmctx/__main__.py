"""The command `dualmctx`, also as `python -m dualmctx`; imports nothing until it runs."""

import sys
from collections.abc import Callable


def main() -> int:
    """Runs the command; returns its exit code."""

    def command() -> int:
        from dualmctx.commands import main

        return main.main()

    return stop_quietly("dualmctx", command)


def stop_quietly(program: str, command: Callable[[], int]) -> int:
    """Runs a command that begins with imports, during which Ctrl-C stops it without a traceback."""
    try:
        return command()
    except KeyboardInterrupt:
        print(f"{program}: stopped", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
