"""Networks and games as the functions that a search calls."""
