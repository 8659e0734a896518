"""Gives memory back to the system that dropped programs have left free."""

import ctypes
import gc
from collections.abc import Callable


def release_memory() -> None:
    """Frees dropped programs and trees, and gives free memory of this process back to the system.

    The compilation of a search needs hundreds of MB for a moment. The allocator of glibc keeps
    them, in pieces that it can seldom use again, so that a server would grow with each compilation.
    Other systems have no such function; there, only the garbage is collected.
    """
    gc.collect()
    trim = _find_trim()
    if trim is not None:
        trim(0)


def _find_trim() -> Callable[[int], int] | None:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return None
