"""Training runs: the runner of stages, self-play as a stage, evals, and several processes."""

# Raises an ImportError if another package hides `games`.
import dualmctx.games  # noqa: F401

__all__ = ("assemble", "evals", "runner", "selfplay", "stage")
