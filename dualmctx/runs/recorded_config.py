"""Checks `config.json` against the configuration that a checkpoint was saved with."""

import hashlib
import json
import logging
from pathlib import Path
from typing import Any

from dualmctx.runs.folder import CONFIG, EDITED, flatten, read_config


def check_config(path: Path, step: int, saved: dict[str, Any] | None) -> None:
    """Checks the `config.json` of a run against one of its checkpoints.

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
    if _digest(saved) == _digest(current):
        return
    digest = _digest([saved, current])
    if json.loads(file.read_text()).get(EDITED) == digest:
        return
    before, after = flatten(saved), flatten(current)
    names = sorted(x for x in before | after if _text(before.get(x)) != _text(after.get(x)))
    fields = ", ".join(f"{x} ({before.get(x)} → {after.get(x)})" for x in names) or "its structure"
    raise ValueError(
        f"{file} is not the configuration that the checkpoint of iteration {step} was saved with: "
        f"{fields}; put the old values back, or, if the change is intended, add "
        f'"{EDITED}": "{digest}" to it'
    )


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _digest(value: Any) -> str:
    return hashlib.sha256(_text(value).encode()).hexdigest()[:16]
