"""Networks, and the functions that bind a network and a game to a search."""

# pyright: reportUnsupportedDunderAll=false
__all__ = ("game_model", "network", "search_fn", "search_memory", "trunks")
