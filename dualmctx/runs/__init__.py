"""The output of a training run: folders, checkpoints, saved networks, logs, progress."""

# Raises an ImportError if another package hides `games`.
import dualmctx.games  # noqa: F401

__all__ = ("checkpoint", "folder", "saved_network", "saved_policy")
