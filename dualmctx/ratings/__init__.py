"""Statistics of paired games: Elo ratings with intervals, α-rank, and a sequential test."""
