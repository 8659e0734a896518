"""Turns what JAX's runtime says when a process is lost into one line.

A script by itself, without imports that take time: `processes.join` starts it and sends it all that
the process writes to its standard error.
"""

import re
import sys
from collections.abc import Iterable, Iterator

_HEADER = re.compile(r"[IWEF]\d{4} [\d:.]+ +\d+ (\S+?):\d+\] ")
_OF_LOSSES = ("coordination_service", "preemption_sync_manager", "client.h", "distributed")


def without_losses(lines: Iterable[str], program: str = "train.py") -> Iterator[str]:
    """Passes lines on, all but those of the runtime about lost processes; adds one in their place.

    Args:
      lines: of the standard error, with their ends.
      program: how the command is called.

    Yields:
      Lines.
    """
    kept: list[str] = []
    is_about_losses = is_last = False
    for line in lines:
        header = _HEADER.match(line)
        if header and not is_last:
            is_about_losses = header[1].startswith(_OF_LOSSES)
            is_last = is_about_losses and line.startswith("F")
        if is_about_losses:
            kept.append(line)
        else:
            yield line
    if is_last:
        yield describe_loss("".join(kept), program) + "\n"


def describe_loss(text: str, program: str = "train.py") -> str:
    """Describes in a line which processes were lost, from what the runtime says."""
    listed = re.search(r"stopped sending heartbeats\):\n(.*?)\nThe tasks have crashed", text, re.S)
    numbers = re.findall(r"(\d+)\s*$", listed[1], re.M) if listed else []
    # Only the first process is asked by others.
    if not numbers and "Failed to send RPC to coordination service" in text:
        numbers = ["0"]
    names = " and ".join(numbers)
    who = f"process{'es' if len(numbers) > 1 else ''} {names}" if numbers else "another process"
    verb = "were" if len(numbers) > 1 else "was"
    return f"{program}: {who} {verb} lost, so this one ends; --resume goes on from the last save"


if __name__ == "__main__":
    for line in without_losses(sys.stdin, *sys.argv[1:]):
        sys.stderr.write(line)
        sys.stderr.flush()
