"""Restores the state of a run to resume it, and checks the configuration of its checkpoints."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dualmctx.errors import UserError
from dualmctx.runs.checkpoint import Checkpoints
from dualmctx.runs.folder import (
    CONFIG,
    EDITED,
    RunFolder,
    fixed_settings,
    flatten,
    list_changes,
    read_config,
)


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


def check_config(path: Path, step: int, saved: dict[str, Any]) -> None:
    """Checks the `config.json` of a run against one of its checkpoints.

    Settings that may change when a run is resumed are not compared; see `fixed_settings`.

    To confirm an intended edit, set the field `edited` of `config.json` to the digest that the
    error message gives; it covers both configurations.

    Args:
      path: the run's folder.
      step: the checkpoint's iteration.
      saved: the configuration that the checkpoint was saved with.

    Raises:
      ValueError: if they differ; the message names the fields and the digest.
    """
    file = path / CONFIG
    pair = [fixed_settings(saved), fixed_settings(read_config(path))]
    changes = list_changes(*map(flatten, pair))
    digest = hashlib.sha256(json.dumps(pair, sort_keys=True).encode()).hexdigest()[:16]
    if not changes or json.loads(file.read_text()).get(EDITED) == digest:
        return
    raise UserError(
        f"{file} is not the configuration that the checkpoint of iteration {step} was saved with: "
        f"{changes}; put the old values back, or, if the change is intended, add "
        f'"{EDITED}": "{digest}" to it'
    )
