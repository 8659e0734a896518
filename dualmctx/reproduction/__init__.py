"""The experiments of the Dual MCTS paper, also at equal cost; `dualmctx reproduce` runs them.

No module is public.
"""

__all__ = ()
