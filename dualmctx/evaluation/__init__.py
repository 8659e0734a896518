"""Positions through a network and a search: in batches, as files and as streams."""
