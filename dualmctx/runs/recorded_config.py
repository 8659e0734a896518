"""Checks `config.json` against the configuration that a checkpoint was saved with."""

import hashlib
import json
import logging
from pathlib import Path
from typing import Any

from dualmctx.errors import UserError
from dualmctx.runs.fixed_settings import fixed_settings
from dualmctx.runs.folder import CONFIG, EDITED, flatten, list_changes, read_config


def check_config(path: Path, step: int, saved: dict[str, Any] | None) -> None:
    """Checks the `config.json` of a run against one of its checkpoints.

    Settings that may change when a run is resumed are not compared; see `fixed_settings`.

    To confirm an intended edit, set the field `edited` of `config.json` to the digest that the
    error message gives; it covers both configurations. Checkpoints of earlier versions hold no
    configuration; in that case a warning is logged.

    Args:
      path: the run's folder.
      step: the checkpoint's iteration.
      saved: the configuration that the checkpoint was saved with; `None` if it has none.

    Raises:
      ValueError: if they differ; the message names the fields and the digest.
    """
    file, current = path / CONFIG, read_config(path)
    if saved is None:
        note = "%s is not checked: the checkpoint of iteration %d holds no configuration"
        logging.getLogger(__name__).warning(note, file, step)
        return
    # The digests of earlier versions cover all settings.
    pairs = [(fixed_settings(saved), fixed_settings(current)), (saved, current)]
    changes = list_changes(*map(flatten, pairs[0]))
    if not changes:
        return
    digests = [_digest(list(pair)) for pair in pairs]
    if json.loads(file.read_text()).get(EDITED) in digests:
        return
    raise UserError(
        f"{file} is not the configuration that the checkpoint of iteration {step} was saved with: "
        f"{changes}; put the old values back, or, if the change is intended, add "
        f'"{EDITED}": "{digests[0]}" to it'
    )


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
