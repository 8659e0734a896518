"""Devices: games and positions split evenly over all of them, the network on each."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

_AXIS = "data"
SPLIT = PartitionSpec(_AXIS)
"""The first axis is split over the devices."""
WHOLE = PartitionSpec()
"""Every device has all of it."""


def make_mesh(devices: Sequence[Any] | None = None) -> Mesh:
    """Makes the mesh of some devices, by default all of all processes."""
    return Mesh(np.array(jax.devices() if devices is None else devices), (_AXIS,))


def check_split(mesh: Mesh, **numbers: int) -> None:
    """Checks that numbers can be split evenly.

    Raises:
      ValueError: when one cannot, in one line.
    """
    for name, number in numbers.items():
        if number % mesh.size:
            raise ValueError(
                f"{name} is {number}; it must be a multiple of the {mesh.size} devices"
            )


def shardings(mesh: Mesh, specs: Any) -> Any:
    """Turns a pytree of `SPLIT` and `WHOLE` into shardings over the mesh."""
    is_spec = lambda x: isinstance(x, PartitionSpec)  # noqa: E731
    return jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs, is_leaf=is_spec)


def on_each(function: Any, mesh: Mesh, in_specs: Any, out_specs: Any) -> Any:
    """Runs a function on each device with its share of the arguments; see `total`."""
    # The check of what varies over devices does not know the loops of a search.
    return jax.shard_map(
        function, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False
    )


def total(numbers: Any) -> Any:
    """Sums arrays over the devices, inside `on_each`."""
    return jax.lax.psum(numbers, _AXIS)
