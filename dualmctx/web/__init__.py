"""The local web application of `dualmctx play`: the server and its page."""

__all__ = ()
