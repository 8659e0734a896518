"""Older configurations of runs, upgraded to the present names and groups of options."""

from typing import Any

RENAMED = {"exams": "evals", "kept_nodes": "reuse_capacity"}
"""Former names of entries, at any depth."""
GROUPS = {
    "root": ("dirichlet_fraction", "dirichlet_alpha", "temperature", "visit_weights"),
    "backup": ("window", "explore_fraction", "explore_decay"),
    "execution": ("max_depth", "max_children", "leaves_per_step", "virtual_loss"),
}
"""Options of a search that have moved to a group. Variants with PUCT had them in `puct`."""
UNGROUPED = ("gumbel", "muzero", "Gumbel", "MuZero")
"""Variants, or their classes, that had some of these options among their own."""
ADDED: dict[str, dict[str, Any]] = {
    "root": {"visit_weights": "plain"},
    "execution": {"max_children": None, "leaves_per_step": 1, "virtual_loss": 0},
}
"""The options of a group that such variants lacked, with their only allowed value."""


def with_current_names(record: dict[str, Any]) -> dict[str, Any]:
    """Returns a configuration with the present names of its entries, at every depth.

    The entries `search` are upgraded by `with_current_options`. A present configuration is returned
    unchanged.
    """
    current: dict[str, Any] = {}
    for name, value in record.items():
        name = RENAMED.get(name, name)
        value = with_current_names(value) if isinstance(value, dict) else value
        is_search = name == "search" and isinstance(value, dict)
        current[name] = with_current_options(value) if is_search else value
    return current


def with_current_options(search: dict[str, Any]) -> dict[str, Any]:
    """Returns the options of a search in their present groups.

    Args:
      search: the options as JSON holds them. The entry `variant` or `policy` names the variant.
    """
    found = dict(search)
    if isinstance(found.get("puct"), dict):
        found["puct"] = dict(found["puct"])
        _move(found["puct"], found, {})
    if found.get("variant", found.get("policy")) in UNGROUPED:
        _move(found, found, ADDED)
    return found


def _move(
    source: dict[str, Any],
    search: dict[str, Any],
    added: dict[str, dict[str, Any]],
) -> None:
    """Moves the options of `source` to their groups in `search`, in place, with those `added`."""
    for group, names in GROUPS.items():
        moved = {name: source.pop(name) for name in names if name in source}
        if moved:
            search[group] = search.get(group, {}) | moved | added.get(group, {})
