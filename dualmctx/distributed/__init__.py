"""Devices and processes that share one computation, and the signals that stop them."""

__all__ = ("devices", "processes", "signals")
