"""Older names of fields in the state of a run, as in checkpoints of earlier versions."""

from collections import namedtuple
from typing import Any

import jax

RENAMED = {"rest": "remaining_discount"}


def with_saved_names(state: Any, saved: Any) -> Any:
    """Renames the fields of the named tuples in a state to the names in a checkpoint.

    Args:
      state: a pytree with the current names.
      saved: nested dictionaries with the names in the checkpoint, such as its metadata.
    """
    paths = jax.tree_util.tree_leaves_with_path(saved)
    names = {getattr(key, "key", None) for path, _ in paths for key in path}
    older = {new: old for old, new in RENAMED.items() if old in names}

    def is_renamed(x: Any) -> bool:
        return not older.keys().isdisjoint(getattr(x, "_fields", ()))

    def rename(x: Any) -> Any:
        if not is_renamed(x):
            return x
        return namedtuple(type(x).__name__, [older.get(name, name) for name in x._fields])(*x)

    return jax.tree.map(rename, state, is_leaf=is_renamed)
