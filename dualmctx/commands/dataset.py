"""`dualmctx dataset GAME FILE ... --out FOLDER`: makes a data set of positions from games."""

import dataclasses
import functools
import shlex
import sys
from pathlib import Path
from typing import Annotated

import games
from dualmctx.checks import check, check_count, check_defaults, check_seed
from dualmctx.commands.flags import REQUIRED, Positional, named, parse_flags
from dualmctx.commands.load_players import LoadedPlayers, load_players
from dualmctx.console import Console
from dualmctx.datasets.build import BAD_GAMES, Recipe
from dualmctx.datasets.engines import GameSpec, LoadedEngine, load_engine, random_share_of
from dualmctx.datasets.make import make_dataset
from dualmctx.datasets.manifest import MANIFEST, Manifest, summarize_lengths
from dualmctx.datasets.records import open_records
from dualmctx.datasets.self_play import PlayOptions
from dualmctx.datasets.shards import SPLITS
from dualmctx.distributed.backend import require_backend
from dualmctx.errors import UserError
from dualmctx.matches.arena import MAX_PLIES
from dualmctx.matches.player_spec import (
    NETWORKLESS,
    OWN,
    PERFECT,
    POLICY,
    PROTOCOLS,
    RANDOM,
    parse_player,
)
from dualmctx.matches.players import Player
from dualmctx.reports.numbers import NONE, show_number, show_share
from dualmctx.reports.table import Table
from dualmctx.runs.folder import lock_folder

PROGRAM = "dualmctx dataset"
DESCRIPTION = """Makes a data set of positions, moves and results, from files of games or from games
that a player plays. Checks the rules of every game; a bad game is reported and skipped. Splits the
games into training, validation and test, and removes duplicates. docs/datasets.md describes the
files, the players and the loader. Exit codes: 0 for success, 1 if some games are bad, 2 for invalid
input, 130 after Ctrl-C or SIGTERM."""


@dataclasses.dataclass(frozen=True)
class Options(Recipe):
    """The game, the games and the data set."""

    game: Positional[Annotated[str, named(metavar="GAME")]] = REQUIRED
    """The game, by name or as package.module:factory."""
    files: Positional[Annotated[tuple[str, ...], named(metavar="FILE")]] = ()
    """Files of games: .pgn, .sgf, .ggf, or .jsonl with one game per line, such as games.jsonl of
    `dualmctx compare`; .gz or .zst may follow."""
    out: str = "runs/dataset"
    """The folder of the data set."""
    player: Annotated[str | None, named(name="from", metavar="PLAYER")] = None
    """Let a player play both sides of new games: a player of `dualmctx compare`, such as perfect,
    openspiel:simulations=1000, runs/c4+own, or "gtp:gnugo --mode gtp --seed {seed}". A program gets
    another number in place of {seed} for each game, and then starts anew for each."""
    games: int = 1000
    """Number of games that the player plays."""
    simulations: int | None = None
    """Simulations per move, over all trees, of a player that does not name its own; by default
    1000. own keeps those of its training."""
    network: tuple[str, ...] = ()
    """For CHECKPOINT+SEARCH: the networks that exported files may import, as package.module:factory
    (docs/networks.md)."""
    opening_plies: tuple[int, ...] = (0, 1, 2, 3, 4)
    """Each game of a player begins with random moves, as many as one of these numbers, which is
    sampled."""
    random_share: float | None = None
    """Share of random moves after the opening, in [0, 1); by default 0.1 for perfect, otherwise
    0."""
    processes: int | None = None
    """Number of processes of a player on the host; by default one for each core."""
    batch: int = 64
    """Number of games that are played at once; for a program, at most twice --processes."""
    max_plies: int = MAX_PLIES
    """Largest length of a player's game; a longer game has no result."""
    seed: int = 0
    """Seed of a player's games; the same seed gives the same games."""
    resume: bool = False
    """Continue an interrupted command with the same settings; a larger --games adds games of the
    player."""

    def __post_init__(self) -> None:
        """Checks values that are not checked elsewhere."""
        if self.game is REQUIRED:
            return
        if bool(self.files) == (self.player is not None):
            problem = "no FILE and no player" if self.player is None else "both FILEs and a player"
            raise UserError(f"there are {problem}; name files of games, or a player by --from")
        for name in ("games", "batch", "block", "max_plies"):
            check_count(name, getattr(self, name), 1)
        check_count("simulations", self.simulations, 1, f"for {_SIMULATIONS}")
        check_count("processes", self.processes, 1, "for one for each core")
        shares = (self.validation, self.test)
        is_valid = all(0 <= x < 1 for x in shares) and sum(shares) < 1
        check(is_valid, "validation and test", f"{shares[0]:g} and {shares[1]:g}", _SHARES)
        share = self.random_share
        is_valid = share is None or 0 <= share < 1
        check(is_valid, "random_share", share, "at least 0 and less than 1")
        is_valid = self.opening_plies and all(0 <= x < self.max_plies for x in self.opening_plies)
        lengths = " ".join(map(str, self.opening_plies)) or "empty"
        check(bool(is_valid), "opening_plies", lengths, f"from 0 to {self.max_plies - 1}")
        check_seed(self.seed)
        self._check_player_options()

    def _check_player_options(self) -> None:
        """Refuses options that would have no effect on the player."""
        if self.player is None:
            check_defaults(self, _OF_PLAYER, "it is for a player, leave it out")
        spec = None if self.player is None else parse_player(self.player)
        if self.network and (spec is None or spec.search in NETWORKLESS):
            raise UserError("--network is for CHECKPOINT+SEARCH; leave it out")
        is_used = spec and spec.simulations is None and spec.search not in _WITHOUT_SIMULATIONS
        if self.simulations is not None and not is_used:
            raise UserError(
                "--simulations is for openspiel and searches other than own, without "
                ":simulations=; leave it out"
            )


