"""Upgrades configurations of older runs to the current names and groups of options."""

from typing import Any

RENAMED = {"exams": "evals", "kept_nodes": "reuse_capacity"}
"""Former names of entries, at any depth."""
GROUPS = {
    "root": ("dirichlet_fraction", "dirichlet_alpha", "temperature", "visit_weights"),
    "backup": ("window", "explore_fraction", "explore_decay"),
    "execution": ("max_depth", "max_children", "leaves_per_step", "virtual_loss"),
}
"""Options of a search that moved to a group. Variants with PUCT had them in `puct`."""
UNGROUPED = ("gumbel", "muzero", "Gumbel", "MuZero")
"""Variants, and names of their classes, that had some of these options at the top level."""
ADDED: dict[str, dict[str, Any]] = {
    "root": {"visit_weights": "plain"},
    "execution": {"max_children": None, "leaves_per_step": 1, "virtual_loss": 0},
}
"""The options of a group that these variants lacked, with the only value they allow."""


def with_current_names(record: dict[str, Any]) -> dict[str, Any]:
    """Returns a configuration with the current names of its entries, at every depth.

    The entries `search` are upgraded by `with_current_options`. A current configuration is returned
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
    """Returns the options of a search in their current groups.

    Args:
      search: the options as JSON values. The entry `variant` or `policy` names the variant.
    """
    upgraded = dict(search)
    if isinstance(upgraded.get("puct"), dict):
        upgraded["puct"] = dict(upgraded["puct"])
        _move(upgraded["puct"], upgraded, {})
    if upgraded.get("variant", upgraded.get("policy")) in UNGROUPED:
        _move(upgraded, upgraded, ADDED)
    return upgraded


def _move(
    source: dict[str, Any],
    search: dict[str, Any],
    added: dict[str, dict[str, Any]],
) -> None:
    """Moves options of `source` to their groups in `search`, in place; adds those in `added`."""
    for group, names in GROUPS.items():
        moved = {name: source.pop(name) for name in names if name in source}
        if moved:
            search[group] = search.get(group, {}) | moved | added.get(group, {})
