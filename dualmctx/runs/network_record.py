"""The record of a network: its type and all its fields, as JSON."""

import dataclasses
import typing
from typing import Any

from dualmctx.checks import check
from dualmctx.errors import UserError
from dualmctx.models.adapted_network import AdaptedNetwork
from dualmctx.models.imported_network import import_network
from dualmctx.models.module_fields import describe_fields
from dualmctx.models.network import Network, SeparateTrunks, make_network
from dualmctx.runs.record_names import with_current_names
from dualmctx.types import Environment, PolicyValueNetwork

ARCHITECTURE = "architecture"
"""The entry of a run's record that holds the type and all the fields of its network."""

SavedNetwork = Network | SeparateTrunks | AdaptedNetwork
"""A network that a record can describe."""

_TYPES = {kind.__name__: kind for kind in (Network, SeparateTrunks)}
# The type, in records, of a network that is named as `package.module:factory`.
_IMPORTED = "imported"
# Fields that Flax adds to every module.
_FLAX_FIELDS = ("parent", "name")


def describe_network(network: PolicyValueNetwork) -> dict[str, Any]:
    """Returns the type and all the fields of a network as JSON values.

    Of a network that was imported, these are its factory with its arguments, the depths of its
    heads, and the fields of its module.

    Raises:
      ValueError: if the network is of a type that cannot be saved, or was adapted in Python, so
        that a file could not name its code.
    """
    if isinstance(network, AdaptedNetwork):
        return _describe_imported(network)
    kind = type(network).__name__
    check(kind in _TYPES, "the type of the network", kind, f"one of {', '.join(_TYPES)}")
    fields = {field.name: getattr(network, field.name) for field in _fields(_TYPES[kind])}
    as_json = {name: list(x) if isinstance(x, tuple) else x for name, x in fields.items()}
    return {"type": kind, "fields": as_json}


def _describe_imported(network: AdaptedNetwork) -> dict[str, Any]:
    if network.origin is None:
        raise UserError(
            f"the network {type(network.module).__name__} cannot be saved, because a file could "
            "not name its code; make it by import_network('package.module:factory', ...)"
        )
    return {
        "type": _IMPORTED,
        "factory": network.origin.factory,
        "options": dict(network.origin.options),
        "observation_shape": list(network.origin.observation_shape),
        "head_depths": list(network.head_depths),
        "fields": describe_fields(network.module),
    }


def factory_of(record: dict[str, Any]) -> str | None:
    """Returns the `package.module:factory` that `build_network` would import, if any."""
    for entry in (ARCHITECTURE, "network"):
        if entry in record:
            found = record[entry]
            return found.get("factory") if isinstance(found, dict) else None
    return None


def with_architecture(record: dict[str, Any], network: PolicyValueNetwork) -> dict[str, Any]:
    """Returns a run's record with the entry `architecture` of its network.

    Raises:
      ValueError: as `describe_network`.
    """
    return record | {ARCHITECTURE: describe_network(network)}


def missing_architecture(saved: dict[str, Any], record: dict[str, Any]) -> dict[str, Any]:
    """Returns the entry `architecture` that a saved record of an earlier version lacks.

    Args:
      saved: the saved record of a run.
      record: the record of the resumed run, with the entry.

    Returns:
      The entry for `reopen_run`; nothing if the saved record has it.
    """
    return {} if ARCHITECTURE in saved else {ARCHITECTURE: record[ARCHITECTURE]}


def build_network(record: dict[str, Any], env: Environment) -> SavedNetwork:
    """Builds the network of a run from the run's record.

    The entry `architecture` holds every field of the network, so no default of the code applies.
    Records of earlier versions lack this entry, and the network is built from the options of the
    run in the entry `network`, or they lack the field `dtype`, which is then float32, or the field
    `value_depth`, which is then `None`.

    A network that is named as `package.module:factory` is imported, which runs the code of that
    module.

    Args:
      record: the content of `config.json`.
      env: the game, as `games.make` returns it.

    Raises:
      ValueError: if the fields are not exactly those of the network's type, if a value has the
        wrong type, if the network is not for this game, or as `import_network`.
      KeyError, TypeError: if the record is malformed.
    """
    record = with_current_names(record)
    if ARCHITECTURE not in record:
        return _network_from_options(record["network"], env)
    if record[ARCHITECTURE]["type"] == _IMPORTED:
        return _imported_from_fields(record[ARCHITECTURE], env)
    network = _network_from_fields(record[ARCHITECTURE])
    if network.num_actions != env.num_actions:
        raise UserError(
            f"the saved network has {network.num_actions} actions, but {env.id} has "
            f"{env.num_actions}"
        )
    return network


def _imported_from_fields(saved: dict[str, Any], env: Environment) -> AdaptedNetwork:
    shape = tuple(saved["observation_shape"])
    if shape != env.observation_shape:
        raise UserError(
            f"the saved network is for observations of shape {shape}, but those of {env.id} have "
            f"the shape {env.observation_shape}"
        )
    return import_network(
        saved["factory"],
        env.num_actions,
        shape,
        options=saved["options"],
        head_depths=saved["head_depths"],
        fields=saved["fields"],
    )


def _network_from_fields(saved: dict[str, Any]) -> Network | SeparateTrunks:
    kind, values = saved["type"], dict(saved["fields"])
    check(kind in _TYPES, "the type of the saved network", kind, f"one of {', '.join(_TYPES)}")
    fields = {field.name: field.type for field in _fields(_TYPES[kind])}
    problems = [f"{name} is missing" for name in fields if name not in values]
    problems += [f"{name} is unknown" for name in values if name not in fields]
    if problems:
        raise UserError(
            f"the saved network does not have the fields of {kind}: {', '.join(problems)}; use the "
            "version of dualmctx that saved it"
        )
    return _TYPES[kind](**{name: _decode(name, fields[name], x) for name, x in values.items()})


def _decode(name: str, kind: Any, value: Any) -> Any:
    """Converts a JSON value to the type of a field."""
    kind = tuple if typing.get_origin(kind) is tuple else kind
    value = tuple(value) if isinstance(value, list) else value
    if not isinstance(value, kind):
        wanted = "a list" if kind is tuple else f"of type {getattr(kind, '__name__', kind)}"
        raise UserError(f"the saved network's {name} is {value!r}; it must be {wanted}")
    return value


def _fields(kind: type[Network] | type[SeparateTrunks]) -> list[dataclasses.Field[Any]]:
    return [field for field in dataclasses.fields(kind) if field.name not in _FLAX_FIELDS]


def _network_from_options(options: dict[str, Any], env: Environment) -> SavedNetwork:
    if "factory" in options and options["factory"] is not None:
        return import_network(
            options["factory"],
            env.num_actions,
            env.observation_shape,
            options=options["options"],
            head_depths=options["head_depths"],
        )
    names = ("width", "num_blocks", "head_depths", "num_heads", "separate_trunks", "trunk")
    chosen = {name: options[name] for name in (*names, "dtype", "value_blocks")}
    return make_network(env.num_actions, env.observation_shape, **chosen)