_SIMULATIONS = 1000
# The options without an effect on games of files.
_OF_PLAYER = ("games", "opening_plies", "random_share", "processes", "batch", "max_plies", "seed")
# The players that take no simulations, or those of their training.
_WITHOUT_SIMULATIONS = (RANDOM, PERFECT, *PROTOCOLS, POLICY, OWN)
_SHARES = "at least 0, and together less than 1"
# The labels of the counts of games in a manifest, and of their results.
_COUNTS = {
    "read": "read",
    "bad": "bad",
    "duplicates": "duplicates",
    "without_result": "without a result",
    "without_positions": "without a chosen move",
    "contradicted": "kept although their file has another result",
}
_RESULTS = {
    "first_wins": "won by the first side",
    "draws": "drawn",
    "second_wins": "won by the second side",
    "unknown": "result unknown",
}


def main(arguments: list[str]) -> int:
    """Runs the command; returns its exit code."""
    options = parse_flags(Options(), arguments, PROGRAM, DESCRIPTION)
    require_backend(PROGRAM)
    recipe = Recipe(**{x.name: getattr(options, x.name) for x in dataclasses.fields(Recipe)})
    if options.player is None:
        env = games.make(options.game, **options.game_parameters)
        source = [open_records(name) for name in options.files]
    else:
        loaded = _load(options)
        env, source = loaded.env, _make_engine(options, loaded)
        recipe = dataclasses.replace(recipe, game_parameters=loaded.game_parameters)
    folder = Path(options.out)
    with lock_folder(folder, resume=options.resume):
        try:
            manifest = make_dataset(
                env, recipe, source, folder, resume=options.resume, report=_report
            )
        except KeyboardInterrupt:
            again = shlex.join([*PROGRAM.split(), *(x for x in arguments if x != "--resume")])
            raise KeyboardInterrupt(f"; to continue: {again} --resume") from None
    _show(manifest, folder)
    return 1 if manifest.counts["bad"] else 0


def _report(line: str) -> None:
    print(f"{PROGRAM}: {line}", file=sys.stderr)


def _show(manifest: Manifest, folder: Path) -> None:
    console = Console(highlight=False)
    console.print(_table(manifest))
    bad = f", {BAD_GAMES}" if manifest.counts["bad"] else ""
    where = f"data set in {folder}: {MANIFEST}, SPLIT-NNNNN.safetensors{bad}"
    for line in (_describe_games(manifest), where):
        console.print(line, soft_wrap=True, markup=False)


def _table(manifest: Manifest) -> Table:
    """Returns a table with a column for each split."""
    splits = [manifest.splits[name] for name in SPLITS]
    lengths = [summarize_lengths(split["lengths"]) for split in splits]
    rows = {
        "games": [show_number(split["games"]) for split in splits],
        "positions": [show_number(split["positions"]) for split in splits],
        "rows stored": [show_number(split["rows"]) for split in splits],
        "different positions": [show_number(manifest.distinct[name]) for name in SPLITS],
        "rows also in training": [show_number(manifest.shared.get(name)) for name in SPLITS],
        "moves per game": ["{} … {:.1f} … {}".format(*x) if x else NONE for x in lengths],
    }
    for name, label in _RESULTS.items():
        shares = (x["results"][name] / x["games"] if x["games"] else None for x in splits)
        rows[label] = [show_share(share, 1) for share in shares]
    title = f"{manifest.game}, {manifest.num_positions:,} positions"
    return Table(title, ("", *SPLITS), [(label, *cells) for label, cells in rows.items()])


def _describe_games(manifest: Manifest) -> str:
    """Describes how many games were read, and why some of them are not in the data set."""
    counts = [f"{manifest.counts[name]:,} {label}" for name, label in _COUNTS.items()]
    shown = [text for text in counts if not text.startswith("0 ")]
    return f"games: {', '.join(shown)}"


def _load(options: Options) -> LoadedPlayers:
    return load_players(
        [parse_player(str(options.player))],
        None,
        options.game,
        options.game_parameters,
        options.simulations or _SIMULATIONS,
        options.network,
        options.processes,
        has_checkpoint_flag=False,
    )


def _build_player(options: Options) -> Player:
    [builder] = _load(options).builders
    return builder.build(None)


def _make_engine(options: Options, loaded: LoadedPlayers) -> LoadedEngine:
    """Makes an engine of the player of the option `--from`."""
    [builder] = loaded.builders
    search = builder.spec.search
    share = random_share_of(search, options.random_share)
    needs_processes = search in NETWORKLESS and search not in PROTOCOLS
    return load_engine(
        loaded.env,
        GameSpec(options.game, dict(loaded.game_parameters)),
        builder.build(None),
        options.games,
        PlayOptions(options.seed, options.opening_plies, share, options.max_plies),
        batch=options.batch,
        num_processes=options.processes,
        rebuild=functools.partial(_build_player, options) if needs_processes else None,
    )
