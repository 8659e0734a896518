"""Evaluates positions with a network and a search: in batches, from files and from streams."""

__all__ = ("evaluations", "evaluator", "factory")
