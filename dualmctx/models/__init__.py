"""Networks, and the functions that bind a network and a game to a search."""

# The names of modules, which Python imports for `from dualmctx.models import *`.
__all__ = ("game_model", "network", "search_memory")  # pyright: ignore[reportUnsupportedDunderAll]
