"""Recordings of searches, step by step, and pictures of trees. The public names are these."""

# Raises an ImportError if another package hides `games`.
import dualmctx.games  # noqa: F401
from dualmctx.visualization.complete_tree import complete_tree
from dualmctx.visualization.draw_tree import draw_tree
from dualmctx.visualization.drawing import Drawing
from dualmctx.visualization.recording import (
    Subject,
    record_search,
    record_trained,
    recording_page,
)

__all__ = (
    "Drawing",
    "Subject",
    "complete_tree",
    "draw_tree",
    "record_search",
    "record_trained",
    "recording_page",
)
