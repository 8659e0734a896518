"""Training runs: assembly from a configuration, the loop, evals, and several processes."""

# Raises an ImportError if another package hides `games`.
import dualmctx.games  # noqa: F401

__all__ = ("assemble", "evals", "loop")
