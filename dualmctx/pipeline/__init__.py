"""AlphaGo's pipeline: a policy from games of others, a stronger one, a value network, a player.

Each stage is a command, `dualmctx train GAME --pipeline STAGE`, and a module with `make_stage`.

Source: Silver et al. 2016, "Mastering the game of Go with deep neural networks and tree search".
"""

# Raises an ImportError if another package hides `games`.
import dualmctx.games  # noqa: F401

__all__ = ("config", "exact", "options", "parts", "stage", "start")
