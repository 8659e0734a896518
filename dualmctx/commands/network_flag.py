"""The flag `--network package.module:factory`, which is read before the other flags."""

from dualmctx.commands.flags import take_flag
from dualmctx.errors import UserError
from dualmctx.import_path import is_import_path
from dualmctx.models.trunks import TRUNKS

_FLAG, _FIELD = "--network", "--network.factory"
# The options of the networks of this package, which a factory does not receive.
_REPLACED = ("trunk", "width", "num-blocks", "separate-trunks", "no-separate-trunks", "dtype")

DESCRIPTION = (
    "--network package.module:factory trains a network of your own, with its options in "
    "--network.options (docs/networks.md)."
)
"""Describes the flag for `--help`."""


def expand_network_flag(arguments: list[str]) -> list[str]:
    """Replaces `--network PATH` by `--network.factory PATH`.

    Raises:
      ValueError: if the value is not a path, or if there are flags that a network of the user does
        not receive.
    """
    path, rest = take_flag(arguments, _FLAG)
    if path is None:
        return arguments
    if not is_import_path(path):
        trunk = f"; for the trunk {path} use --network.trunk {path}" if path in TRUNKS else ""
        raise UserError(f"--network is {path}; write it as package.module:factory{trunk}")
    for argument in rest:
        name = argument.split("=")[0].replace("_", "-").removeprefix("--network.")
        if argument.startswith("--network.") and name in _REPLACED:
            raise UserError(
                f"{argument.split('=')[0]} does not apply to {path}; leave it out, and set the "
                "options of your factory by --network.options, as in --network.options width 128"
            )
    return [*rest, _FIELD, path]
