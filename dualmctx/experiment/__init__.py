"""Training runs: assembly from a configuration, the loop, evals, and several processes."""

__all__ = ("assemble", "evals", "loop")
