"""Positions and games as files and texts, read leniently and written.

A `Question` is a requested position (`questions`), a `GameRecord` a game of a file (`game_record`),
whose positions are questions. `positions_file` reads JSON Lines, CSV and EPD, `pgn_file` and
`sgf_file` games, all from the lines of `text_files`; `records` reads and writes one game.
"""

# Raises an ImportError if another package hides `games`.
import dualmctx.games  # noqa: F401

__all__ = ("records",)
