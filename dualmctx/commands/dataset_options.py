"""The options of `dualmctx dataset`."""

import dataclasses
from typing import Annotated, Literal

from dualmctx.checks import check, check_count
from dualmctx.commands.flags import REQUIRED, Positional, named
from dualmctx.datasets.loaded_engine import default_random_share, num_cores
from dualmctx.errors import UserError
from dualmctx.matches.arena import MAX_PLIES

PROGRAM = "dualmctx dataset"
DESCRIPTION = """Makes a data set of positions, moves and results, from files of games or from games
that an engine plays. Checks the rules of every game; a bad game is reported and skipped. Splits the
games into training, validation and test, and removes duplicates. docs/datasets.md describes the
files, the engines and the loader. Exit codes: 0 for success, 1 if some games are bad, 2 for invalid
input, 130 after Ctrl-C or SIGTERM."""
ENGINES = ("openspiel-mcts", "perfect", "bitbully", "gtp", "network")
# Engines that play one game at a time, in processes of their own.
HOST_ENGINES = ("openspiel-mcts", "bitbully", "gtp")


@dataclasses.dataclass(frozen=True)
class Options:
    """The game, the games and the data set."""

    game: Positional[Annotated[str, named(metavar="GAME")]] = REQUIRED
    """The game, by name or as package.module:factory."""
    files: Positional[Annotated[tuple[str, ...], named(metavar="FILE")]] = ()
    """Files of games: .pgn, .sgf, or .jsonl with one game per line, such as the games.jsonl of
    `dualmctx compare`; .gz or .zst may follow."""
    out: str = "runs/dataset"
    """The folder of the data set."""
    game_parameters: dict[str, int | float] = dataclasses.field(default_factory=dict)
    """Parameters of the game, such as `komi 5.5`."""
    engine: Annotated[
        Literal["openspiel-mcts", "perfect", "bitbully", "gtp", "network"] | None,
        named(name="from"),
    ] = None
    """Let an engine play both sides of new games: OpenSpiel's MCTS, the exact solution of a small
    game, bitbully's perfect player of Connect Four, a program that speaks the Go Text Protocol, or
    a network with a search."""
    games: int = 1000
    """Number of games that the engine plays."""
    simulations: int | None = None
    """Simulations per move of openspiel-mcts and network; by default 1000, and those of the
    network's training."""
    opening_plies: tuple[int, ...] = (0, 1, 2, 3, 4)
    """Each game of an engine begins with random moves, as many as one of these numbers, which is
    sampled."""
    random_share: float | None = None
    """Share of random moves after the opening, in [0, 1); by default 0.1 for perfect and bitbully,
    otherwise 0."""
    checkpoint: str | None = None
    """For network: a run folder, an exported .safetensors file, or the name of a network shipped
    with dualmctx."""
    network: tuple[str, ...] = ()
    """For network: the networks that exported files may import, as package.module:factory
    (docs/networks.md)."""
    variant: str | None = None
    """For network: the search, as for `dualmctx evaluate`; by default that of its training."""
    gtp_command: str | None = None
    """For gtp: the command that starts the program, such as "gnugo --mode gtp --level 1"; {seed} in
    it is replaced by a number, and the program then starts anew for each game."""
    gtp_timeout: float = 60.0
    """For gtp: the longest time in seconds for an answer."""
    processes: int | None = None
    """Number of processes of an engine on the host; by default one for each core."""
    batch: int = 64
    """Number of games that perfect and network play at once."""
    max_plies: int = MAX_PLIES
    """Largest length of an engine's game; a longer game has no result."""
    validation: float = 0.05
    """Share of the games for validation."""
    test: float = 0.05
    """Share of the games for the test."""
    results: Literal["game", "record"] = "game"
    """Where a finished game has its result from, if the file has one too: its own end, or the
    record. A game that is not finished has the result of the record."""
    unknown_results: Literal["skip", "keep"] = "skip"
    """Whether to skip or to keep games without a result."""
    merge: bool = False
    """Store equal positions with equal moves once, up to symmetry, with their number and the mean
    of their results."""
    block: int = 4096
    """Number of games that are read for one shard of each split."""
    seed: int = 0
    """Seed of an engine's games; the same seed gives the same games."""
    resume: bool = False
    """Continue an interrupted command with the same settings; a larger --games adds games of the
    engine."""

    def __post_init__(self) -> None:
        """Checks values that are not checked elsewhere."""
        if self.game is REQUIRED:
            return
        if bool(self.files) == (self.engine is not None):
            problem = "no FILE and no engine" if self.engine is None else "both FILEs and an engine"
            raise UserError(
                f"there are {problem}; name files of games, or an engine by --from, which is one "
                f"of {', '.join(ENGINES)}"
            )
        for name in ("games", "batch", "block", "max_plies"):
            check_count(name, getattr(self, name), 1)
        for name in ("processes", "simulations"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name), 1)
        shares = (self.validation, self.test)
        is_valid = all(0 <= x < 1 for x in shares) and sum(shares) < 1
        check(is_valid, "validation and test", f"{shares[0]:g} and {shares[1]:g}", _SHARES)
        self._check_engine()

    def _check_engine(self) -> None:
        share = self.share_of_random_moves
        check(0 <= share < 1, "random_share", share, "at least 0 and less than 1")
        is_valid = self.opening_plies and all(0 <= x < self.max_plies for x in self.opening_plies)
        lengths = " ".join(map(str, self.opening_plies)) or "empty"
        check(bool(is_valid), "opening_plies", lengths, f"from 0 to {self.max_plies - 1}")
        check(self.gtp_timeout > 0, "gtp_timeout", self.gtp_timeout, "positive")
        check(0 <= self.seed < 2**32, "seed", self.seed, f"from 0 to {2**32 - 1}")
        for engine, name in (("network", "checkpoint"), ("gtp", "gtp_command")):
            flag = f"--{name.replace('_', '-')}"
            if self.engine == engine and getattr(self, name) is None:
                raise UserError(f"--from {engine} needs {flag}")
            if self.engine != engine and getattr(self, name) is not None:
                raise UserError(f"{flag} is for --from {engine}; leave it out")
        for name in ("network", "variant"):
            if getattr(self, name) and self.engine != "network":
                raise UserError(f"--{name} is for --from network; leave it out")
        if self.simulations is not None and self.engine not in ("openspiel-mcts", "network"):
            raise UserError(
                "--simulations is for --from openspiel-mcts and --from network; leave it out"
            )

    @property
    def share_of_random_moves(self) -> float:
        """The share of random moves after the opening."""
        if self.random_share is not None:
            return self.random_share
        return default_random_share(self.engine)

    @property
    def num_processes(self) -> int:
        """The number of processes of an engine on the host."""
        return self.processes or num_cores()


_SHARES = "at least 0, and together less than 1"
