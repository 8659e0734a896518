"""Games between players: batched matches, tournaments, and players of other libraries."""

# Raises an ImportError if another package hides `games`.
import dualmctx.games  # noqa: F401

__all__ = ("arena", "tournament")
