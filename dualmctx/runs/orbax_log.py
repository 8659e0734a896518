"""The log of orbax, which reads and writes checkpoints."""

import contextlib
import logging
import sys
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def silence_orbax() -> Iterator[None]:
    """Hides the log of orbax and the errors that tensorstore prints per array.

    `dualmctx.runs.checkpoint` reports failures itself. orbax also writes to its log in threads that
    save in the background.
    """
    logger, hook = logging.getLogger("absl"), sys.unraisablehook
    level = logger.level

    def report(raised: Any) -> None:
        # tensorstore raises this for each array in progress after another array failed.
        if str(raised.exc_value) != "Event loop is closed":
            hook(raised)

    logger.setLevel(logging.CRITICAL)
    sys.unraisablehook = report
    try:
        yield
    finally:
        sys.unraisablehook = hook
        logger.setLevel(level)
