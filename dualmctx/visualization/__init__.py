"""Recordings of searches, step by step, and pictures of their trees."""
