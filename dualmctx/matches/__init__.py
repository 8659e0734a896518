"""Games between players: batched matches, tournaments, and players of other libraries."""

__all__ = ("arena", "tournament")
