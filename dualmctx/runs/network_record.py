"""The record of a network: its type and all its fields, as JSON."""

from typing import Annotated, Any, Optional, cast

from msgspec import Meta

from dualmctx.checks import MAX_COUNT, check, check_finite
from dualmctx.errors import UserError
from dualmctx.models.adapted_network import AdaptedNetwork, import_network
from dualmctx.models.network import Network, SeparateTrunks, make_network
from dualmctx.models.trunks import choose_trunk
from dualmctx.models.user_modules import describe_fields, own_fields
from dualmctx.training.config import NetworkOptions
from dualmctx.typed_values import decode_fields, hints_of
from dualmctx.types import Environment, PolicyValueNetwork

ARCHITECTURE = "architecture"
"""The entry of a run's record that holds the type and all the fields of its network."""

SavedNetwork = Network | SeparateTrunks | AdaptedNetwork
"""A network that a record can describe."""

_TYPES = {kind.__name__: kind for kind in (Network, SeparateTrunks)}
# The type, in records, of a network that is named as `package.module:factory`.
_IMPORTED = "imported"
Count = Annotated[int, Meta(ge=0, le=MAX_COUNT, description=f"a number from 0 to {MAX_COUNT}")]
"""A whole number that arrays can store."""
# The entries of a record that loading reads, with their types.
_ENTRIES = {
    **{"game": str, "game_parameters": dict, "search": dict, "network": dict},
    ARCHITECTURE: dict,
}
# The same for the entry `architecture`, by type.
_FIELDS = {"type": str, "fields": dict}
_IMPORTED_FIELDS = {
    **{"type": str, "factory": str, "options": dict, "observation_shape": tuple[Count, ...]},
    **{"head_depths": tuple[Count, ...], "fields": dict},
}
# The numbers of a network are counts.
_COUNTS: dict[Any, Any] = {
    **{int: Count, tuple[int, ...]: tuple[Count, ...], int | None: Optional[Count]},  # noqa: UP045
}
MODEL_OPTIONS = ("dtype", "kept_activations", "compact_states", "factory")
"""The entries of `network` in a record that the options of a search's model follow from."""


def describe_network(network: PolicyValueNetwork) -> dict[str, Any]:
    """Returns the type and all the fields of a network as JSON values.

    Of a network that was imported, these are its factory with its arguments, the depths of its
    heads, and the fields of its module.

    Raises:
      ValueError: if the network is of a type that cannot be saved, or was adapted in Python, so
        that a file could not name its code.
    """
    if not isinstance(network, AdaptedNetwork):
        kind = type(network)
        path = f"{kind.__module__}.{kind.__qualname__}"
        remedy = "that of a network of make_network or import_network"
        # A class of the user may have the same name.
        check(kind in _TYPES.values(), "the type of the network", path, remedy)
        return {"type": kind.__name__, "fields": describe_fields(cast(Any, network))}
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


def check_record(record: dict[str, Any]) -> None:
    """Checks the entries of a run's record from which a network and its game are built.

    These are the game and its parameters, the network's fields, and the options of a search's
    model. The entry `search` is checked by `saved_policy`; further entries, such as the options of
    the learner, are not read.

    Raises:
      UserError: if an entry is missing, or a value has another type or is out of range.
    """
    decode_fields(record, _ENTRIES)
    options, hints = record["network"], hints_of(NetworkOptions())
    decode_fields(options, {x: hints[x] for x in MODEL_OPTIONS if x in options}, "network.")
    saved = record[ARCHITECTURE]
    kinds = _IMPORTED_FIELDS if saved.get("type") == _IMPORTED else _FIELDS
    decode_fields(saved, kinds, f"{ARCHITECTURE}.")
    check_finite(record, "its record")


def build_network(
    record: dict[str, Any], env: Environment, num_arrays: int | None = None
) -> SavedNetwork:
    """Builds the network of a run from the run's record.

    The entry `architecture` holds every field of the network, so no default of the code applies.
    Without this entry, as in the record of a new run, the network is built from the options of the
    run in the entry `network`.

    A network that is named as `package.module:factory` is imported, which runs the code of that
    module: check first that the user names it too (`dualmctx.import_path.require_named`).

    Args:
      record: the content of `config.json`; one of a file is checked by `check_record`.
      env: the game, as `games.make` returns it.
      num_arrays: the number of the saved arrays of the network, if known. A record that describes
        more blocks is refused, before they are built.

    Raises:
      ValueError: if the fields are not exactly those of the network's type, if a value has the
        wrong type, if the network is not for this game, or as `import_network`.
    """
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
    choose_trunk(network.trunk, env.observation_shape)
    depths = (*network.head_depths, len(network.head_depths), getattr(network, "num_blocks", 0))
    depths += (getattr(network, "value_depth", None) or 0,)
    if num_arrays is not None and max(depths) > num_arrays:
        raise UserError(
            f"the saved network describes more blocks than the {num_arrays} arrays that are saved"
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
    kind, values = saved["type"], saved["fields"]
    check(kind in _TYPES, "the type of the saved network", kind, f"one of {', '.join(_TYPES)}")
    fields = own_fields(_TYPES[kind])
    hints = {field.name: _COUNTS.get(field.type, field.type) for field in fields}
    for name in sorted(hints.keys() ^ values.keys()):
        raise UserError(
            f"the saved network does not have the fields of {kind}: {name} is "
            f"{'missing' if name in hints else 'unknown'}; use the version that saved it"
        )
    return _TYPES[kind](**decode_fields(values, hints, "the saved network's "))


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
