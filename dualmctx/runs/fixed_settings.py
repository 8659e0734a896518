"""The settings of a run that resuming must not change."""

from typing import Any

CHANGEABLE = ("num_iterations", "checkpoint_every", "checkpoint_minutes", "keep")
"""Settings of a run that may change when it is resumed; no earlier result depends on them."""
CHANGEABLE_IN_EVALS = ("every", "stop_when_solved")
"""The same, in the group `evals`."""
CHANGEABLE_IN_REINFORCE = ("num_iterations", "eval_every")
"""The same, in the group `reinforce` of a run of that stage of the pipeline. Other stages have
schedules of their own length, and those of a whole pipeline build on each other."""


def fixed_settings(config: dict[str, Any]) -> dict[str, Any]:
    """Returns the configuration of a run without the settings that may change.

    `schedule_iterations` has the number that it stands for, so that the learning rates of a run
    cannot change.

    Args:
      config: the content of a `config.json`; settings of other programs are kept.
    """
    fixed = {name: x for name, x in config.items() if name not in CHANGEABLE}
    for group, names in _changeable_groups(config).items():
        fixed[group] = {name: x for name, x in fixed[group].items() if name not in names}
    if "num_iterations" in config:
        fixed["schedule_iterations"] = config.get("schedule_iterations") or config["num_iterations"]
    return fixed


def with_changes(saved: dict[str, Any], config: dict[str, Any]) -> dict[str, Any]:
    """Returns the saved configuration of a run with the settings that may change from another one.

    All other entries are kept, so that those of an earlier version still agree with the checkpoints
    of that version. A setting that is missing and would be `None` is not added.
    """
    changed = _with_entries(saved, config, (*CHANGEABLE, "schedule_iterations"))
    for group, names in _changeable_groups(saved).items():
        changed[group] = _with_entries(saved[group], config[group], names)
    return changed


def _changeable_groups(config: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """Returns the groups of settings of which some may change, with the names of those."""
    groups: dict[str, tuple[str, ...]] = {"evals": CHANGEABLE_IN_EVALS}
    if config.get("pipeline") == "reinforce":
        groups["reinforce"] = CHANGEABLE_IN_REINFORCE
    return {name: x for name, x in groups.items() if isinstance(config.get(name), dict)}


def _with_entries(
    saved: dict[str, Any], config: dict[str, Any], names: tuple[str, ...]
) -> dict[str, Any]:
    return saved | {x: config[x] for x in names if config.get(x) != saved.get(x)}
