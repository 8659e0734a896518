"""Copies the standard error of a process, and adds a message if JAX's runtime ended the process.

When one of several processes is lost, JAX's C++ runtime prints the reason and aborts the others. No
Python code runs in them after that. `processes.join` therefore starts this script, which reads the
standard error of the process from a pipe. It imports only the standard library.
"""

import sys
from collections.abc import Iterable, Iterator

_ABORTED = "JAX distributed service detected fatal errors"


def copy_lines(lines: Iterable[str], program: str) -> Iterator[str]:
    """Yields all lines, then one more line if JAX's runtime ended the process.

    Args:
      lines: the standard error of a process.
      program: the name of the command, for the message.
    """
    is_aborted = False
    for line in lines:
        yield line
        is_aborted |= _ABORTED in line
    if is_aborted:
        yield (f"{program}: another process was lost, so this one ended; continue with --resume\n")


if __name__ == "__main__":
    for copied in copy_lines(sys.stdin, sys.argv[1]):
        sys.stderr.write(copied)
        sys.stderr.flush()
