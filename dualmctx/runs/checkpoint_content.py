"""The content of a checkpoint: a state, the configuration of its run, and checksums of both."""

import json
import zlib
from typing import Any

import jax
import numpy as np

from dualmctx.runs.record_names import with_current_names

CONFIG, CHECKSUMS = "config", "checksums"


def make_content(state: Any, config: dict[str, Any] | None) -> dict[str, Any]:
    """Returns the content of a checkpoint.

    Args:
      state: a pytree of NumPy arrays.
      config: the configuration of the run, as JSON values; omitted if `None`.

    Returns:
      The state, the configuration as bytes of JSON, and one checksum per array of both.
    """
    content = {"state": state}
    if config is not None:
        content[CONFIG] = np.frombuffer(json.dumps(config).encode(), np.uint8)
    return content | {CHECKSUMS: _checksums(content)}


def is_intact(content: dict[str, Any], *, in_order: bool) -> bool:
    """Returns whether all checksums match.

    Args:
      content: the content that was read.
      in_order: whether the arrays of the state are in the order in which they were saved.
    """
    actual, saved = _checksums(content), content[CHECKSUMS]
    return np.array_equal(actual, saved) if in_order else sorted(actual) == sorted(saved)


def read_config(content: dict[str, Any]) -> dict[str, Any] | None:
    """Returns the configuration of the run; `None` for checkpoints of earlier versions."""
    if CONFIG not in content:
        return None
    return with_current_names(json.loads(np.asarray(content[CONFIG]).tobytes()))


def _checksums(content: dict[str, Any]) -> np.ndarray:
    """Returns one checksum per array; the last one is that of the configuration."""
    arrays = jax.tree.leaves((content["state"], content.get(CONFIG)))
    flat = (np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in arrays)
    return np.array([zlib.crc32(x.data) for x in flat], np.uint32)
