"""Evaluates positions with a network and a search: in batches, from files and from streams."""

# Raises an ImportError if another package hides `games`.
import dualmctx.games  # noqa: F401

__all__ = ("evaluations", "evaluator", "factory")
