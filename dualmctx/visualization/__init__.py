"""Recordings of searches, step by step, and pictures of trees."""

# Raises an ImportError if another package hides `games`.
import dualmctx.games  # noqa: F401

__all__ = ("draw_tree", "drawing", "recording", "trained_recording")
