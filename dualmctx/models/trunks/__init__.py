"""The registry of trunks. A new trunk needs one file in this folder and one line here."""

from dualmctx.errors import UserError
from dualmctx.models.trunks import conv, mlp, transformer
from dualmctx.models.trunks.trunk import Trunk

__all__ = ("AUTO", "TRUNKS", "Trunk", "choose_trunk", "get_trunk")

TRUNKS: dict[str, Trunk] = {
    "conv": conv.TRUNK,
    "mlp": mlp.TRUNK,
    "transformer": transformer.TRUNK,
}

AUTO = "auto"
"""A name that selects the first trunk of the registry that accepts the observations."""


def get_trunk(name: str) -> Trunk:
    """Returns the trunk with a name.

    Raises:
      ValueError: if there is no trunk of this name.
    """
    if name not in TRUNKS:
        raise UserError(f"trunk is {name}; it must be one of {', '.join(TRUNKS)}")
    return TRUNKS[name]


def choose_trunk(name: str, observation_shape: tuple[int, ...]) -> str:
    """Returns the name of a trunk for a game's observations.

    Args:
      name: a name in the registry, or `auto`.
      observation_shape: the shape of one observation, without a batch axis.

    Raises:
      ValueError: if there is no trunk of this name, or if it does not accept the observations.
    """
    accepting = [known for known, trunk in TRUNKS.items() if trunk.accepts(observation_shape)]
    if name == AUTO:
        return accepting[0]
    if name not in TRUNKS:
        raise UserError(f"trunk is {name}; it must be one of {', '.join((AUTO, *TRUNKS))}")
    if name not in accepting:
        raise UserError(
            f"trunk is {name}, which needs {TRUNKS[name].requirement}; for observations of shape "
            f"{observation_shape} use {' or '.join(accepting)}"
        )
    return name
