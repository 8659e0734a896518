"""Games between players: batched matches, players of other libraries, tournaments."""

__all__ = ("arena", "tournament")
