"""Evaluates positions with a network and a search, and writes the results.

`evaluations` reads heads and trees on the device; an `Evaluator` (`evaluator`) does it for any
number of positions, and `factory` builds it. `answers` turns questions into rows of results,
`results_file` and `results_state` keep them, and `annotations` writes them into games.
"""

# Raises an ImportError if another package hides `games`.
import dualmctx.games  # noqa: F401

__all__ = ("evaluations", "evaluator", "factory")
