"""The options of `dualmctx compare`."""

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

from dualmctx.checks import check_count
from dualmctx.commands.flags import REQUIRED, Positional, named
from dualmctx.commands.opening_rules import BALANCED, RANDOM, RULES, is_file
from dualmctx.commands.source import SUFFIXES
from dualmctx.errors import UserError
from dualmctx.evaluation.text_files import split_suffix
from dualmctx.matches.arena import MAX_PLIES
from dualmctx.ratings.sprt import Sprt

PROGRAM = "dualmctx compare"
DESCRIPTION = """Plays a round robin of players. Each pairing plays every opening twice, with the
sides exchanged. Reports the strength of each player with an interval, and the cost of a move. A
PLAYER is [NAME=][CHECKPOINT[@ITERATION]+]SEARCH[:OPTION=VALUE ...], such as dual,
dual:simulations=50,35, mine=runs/c4@20+gumbel:simulations=200, own (the search with which the
network was trained), policy (the network without a search), random, perfect or
openspiel:simulations=1000. docs/compare.md describes players, budgets and the report. Exit codes: 0
for success, 2 for invalid input, 130 after Ctrl-C."""


@dataclasses.dataclass(frozen=True)
class Options:
    """The players, the game, the budgets and the openings."""

    players: Positional[
        Annotated[tuple[str, ...], named(metavar="PLAYER", help_behavior_hint="(required)")]
    ] = REQUIRED
    """Two or more players."""
    checkpoint: str | None = None
    """Checkpoint of the players that do not name one: a run folder, an exported
    .safetensors file, or the name of a network shipped with dualmctx."""
    game: str | None = None
    """The game, by name or as package.module:factory; required if no player has a network, or for
    exported files whose game is package.module:factory. Networks for another game are rejected."""
    game_parameters: dict[str, int | float] = dataclasses.field(default_factory=dict)
    """Parameters of the game, such as `pile 31`, if no player has a network. With a network, its
    own parameters apply, and others are rejected."""
    network: tuple[str, ...] = ()
    """The networks that exported files may import, as package.module:factory (docs/networks.md)."""
    budget: Literal["simulations", "network", "seconds"] = "simulations"
    """simulations: use the given simulations; network, seconds: scale simulations so that all
    players have the same cost as the first player that has a cost, in blocks of the network or in
    measured seconds per move."""
    simulations: int = 85
    """Simulations per move, over all trees, of players that do not specify them."""
    games: int = 200
    """Number of games of each pairing, an even number; with --sprt the maximum."""
    openings: Annotated[str, named(metavar="{random,start,balanced,FILE}")] = "random"
    """random: random moves to different positions; start: the initial position; balanced: random
    openings to positions that are drawn in a solvable game, or else have a value near 0 by the
    first network; or a file of positions (.jsonl, .csv, .epd, .pgn or .sgf)."""
    opening_plies: tuple[int, ...] = (4,)
    """Lengths of random and balanced openings in plies."""
    sprt: tuple[float, float] | None = None
    """Two Elo values, each from -2000 to 2000. Stop as soon as a sequential test decides, with
    error rates of 5 %, whether the first of two players leads by the first or the second value."""
    anchor: str | None = None
    """The player with Elo 0; in ratings by side, its first side. By default, the mean Elo of the
    players that their games make comparable is 0."""
    batch: int | None = None
    """Number of pairs of games played in parallel; by default all pairs, at most 64."""
    max_plies: int = MAX_PLIES
    """Maximum length of a game in plies; a longer game is cut short and counts as a draw."""
    seed: int = 0
    """Seed of openings and games; the same seed plays the same games."""
    out: str = "runs/comparison"
    """The folder of the games and the report."""
    resume: bool = False
    """Continue the games in that folder; games and players may be added."""

    def __post_init__(self) -> None:
        """Checks values that are not checked elsewhere."""
        if self.players is not REQUIRED and len(self.players) < 2:
            raise UserError(f"number of players is {len(self.players)}; name at least two players")
        if self.games < 2 or self.games % 2:
            raise UserError(f"games is {self.games}; it must be even and at least 2")
        for name in ("simulations", "batch"):
            value = getattr(self, name)
            if value is not None:
                check_count(name, value, 1)
        if not 1 <= self.max_plies < 2**31:
            raise UserError(f"max_plies is {self.max_plies}; it must be from 1 to {2**31 - 1}")
        if is_file(self.openings) and split_suffix(Path(self.openings))[0] not in SUFFIXES:
            known = ", ".join((*RULES, *(f"a {suffix} file" for suffix in SUFFIXES)))
            raise UserError(f"openings is {self.openings}; it must be one of {known}")
        # Checked before sampling, which is slow for long openings.
        longest = max(self.opening_plies, default=0)
        if self.openings in (RANDOM, BALANCED) and longest >= self.max_plies:
            raise UserError(
                f"max_plies is {self.max_plies}; it must exceed the longest opening, {longest}"
            )
        if not 0 <= self.seed < 2**32:
            raise UserError(f"seed is {self.seed}; it must be from 0 to {2**32 - 1}")
        if self.sprt is not None:
            Sprt(*self.sprt)
            if len(self.players) != 2:
                raise UserError(f"sprt tests two players; there are {len(self.players)}")
