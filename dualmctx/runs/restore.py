"""Restores the state of a run to resume it."""

from collections.abc import Callable
from typing import Any

from dualmctx.runs.checkpoint import Checkpoints
from dualmctx.runs.folder import RunFolder
from dualmctx.runs.recorded_config import check_config


def restore(
    folder: RunFolder, checkpoints: Checkpoints, shapes: Any, warn: Callable[[str], None]
) -> Any:
    """Restores the state of the newest checkpoint that is not damaged, in NumPy arrays.

    Damaged checkpoints are moved aside, and `warn` gets a line about each.

    Args:
      folder: the folder of the run.
      checkpoints: its checkpoints.
      shapes: the shapes and dtypes of the state.
      warn: called with a line.

    Raises:
      ValueError: if no checkpoint can be read, or the newest readable one was saved with another
        configuration.
    """
    restored = checkpoints.restore(shapes)
    check_config(folder.path, restored.step, restored.config)
    for step, reason in restored.damaged.items():
        aside = checkpoints.set_aside(step)
        warn(
            f"the checkpoint of iteration {step} is damaged ({reason}) and was moved to {aside}; "
            f"the run continues from iteration {restored.step}"
        )
    return restored.state
