"""What a training run writes and shows: folders, checkpoints, saved networks, logs, progress."""

__all__ = ("checkpoint", "folder", "saved_network", "saved_policy")
