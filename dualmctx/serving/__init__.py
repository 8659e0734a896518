"""Requests with a search of their own, which runs in steps on kept trees.

A `Request` has a question and settings (`requests`); `tasks` plans its steps, `scheduler` chooses
whose step is next, and `deepening_search` runs it on the trees of `tree_pool`. `engine` is the
whole, in a thread of its own.
"""

# Raises an ImportError if another package hides `games`.
import dualmctx.games  # noqa: F401

__all__ = ()
