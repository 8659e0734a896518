"""From pairs of games to ratings: Elo, α-rank, and when to stop a match."""
