"""Games between players: on the device, against players of other libraries, and tournaments."""

__all__ = ("arena", "tournament")
