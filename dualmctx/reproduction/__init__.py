"""The experiments of the Dual MCTS paper, and more at equal cost; for `dualmctx reproduce`.

No module is public.
"""

# Raises an ImportError if another package hides `games`.
import dualmctx.games  # noqa: F401

__all__ = ()
