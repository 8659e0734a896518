"""The search engine: trees, selection, expansion and backup, batched and jit-compiled."""
