"""The experiments of the Dual MCTS paper, and the same at equal cost: `dualmctx reproduce`."""
