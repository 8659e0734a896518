"""A training run put together: its parts, its evals and its processes."""
