"""`dualmctx dataset GAME FILE ... --out FOLDER`: makes a data set of positions from games."""

import dataclasses
import shlex
import sys
from pathlib import Path
from typing import Annotated, Literal, get_args

import games
from dualmctx.checks import check, check_count
from dualmctx.commands.flags import REQUIRED, Positional, named, parse_flags
from dualmctx.commands.search import build_search
from dualmctx.console import Console
from dualmctx.datasets.build import BAD_GAMES, Recipe
from dualmctx.datasets.engines import (
    EngineSpec,
    GameSpec,
    LoadedEngine,
    default_random_share,
    load_engine,
)
from dualmctx.datasets.make import make_dataset
from dualmctx.datasets.manifest import MANIFEST, Manifest, summarize_lengths
from dualmctx.datasets.records import open_records
from dualmctx.datasets.self_play import PlayOptions
from dualmctx.datasets.shards import SPLITS
from dualmctx.distributed.backend import require_backend
from dualmctx.errors import UserError
from dualmctx.matches.arena import MAX_PLIES
from dualmctx.matches.players import Player, search_player
from dualmctx.reports.numbers import NONE, show_number, show_share
from dualmctx.reports.table import Table
from dualmctx.runs.folder import lock_folder
from dualmctx.runs.saved_network import identity_of, load_trained, model_kwargs_of
from dualmctx.runs.saved_policy import search_record
from dualmctx.types import Environment

PROGRAM = "dualmctx dataset"
DESCRIPTION = """Makes a data set of positions, moves and results, from files of games or from games
that an engine plays. Checks the rules of every game; a bad game is reported and skipped. Splits the
games into training, validation and test, and removes duplicates. docs/datasets.md describes the
files, the engines and the loader. Exit codes: 0 for success, 1 if some games are bad, 2 for invalid
input, 130 after Ctrl-C or SIGTERM."""
Engine = Literal["openspiel-mcts", "perfect", "bitbully", "gtp", "network"]


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
    engine: Annotated[Engine | None, named(name="from")] = None
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
    """Number of games that are played at once; for gtp, at most twice --processes."""
    max_plies: int = MAX_PLIES
    """Largest length of an engine's game; a longer game has no result."""
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
                f"of {', '.join(get_args(Engine))}"
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
        for name, engines in _ENGINES.items():
            flag, is_given = f"--{name.replace('_', '-')}", bool(getattr(self, name))
            if is_given and self.engine not in engines:
                known = " and ".join(f"--from {engine}" for engine in engines)
                raise UserError(f"{flag} is for {known}; leave it out")
            if not is_given and self.engine in engines and name in _REQUIRED:
                raise UserError(f"--from {self.engine} needs {flag}")

    @property
    def share_of_random_moves(self) -> float:
        """The share of random moves after the opening."""
        if self.random_share is not None:
            return self.random_share
        return default_random_share(self.engine)


_SHARES = "at least 0, and together less than 1"
# The engines to which an option applies, and the options that they must have.
_ENGINES: dict[str, tuple[str, ...]] = {
    "checkpoint": ("network",),
    "network": ("network",),
    "variant": ("network",),
    "gtp_command": ("gtp",),
    "simulations": ("openspiel-mcts", "network"),
}
_REQUIRED = ("checkpoint", "gtp_command")
_SIMULATIONS = 1000
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
    env = games.make(options.game, **options.game_parameters)
    files = [open_records(name) for name in options.files]
    folder = Path(options.out)
    source = files if options.engine is None else _load_engine(options, env)
    recipe = Recipe(**{x.name: getattr(options, x.name) for x in dataclasses.fields(Recipe)})
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


def _load_engine(options: Options, env: Environment) -> LoadedEngine:
    """Loads the engine of the option `--from`.

    Raises:
      UserError: if the engine is not installed, does not support the game, or cannot be loaded.
    """
    spec = EngineSpec(
        str(options.engine),
        simulations=options.simulations or _SIMULATIONS,
        command=options.gtp_command or "",
        timeout=options.gtp_timeout,
    )
    return load_engine(
        env,
        GameSpec(options.game, dict(options.game_parameters)),
        spec,
        options.games,
        PlayOptions(
            options.seed, options.opening_plies, options.share_of_random_moves, options.max_plies
        ),
        player=_network(options, env) if spec.kind == "network" else None,
        batch=options.batch,
        num_processes=options.processes,
    )


def _network(options: Options, env: Environment) -> Player:
    trained = load_trained(str(options.checkpoint), game=options.game, network=options.network)
    parameters = trained.record["game_parameters"]
    if trained.env.id != env.id or trained.env.num_actions != env.num_actions:
        raise UserError(f"{options.checkpoint} plays {trained.env.id}, not {env.id}")
    if parameters != options.game_parameters:
        given = " ".join(f"{name} {value}" for name, value in parameters.items()) or "no parameters"
        raise UserError(f"{options.checkpoint} plays with {given}; use the same --game-parameters")
    policy = build_search(trained.record, options.variant, options.simulations).for_evaluation()
    about = identity_of(trained) | {"search": search_record(policy)}
    parts = (env, trained.network, trained.params, policy)
    return search_player("network", *parts, about=about, **model_kwargs_of(trained.record))
