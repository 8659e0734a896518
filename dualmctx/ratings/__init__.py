"""Statistics of paired games: Elo ratings with intervals, α-rank, and a sequential test."""

__all__ = ("alpha_rank", "elo", "intervals", "results", "sprt")
