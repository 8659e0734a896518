"""Whether a run's `config.json` is still the configuration that its checkpoints were saved with."""

import hashlib
import json
import logging
from pathlib import Path
from typing import Any

from dualmctx.runs.folder import CONFIG, EDITED, flatten, read_config


def check_config(path: Path, step: int, saved: dict[str, Any] | None) -> None:
    """Checks the `config.json` of a run by one of its checkpoints.

    A file that was edited on purpose says so by its field `edited`, a digest of both
    configurations, which the message names. A checkpoint of an earlier version holds no
    configuration; then a note is logged.

    Args:
      path: the run's folder.
      step: the checkpoint's iterations.
      saved: the configuration that the checkpoint was saved with, `None` if it has none.

    Raises:
      ValueError: when they differ, in one line with the fields and the digest.
    """
    file, found = path / CONFIG, read_config(path)
    if saved is None:
        note = "%s is not checked: the checkpoint of iteration %d holds no configuration"
        logging.getLogger(__name__).warning(note, file, step)
        return
    if _digest(saved) == _digest(found):
        return
    digest = _digest([saved, found])
    if json.loads(file.read_text()).get(EDITED) == digest:
        return
    before, after = flatten(saved), flatten(found)
    names = sorted(x for x in before | after if _text(before.get(x)) != _text(after.get(x)))
    fields = ", ".join(f"{x} ({before.get(x)} → {after.get(x)})" for x in names) or "its structure"
    raise ValueError(
        f"{file} is not the configuration that the checkpoint of iteration {step} was saved with: "
        f'{fields}; put that back, or, if the change is meant, add "{EDITED}": "{digest}" to it'
    )


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _digest(value: Any) -> str:
    return hashlib.sha256(_text(value).encode()).hexdigest()[:16]
