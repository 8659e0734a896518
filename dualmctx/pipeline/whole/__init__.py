"""The whole pipeline: all stages, one after another."""
