"""The experiments of the Dual MCTS paper, and more at equal cost; for `dualmctx reproduce`.

No module is public.
"""

__all__ = ()
