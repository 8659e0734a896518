"""Imports a network that is named as `package.module:factory`."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from dualmctx.errors import UserError
from dualmctx.import_path import call_factory
from dualmctx.models.adapted_network import AdaptedNetwork, Origin, adapt_network
from dualmctx.models.module_checks import check_module
from dualmctx.models.module_fields import restore_fields

_ARGUMENTS = ("num_actions", "observation_shape")


def import_network(
    factory: str,
    num_actions: int,
    observation_shape: tuple[int, ...],
    *,
    options: Mapping[str, Any] | None = None,
    head_depths: Sequence[int] | None = None,
    fields: Mapping[str, Any] | None = None,
) -> AdaptedNetwork:
    """Imports a factory, calls it, and makes a search network of the Flax module that it returns.

    The factory is called as `factory(num_actions=..., observation_shape=..., **options)`. Unlike a
    network of `adapt_network`, the network can be saved, because files can name its factory.

    Args:
      factory: `package.module:factory`, a function, or a class with these two fields. Modules are
        found in the current folder and among the installed packages.
      num_actions: A.
      observation_shape: the shape of one observation.
      options: further arguments of the factory: numbers, strings and booleans.
      head_depths: see `adapt_network`.
      fields: saved fields of the module, as `describe_fields` returned them. They replace the plain
        values of the module's fields, so that later changes of defaults have no effect.

    Returns:
      The network.

    Raises:
      ValueError: if the factory cannot be imported or called, if it does not return a linen module,
        if the fields of the module are not those that were saved, or as `adapt_network`.
    """
    options = dict(options or {})
    for name in _ARGUMENTS:
        if name in options:
            raise UserError(f"network.options has {name}; the game sets it, so leave it out")
    arguments = {"num_actions": num_actions, "observation_shape": tuple(observation_shape)}
    module = call_factory(factory, arguments | options, "network")
    try:
        check_module(module)
        if fields is not None:
            module = restore_fields(module, fields)
        network = adapt_network(module, num_actions, observation_shape, head_depths=head_depths)
    except UserError as error:
        raise UserError(f"network {factory}: {error}") from error
    origin = Origin(factory, tuple(options.items()), tuple(observation_shape))
    return dataclasses.replace(network, origin=origin)
