"""Older names in the configuration of a run, which saved runs and networks may still have."""

from typing import Any

RENAMED = {"exams": "evals", "kept_nodes": "reuse_capacity"}


def with_current_names(record: dict[str, Any]) -> dict[str, Any]:
    """Returns a configuration with today's names of its entries, at every depth."""
    return {
        RENAMED.get(name, name): with_current_names(value) if isinstance(value, dict) else value
        for name, value in record.items()
    }
