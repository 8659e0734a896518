"""The player stage: one network of all parts, and its match."""
