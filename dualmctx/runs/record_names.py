"""Older configurations of runs, upgraded to the present names and groups of options."""

from typing import Any

RENAMED = {"exams": "evals", "kept_nodes": "reuse_capacity"}
"""Former names of entries, at any depth."""
GROUPS = {
    "root": ("dirichlet_fraction", "dirichlet_alpha", "temperature", "visit_weights"),
    "backup": ("window", "explore_fraction", "explore_decay"),
    "execution": ("max_depth", "max_children", "leaves_per_step", "virtual_loss"),
}
"""Options of a search that have moved to a group. PUCT variants had them in `puct`."""
UNGROUPED = ("gumbel", "muzero")
"""Variants that had these options among their own."""


def with_current_names(record: dict[str, Any]) -> dict[str, Any]:
    """Returns the configuration of a run with the present names of its entries.

    A present configuration is returned unchanged.
    """
    current = _rename(record)
    search = current.get("search")
    return current | {"search": _group(search)} if isinstance(search, dict) else current


def _rename(record: dict[str, Any]) -> dict[str, Any]:
    return {
        RENAMED.get(name, name): _rename(value) if isinstance(value, dict) else value
        for name, value in record.items()
    }


def _group(search: dict[str, Any]) -> dict[str, Any]:
    """Moves the options of a search to their groups."""
    found = dict(search)
    puct = found.get("puct")
    if isinstance(puct, dict):
        found["puct"] = puct = dict(puct)
        _move(puct, found)
    if found.get("variant") in UNGROUPED:
        _move(found, found)
    return found


def _move(source: dict[str, Any], search: dict[str, Any]) -> None:
    """Moves the options of `source` that belong to a group of `search`, in place."""
    for group, names in GROUPS.items():
        moved = {name: source.pop(name) for name in names if name in source}
        if moved:
            search[group] = moved | search.get(group, {})
