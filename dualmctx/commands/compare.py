"""`dualmctx compare PLAYER PLAYER ...`: plays games between players and reports their strength."""

import contextlib
import dataclasses
import itertools
import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import games
from dualmctx.checks import MAX_COUNT, check, check_count, check_even, check_seed
from dualmctx.commands.budgets import build_player, read_budgets, set_budgets
from dualmctx.commands.flags import REQUIRED, Positional, named, parse_flags
from dualmctx.commands.load_players import LoadedPlayers, load_players
from dualmctx.commands.opening_rules import BALANCED, RANDOM, RULES, choose_openings, is_file
from dualmctx.commands.source import SUFFIXES
from dualmctx.commands.tournament_progress import play
from dualmctx.console import Console
from dualmctx.distributed.backend import require_backend
from dualmctx.errors import UserError
from dualmctx.game_files.text_files import split_suffix
from dualmctx.matches.arena import MAX_PLIES
from dualmctx.matches.game_file import GAMES, games_between, read_games
from dualmctx.matches.player_spec import PlayerSpec, parse_player
from dualmctx.matches.players import HostMover, Player
from dualmctx.matches.report.answer import describe_test
from dualmctx.matches.report.page import FILES, endings, standings, write_report
from dualmctx.matches.report.report import HOST_BATCH, Played, measure
from dualmctx.matches.tournament import Tournament, round_robin
from dualmctx.matches.usage import Budgets, seconds_per_move
from dualmctx.programs.engine import num_cores
from dualmctx.ratings.sprt import Sprt
from dualmctx.reports.numbers import show_milliseconds
from dualmctx.runs.folder import CONFIG, RunFolder, check_settings, lock_folder, read_config
from dualmctx.typed_values import decode

