"""The settings of a run that resuming must not change."""

from typing import Any

CHANGEABLE = ("num_iterations", "checkpoint_every", "checkpoint_minutes", "keep")
"""Settings of a run that may change when it is resumed; no earlier result depends on them."""
CHANGEABLE_IN_EVALS = ("every", "stop_when_solved")
"""The same, in the group `evals`."""


def fixed_settings(config: dict[str, Any]) -> dict[str, Any]:
    """Returns the configuration of a run without the settings that may change.

    `schedule_iterations` has the number that it stands for, so that the learning rates of a run
    cannot change.

    Args:
      config: the content of a `config.json`; settings of other programs are kept.
    """
    fixed = {name: x for name, x in config.items() if name not in CHANGEABLE}
    if isinstance(fixed.get("evals"), dict):
        evals = fixed["evals"].items()
        fixed["evals"] = {name: x for name, x in evals if name not in CHANGEABLE_IN_EVALS}
    if "num_iterations" in config:
        fixed["schedule_iterations"] = config.get("schedule_iterations") or config["num_iterations"]
    return fixed


def with_changes(saved: dict[str, Any], config: dict[str, Any]) -> dict[str, Any]:
    """Returns the saved configuration of a run with the settings that may change from another one.

    All other entries are kept, so that those of an earlier version still agree with the checkpoints
    of that version. A setting that is missing and would be `None` is not added.
    """
    changed = _with_entries(saved, config, (*CHANGEABLE, "schedule_iterations"))
    if isinstance(saved.get("evals"), dict):
        changed["evals"] = _with_entries(saved["evals"], config["evals"], CHANGEABLE_IN_EVALS)
    return changed


def _with_entries(
    saved: dict[str, Any], config: dict[str, Any], names: tuple[str, ...]
) -> dict[str, Any]:
    return saved | {x: config[x] for x in names if config.get(x) != saved.get(x)}
