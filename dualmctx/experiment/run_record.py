"""The record of a training run: the content of `config.json`."""

import dataclasses
from typing import Any

from dualmctx.runs.folder import to_dict
from dualmctx.runs.saved_policy import search_record
from dualmctx.training.config import Config

# Fields that only say where a run executes. The record holds these fixed values instead of the
# actual ones, so that a run may be resumed elsewhere.
_PLACEHOLDERS: dict[str, Any] = {
    **{"out": None, "resume": False, "wandb": None, "memory_limit": None},
    **{"devices": None, "coordinator": None, "num_processes": None, "process_id": None},
}


def record_of(name: str, config: Config) -> dict[str, Any]:
    """Returns the content of `config.json`, without the fields that say where the run executes."""
    record: dict[str, Any] = to_dict(dataclasses.replace(config, **_PLACEHOLDERS))
    record["preset"] = name
    search, separate_trunks = config.search, config.network.separate_trunks
    record["search"] = search_record(search)
    if separate_trunks is None:
        separate_trunks = search.traits.separate_trunks
    record["network"] |= {
        "num_heads": len(search.heads),
        "separate_trunks": separate_trunks,
    }
    return record
