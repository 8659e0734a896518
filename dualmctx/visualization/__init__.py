"""Recordings of searches, step by step, and pictures of trees. The public names are these."""

# Raises an ImportError if another package hides `games`.
import dualmctx.games  # noqa: F401
from dualmctx.visualization.drawing.complete_tree import complete_tree
from dualmctx.visualization.drawing.draw_tree import draw_tree
from dualmctx.visualization.drawing.drawing import Drawing
from dualmctx.visualization.page import recording_page
from dualmctx.visualization.recording.recording import Subject, record_search, record_trained

__all__ = (
    "Drawing",
    "Subject",
    "complete_tree",
    "draw_tree",
    "record_search",
    "record_trained",
    "recording_page",
)
