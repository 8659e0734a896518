"""Recordings of searches: one search, step by step, as JSON."""
