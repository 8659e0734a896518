"""Programs of others that play games: clients of the Go Text Protocol and of UCI."""

__all__ = ("engine", "gtp", "process", "uci")
