"""Searches for programs that speak GTP or UCI: a game, its clock, and an engine that thinks."""

__all__ = ()
