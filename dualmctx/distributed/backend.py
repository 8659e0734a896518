"""The backend of JAX: checks that there is a usable device, and names the needs of a GPU."""

import sys
from typing import Any

import jax

from dualmctx.errors import UserError, reason_of


def require_backend(program: str) -> None:
    """Initialises the devices of JAX.

    If `JAX_PLATFORMS` does not name a platform and JAX's plugin for a GPU fails, JAX uses the CPU,
    and a line on standard error has the cause. (Without a plugin, JAX itself warns about a GPU.)
    Processes of one run must have joined before (`processes.join`).

    Args:
      program: the name of the command, for the line.

    Raises:
      ValueError: if `JAX_PLATFORMS` names a platform that is missing or does not work.
    """
    # The type of `jax.config` lacks the options.
    settings: Any = jax.config
    try:
        jax.devices()
    # AssertionError: JAX looked for NVIDIA GPUs only, and there is no device file of one.
    except (RuntimeError, AssertionError) as error:
        # JAX appends advice in brackets, about settings that the messages here name themselves.
        cause = reason_of(error).split(" (set JAX_PLATFORMS")[0].split(" (you may need")[0]
        remedy = f'a GPU needs NVIDIA\'s driver and pip install "jax[cuda12]=={jax.__version__}"'
        if asked := settings.jax_platforms:
            needs = f"{remedy}; or " if {"cuda", "gpu"} & set(asked.split(",")) else ""
            raise UserError(
                f"JAX_PLATFORMS is {asked}, but JAX cannot use it: {cause}; {needs}set "
                "JAX_PLATFORMS to cpu"
            ) from error
        jax.config.update("jax_platforms", "cpu")
        jax.devices()
        print(
            f"{program}: {cause}; JAX uses the CPU; {remedy}, or set JAX_PLATFORMS=cpu to silence "
            "this",
            file=sys.stderr,
        )