PROGRAM = "dualmctx compare"
DESCRIPTION = """Plays a round robin of players. Each pairing plays every opening twice, with the
sides exchanged. Reports the strength of each player with an interval, and the cost of a move. A
PLAYER is [NAME=][CHECKPOINT[@ITERATION]+]SEARCH[:paper][:OPTION=VALUE ...], such as dual,
dual:simulations=50,35, mine=runs/c4@20+gumbel:simulations=200, own (the search with which the
network was trained), policy (the network without a search), random, perfect or
openspiel:simulations=1000; or [NAME=]gtp:[timeout=SECONDS:]COMMAND or
[NAME=]uci:LIMIT=NUMBER:[OPTION=VALUE: ...]COMMAND for a program, such as gnugo="gtp:gnugo --mode
gtp" or uci:nodes=1000:Hash=16:stockfish, with the limit nodes, depth or movetime (milliseconds).
docs/compare.md describes players, budgets and the report. Exit codes: 0 for success, 2 for invalid
input, 130 after Ctrl-C."""
# Default number of parallel pairs of games.
_BATCH = 64


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
    first network; or a file of positions (.jsonl, .csv, .epd, .pgn, .sgf or .ggf)."""
    opening_plies: tuple[int, ...] = (4,)
    """Lengths of random and balanced openings in plies."""
    sprt: tuple[float, float] | None = None
    """Two Elo values, each from -2000 to 2000. Stop as soon as a sequential test decides, with
    error rates of 5 %, whether the first of two players leads by the first or the second value."""
    anchor: str | None = None
    """The player with Elo 0; in ratings by side, its first side. By default, the mean Elo of the
    players that their games make comparable is 0."""
    batch: int | None = None
    """Number of pairs of games played in parallel; by default all pairs, at most 64, or --processes
    if a player is a program."""
    processes: int | None = None
    """Number of programs of a player that think at the same time; by default one for each core.
    Each game in progress has a program of its own, so there are up to twice --batch."""
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
        check_even("games", self.games)
        check_count("simulations", self.simulations, 1)
        check_count("batch", self.batch, 1, none_means="for all pairs")
        check_count("processes", self.processes, 1, none_means="for one for each core")
        is_valid = 1 <= self.max_plies <= MAX_COUNT
        check(is_valid, "max_plies", self.max_plies, f"from 1 to {MAX_COUNT}")
        if is_file(self.openings) and split_suffix(Path(self.openings))[0] not in SUFFIXES:
            known = ", ".join((*RULES, *(f"a {suffix} file" for suffix in SUFFIXES)))
            raise UserError(f"openings is {self.openings}; it must be one of {known}")
        # Checked before sampling, which is slow for long openings.
        longest = max(self.opening_plies, default=0)
        if self.openings in (RANDOM, BALANCED) and longest >= self.max_plies:
            raise UserError(
                f"max_plies is {self.max_plies}; it must exceed the longest opening, {longest}"
            )
        check_seed(self.seed)
        if self.sprt is not None:
            Sprt(*self.sprt)
            if len(self.players) != 2:
                raise UserError(f"sprt tests two players; there are {len(self.players)}")


def main(arguments: list[str]) -> int:
    """Runs the command; returns its exit code."""
    options = parse_flags(Options(), arguments, PROGRAM, DESCRIPTION)
    require_backend(PROGRAM)
    loaded = _load_players(options)
    with lock_folder(Path(options.out), resume=options.resume), contextlib.ExitStack() as stack:
        for builder in loaded.builders:
            stack.callback(builder.close)
        _play(options, arguments, loaded)
    return 0


def _play(options: Options, arguments: list[str], loaded: LoadedPlayers) -> None:
    """Plays the games and writes the report, in a locked folder."""
    folder = Path(options.out)
    settings = _settings(options, loaded)
    if options.resume:
        # Before the openings are chosen and the players are measured.
        check_settings(folder, settings)
    tournament, budgets = prepare(options, loaded, settings)
    to_repeat = [argument for argument in arguments if argument != "--resume"]
    command = shlex.join([*PROGRAM.split(), *to_repeat])
    try:
        test = options.sprt and Sprt(*options.sprt)
        verdict = play(tournament, folder, test)
        played = measure_played(options, loaded, tournament, folder)._replace(
            test=test,
            verdict=verdict,
            timed=[name for name, row in budgets.players.items() if row.measured],
        )
        shown = {name: settings[name] for name in ("game", "seed", "max_plies")}
        shown |= settings["about"] | {"batch": tournament.batch_size, "games": options.games}
        shown |= {"anchor": options.anchor, "command": command}
        report = write_report(RunFolder(folder), shown, budgets, loaded.env, played)
        print_report(report, folder)
    except KeyboardInterrupt:
        file = folder / GAMES
        games_so_far = f": games so far are in {file}" if file.exists() else ": no game is finished"
        raise KeyboardInterrupt(f"{games_so_far}; to continue: {command} --resume") from None


def _load_players(options: Options) -> LoadedPlayers:
    specs = [parse_player(player) for player in options.players]
    names = [spec.name for spec in specs]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"two players have the name {name!r}; write NAME=... to rename one")
    if options.anchor not in (None, *names):
        raise UserError(f"anchor is {options.anchor}; it must be one of {', '.join(names)}")
    return load_players(
        specs,
        options.checkpoint,
        options.game,
        options.game_parameters,
        options.simulations,
        options.network,
        options.processes,
    )


def _settings(options: Options, loaded: LoadedPlayers) -> dict[str, Any]:
    """Returns the settings that must not change on resumption, as in `config.json`."""
    folder, saved = Path(options.out), None
    if options.resume:
        batch = read_config(folder).get("batch_size")
        saved = decode(f"{folder / CONFIG}: batch_size", batch, int | None)
    # The openings are saved, so a file of openings may be moved or extended.
    rule = "file" if is_file(options.openings) else options.openings
    about = {"game_parameters": loaded.game_parameters, "openings": rule} | {
        name: getattr(options, name) for name in ("budget", "opening_plies", "sprt")
    }
    has_program = any(builder.spec.command for builder in loaded.builders)
    most = (options.processes or num_cores()) if has_program else _BATCH
    settings = {
        "game": loaded.env.id,
        "about": about,
        "seed": options.seed,
        "batch_size": options.batch or saved or min(most, options.games // 2),
        "max_plies": options.max_plies,
    }
    # JSON converts tuples to lists, as in the saved settings.
    return json.loads(json.dumps(settings))


def prepare(
    options: Options, loaded: LoadedPlayers, settings: dict[str, Any]
) -> tuple[Tournament, Budgets]:
    """Chooses openings and budgets; writes no files."""
    plies, number, batch = options.opening_plies, options.games // 2, settings["batch_size"]
    openings = choose_openings(options.openings, loaded, number, plies, options.seed)

    def seconds(player: Player) -> float:
        size = HOST_BATCH if isinstance(player.mover, HostMover) else batch
        positions = list(itertools.islice(itertools.cycle(openings), size))
        measured = seconds_per_move(loaded.env, player, positions)
        label = f"{player.name}: {player.cost.simulations:,} simulations" if player.cost else ""
        print(f"{label}, {show_milliseconds(measured)} ms per move", file=sys.stderr)
        return measured

    saved = read_budgets(Path(options.out)) if options.resume else None
    budgets = set_budgets(options.budget, loaded.builders, seconds, saved)
    players = tuple(build_player(budgets, x) for x in loaded.builders)
    # Ratings by side of two players require games of each player against itself.
    with_self = games.has_asymmetric_roles(loaded.env) and len(players) == 2
    tournament = Tournament(
        env=loaded.env,
        players=players,
        pairings=round_robin(len(players), with_self=with_self),
        openings=tuple(openings),
        seed=options.seed,
        batch_size=batch,
        max_plies=options.max_plies,
        about=settings["about"],
    )
    return tournament, budgets


def measure_played(
    options: Options, loaded: LoadedPlayers, tournament: Tournament, folder: Path
) -> Played:
    """Reads the games, and measures the seconds per move in positions of these games."""
    names = [player.name for player in tournament.players]
    played = games_between(names, read_games(folder / GAMES))
    kin: dict[PlayerSpec, list[str]] = {}
    for builder in loaded.builders:
        kin.setdefault(builder.spec.without_budget(), []).append(builder.spec.name)
    groups = [group for group in kin.values() if len(group) > 1]
    return measure(tournament, tournament.players, played, kin=groups, anchor=options.anchor)


def print_report(report: dict[str, Any], folder: Path) -> None:
    """Prints the answer, the standings, the warnings and the names of the files."""
    console = Console(highlight=False)
    console.print(" ".join(report["answer"]["sentences"]), markup=False)
    console.print(standings(report))
    if report["endings"]:
        console.print(endings(report))
    lines = [describe_test(report["sprt"])] if report["sprt"] else []
    files = ", ".join((*FILES, GAMES))
    for line in (*lines, *report["warnings"], f"results in {folder}: {files}"):
        console.print(line, soft_wrap=True, markup=False)
