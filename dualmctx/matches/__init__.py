"""Games between players: batched matches, tournaments, and players of other libraries.

docs/python.md has an example of a tournament.
"""

# Raises an ImportError if another package hides `games`.
import dualmctx.games  # noqa: F401
from dualmctx.matches.arena import Score, make_match
from dualmctx.matches.game_file import Game, count_results, read_games
from dualmctx.matches.openings import Opening, empty_openings, random_openings
from dualmctx.matches.other_players import gtp_player, uci_player
from dualmctx.matches.players import (
    HostMover,
    MoveFn,
    Mover,
    Player,
    batched_move_fn,
    perfect_player,
    policy_player,
    random_player,
    search_move_fn,
    search_player,
    tree_reusing_mover,
)
from dualmctx.matches.tournament import (
    Tournament,
    play_batches,
    play_tournament,
    round_robin,
)

__all__ = (
    "Game",
    "HostMover",
    "MoveFn",
    "Mover",
    "Opening",
    "Player",
    "Score",
    "Tournament",
    "arena",
    "batched_move_fn",
    "count_results",
    "empty_openings",
    "gtp_player",
    "make_match",
    "perfect_player",
    "play_batches",
    "play_tournament",
    "policy_player",
    "random_openings",
    "random_player",
    "read_games",
    "round_robin",
    "search_move_fn",
    "search_player",
    "tournament",
    "tree_reusing_mover",
    "uci_player",
)
