"""Upgrades configurations of older runs to the current names and groups of options."""

from typing import Any

RENAMED = {"exams": "evals"}
"""Former names of the entries of a configuration."""
RENAMED_OPTIONS = {"kept_nodes": "reuse_capacity"}
"""Former names of the options of a search."""
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
ADDED_TO_NETWORK: dict[str, Any] = {"dtype": "float32", "value_blocks": None}
"""Options of a network that earlier versions lacked, with the only value they had."""
ADDED_TO_FIELDS: dict[str, dict[str, Any]] = {
    "Network": {"dtype": "float32"},
    "SeparateTrunks": {"dtype": "float32", "value_depth": None},
}
"""The same for the fields of the networks of each type."""


def with_current_names(record: dict[str, Any]) -> dict[str, Any]:
    """Returns a configuration with the current names of its entries.

    The entry `search` is upgraded by `with_current_options`. The entries `network` and
    `architecture` get the options of `ADDED_TO_NETWORK` and `ADDED_TO_FIELDS` that they lack. The
    content of all other entries, such as game parameters, is kept. A current configuration is
    returned unchanged.
    """
    renamed = {RENAMED.get(name, name): x for name, x in record.items()}
    return _with_current_network(_with_current_search(renamed))


def with_current_players(settings: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings of a tournament; the search options of its players get current names.

    The names of the players are kept.
    """
    players = settings.get("players")
    if not isinstance(players, dict):
        return settings
    return settings | {"players": {name: _upgrade_player(x) for name, x in players.items()}}


def _upgrade_player(player: Any) -> Any:
    if not isinstance(player, dict) or not isinstance(player.get("about"), dict):
        return player
    return player | {"about": _with_current_search(player["about"])}


def _with_current_search(record: dict[str, Any]) -> dict[str, Any]:
    search = record.get("search")
    return record | {"search": with_current_options(search)} if isinstance(search, dict) else record


def _with_current_network(record: dict[str, Any]) -> dict[str, Any]:
    """Upgrades the entry `network` and the fields in `architecture`."""
    network, architecture = record.get("network"), record.get("architecture")
    if isinstance(network, dict):
        record = record | {"network": _add_missing(network, ADDED_TO_NETWORK)}
    # The fields of an imported network are those of a module outside of this package.
    if (
        isinstance(architecture, dict)
        and "factory" not in architecture
        and isinstance(architecture.get("fields"), dict)
    ):
        added = ADDED_TO_FIELDS.get(architecture.get("type", ""), {})
        fields = _add_missing(architecture["fields"], added)
        record = record | {"architecture": architecture | {"fields": fields}}
    return record


def _add_missing(saved: dict[str, Any], added: dict[str, Any]) -> dict[str, Any]:
    return saved | {name: x for name, x in added.items() if name not in saved}


def with_current_options(search: dict[str, Any]) -> dict[str, Any]:
    """Returns the options of a search with their current names, in their current groups.

    Args:
      search: the options as JSON values. The entry `variant` or `policy` names the variant.
    """
    upgraded = {RENAMED_OPTIONS.get(name, name): x for name, x in search.items()}
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
