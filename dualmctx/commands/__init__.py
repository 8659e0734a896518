"""The subcommands of `dualmctx`, one module each: arguments and output only.

The command lines are public, not the modules. `main` is the entry point.
"""

__all__ = ("main",)
