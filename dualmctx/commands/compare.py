"""`dualmctx compare PLAYER PLAYER …`: games of players against each other, and a report of them."""

import dataclasses
import itertools
import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from rich.console import Console

import games
from dualmctx.checks import check_count
from dualmctx.commands.budgets import Budgets, read_budgets, set_budgets, to_json, write_budgets
from dualmctx.commands.flags import REQUIRED, Positional, named, parse_flags
from dualmctx.commands.lineup import Lineup, load_lineup
from dualmctx.commands.opening_rules import BALANCED, RANDOM, RULES, choose_openings, is_file
from dualmctx.commands.standings import describe_test, standings
from dualmctx.commands.tournament_progress import play, select_games
from dualmctx.evaluation.positions_file import READERS
from dualmctx.matches.arena import MAX_PLIES
from dualmctx.matches.game_file import read_games
from dualmctx.matches.openings import find_starts
from dualmctx.matches.player_spec import PlayerSpec, parse_player
from dualmctx.matches.players import Entrant, Host
from dualmctx.matches.report.machine import machine, versions
from dualmctx.matches.report.page import by_strength, make_page
from dualmctx.matches.report.plots import draw_costs, draw_elo, to_png
from dualmctx.matches.report.report import Played, make_report
from dualmctx.matches.tournament import Tournament, round_robin
from dualmctx.matches.tournament_folder import GAMES
from dualmctx.matches.usage import sample_positions, seconds_a_move
from dualmctx.ratings.sprt import Sprt
from dualmctx.runs.folder import RunFolder, create_run, lock_folder, read_config, reopen_run

_PROGRAM = "dualmctx compare"
_DESCRIPTION = """Plays players against each other, each two from the same openings on both sides,
and reports who is how strong, with intervals, and what a move of each costs. A PLAYER is
[NAME=][CHECKPOINT[@ITERATION]+]SEARCH[:OPTION=VALUE ...], such as dual, dual:simulations=50,35,
mine=runs/c4@20+gumbel:simulations=200, own (the search that the network was trained with), random,
perfect or openspiel:simulations=1000. docs/compare.md describes players, budgets and the report.
The exit code is 0 when all is well, 2 for bad input, and 130 after Ctrl-C."""
# Pairs of games at once where nothing is said; positions on which a player on the host is timed.
_BATCH, _HOST_BATCH = 64, 16


@dataclasses.dataclass(frozen=True)
class Options:
    """Who plays what, and for how long."""

    players: Positional[Annotated[tuple[str, ...], named(metavar="PLAYER")]] = REQUIRED
    """Two or more."""
    checkpoint: str | None = None
    """Of the players that name none: a run's folder, an exported .npz file, or the name of a
    network that comes with dualmctx."""
    game: str | None = None
    """What is played, where no player has a network; a network of another game is refused."""
    game_parameters: dict[str, int | float] = dataclasses.field(default_factory=dict)
    """Parameters of that game, such as `pile 31`, where no player has a network; others than a
    network's are refused."""
    budget: Literal["simulations", "network", "seconds"] = "simulations"
    """What is equal: simulations, as they are given; network, blocks evaluated a move; or seconds
    a move, measured here. The last two scale simulations to the cost of the first player that has
    any."""
    simulations: int = 85
    """Simulations a move, of all trees, of players that do not say."""
    games: int = 200
    """Games of each two players, an even number; the most where --sprt ends them."""
    openings: Annotated[str, named(metavar="{random,start,balanced,FILE}")] = "random"
    """Random openings to positions that differ; the start each time; balanced, random ones that are
    drawn, by the solution of a small game, by the first network's value otherwise; or the positions
    of a file that ends in .jsonl or .csv, as `dualmctx evaluate` reads them."""
    opening_plies: tuple[int, ...] = (4,)
    """Lengths of random and balanced openings."""
    sprt: tuple[float, float] | None = None
    """Stop when it is decided, with 5 % of errors each way, whether the first of two players leads
    by the first or by the second of these numbers of Elo, each from -2000 to 2000."""
    anchor: str | None = None
    """The player whose Elo is 0, by side its first side; by default the mean is of those whom the
    games bound against one another."""
    batch: int | None = None
    """Pairs of games played at once; by default all, 64 at most."""
    max_plies: int = MAX_PLIES
    """A longer game is cut short and drawn."""
    seed: int = 0
    """Of openings and games; the same seed plays the same games."""
    out: str = "runs/comparison"
    """The folder of the games and the report."""
    resume: bool = False
    """Go on with the games in that folder, of which there may be more, by more players."""

    def __post_init__(self) -> None:
        """Checks what no part of the program checks by itself."""
        if self.players is not REQUIRED and len(self.players) < 2:
            raise ValueError(f"players given: {len(self.players)}; name two at least")
        if self.games < 2 or self.games % 2:
            raise ValueError(f"games is {self.games}; it must be even and at least 2")
        for name in ("simulations", "batch"):
            value = getattr(self, name)
            if value is not None:
                check_count(name, value, 1)
        if not 1 <= self.max_plies < 2**31:
            raise ValueError(f"max_plies is {self.max_plies}; it must be from 1 to {2**31 - 1}")
        if is_file(self.openings) and Path(self.openings).suffix not in READERS:
            known = ", ".join((*RULES, *(f"a {suffix} file" for suffix in READERS)))
            raise ValueError(f"openings is {self.openings}; it must be one of {known}")
        # Before they are drawn, as long ones take long.
        longest = max(self.opening_plies, default=0)
        if self.openings in (RANDOM, BALANCED) and longest >= self.max_plies:
            raise ValueError(
                f"max_plies is {self.max_plies}; openings take up to {longest} of them"
            )
        if not 0 <= self.seed < 2**32:
            raise ValueError(f"seed is {self.seed}; it must be from 0 to {2**32 - 1}")
        if self.sprt is not None:
            Sprt(*self.sprt)
            if len(self.players) != 2:
                raise ValueError(f"sprt tests two players; there are {len(self.players)}")


def main(arguments: list[str]) -> int:
    """Runs the command; returns its exit code."""
    options = parse_flags(Options(), arguments, _PROGRAM, _DESCRIPTION)
    lineup = _load_lineup(options)
    with lock_folder(Path(options.out), resume=options.resume):
        return run(options, arguments, lineup)


def run(options: Options, arguments: list[str], lineup: Lineup) -> int:
    """Plays and reports in a folder that is locked; returns the exit code."""
    settings = _settings(options, lineup)
    folder = Path(options.out)
    if options.resume:
        reopen_run(folder, settings)
    tournament, budgets = prepare(options, lineup, settings["batch"])
    if not options.resume:
        create_run(folder, settings)
    write_budgets(folder, budgets)
    asked = [argument for argument in arguments if argument != "--resume"]
    command = shlex.join([*_PROGRAM.split(), *asked])
    told = settings | {"games": options.games, "anchor": options.anchor, "command": command}
    try:
        test = options.sprt and Sprt(*options.sprt)
        verdict = play(tournament, folder, test)
        played = measure(options, lineup, tournament, folder)._replace(
            test=test,
            verdict=verdict,
            timed=[name for name, row in budgets.players.items() if row.measured],
        )
        write_report(RunFolder(folder), told, budgets, make_report(played))
    except KeyboardInterrupt:
        kept = f": games so far are in {folder / GAMES}; to go on: {command} --resume"
        raise KeyboardInterrupt(kept) from None
    return 0


def _load_lineup(options: Options) -> Lineup:
    specs = [parse_player(player) for player in options.players]
    names = [spec.name for spec in specs]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two players are called {name!r}; write NAME=... to tell them apart")
    if options.anchor not in (None, *names):
        raise ValueError(f"anchor is {options.anchor}; it must be one of {', '.join(names)}")
    return load_lineup(
        specs, options.checkpoint, options.game, options.game_parameters, options.simulations
    )


def _settings(options: Options, lineup: Lineup) -> dict[str, Any]:
    """Returns what must not change when the games go on; players are the tournament's matter."""
    names = ("budget", "openings", "opening_plies", "sprt", "max_plies", "seed")
    before = read_config(Path(options.out)).get("batch") if options.resume else None
    settings = {
        "game": lineup.env.id,
        "game_parameters": lineup.game_parameters,
        "batch": options.batch or before or min(_BATCH, options.games // 2),
    }
    if is_file(options.openings):
        # By its content, which the tournament keeps: a file may be moved, and more may be added.
        settings["openings"] = "file"
        names = tuple(name for name in names if name != "openings")
    # As JSON has it.
    return json.loads(json.dumps(settings | {name: getattr(options, name) for name in names}))


def prepare(options: Options, lineup: Lineup, batch: int) -> tuple[Tournament, Budgets]:
    """Chooses openings and budgets, before anything is written."""
    plies, number = options.opening_plies, options.games // 2
    openings = choose_openings(options.openings, lineup, number, plies, options.seed)

    def seconds(entrant: Entrant) -> float:
        size = _HOST_BATCH if isinstance(entrant.player, Host) else batch
        positions = list(itertools.islice(itertools.cycle(openings), size))
        found = seconds_a_move(lineup.env, entrant, positions)
        told = f"{entrant.name}: {entrant.cost.simulations:,} simulations" if entrant.cost else ""
        print(f"{told}, {1000 * found:.3g} ms a move", file=sys.stderr)
        return found

    known = read_budgets(Path(options.out)) if options.resume else None
    budgets = set_budgets(options.budget, lineup.candidates, seconds, known)
    entrants = tuple(
        candidate.enter(budgets.players[candidate.spec.name].simulations)
        for candidate in lineup.candidates
    )
    # Two players are compared by side only if each side meets the other one of the same player.
    with_self = games.has_asymmetric_roles(lineup.env) and len(entrants) == 2
    tournament = Tournament(
        env=lineup.env,
        entrants=entrants,
        pairings=round_robin(len(entrants), with_self=with_self),
        openings=tuple(openings),
        seed=options.seed,
        batch_size=batch,
        max_plies=options.max_plies,
        about={"game_parameters": lineup.game_parameters},
    )
    return tournament, budgets


def measure(options: Options, lineup: Lineup, tournament: Tournament, folder: Path) -> Played:
    """Reads the games, and measures the time of a move in positions from them."""
    names = [entrant.name for entrant in tournament.entrants]
    played = select_games(names, read_games(folder / GAMES))
    seconds = {}
    for entrant in tournament.entrants:
        size = _HOST_BATCH if isinstance(entrant.player, Host) else tournament.batch_size
        positions = sample_positions(played, size, options.seed)
        seconds[entrant.name] = seconds_a_move(tournament.env, entrant, positions)
    kin: dict[PlayerSpec, list[str]] = {}
    for candidate in lineup.candidates:
        kin.setdefault(candidate.spec.kin(), []).append(candidate.spec.name)
    return Played(
        entrants=tournament.entrants,
        games=played,
        starts=find_starts(tournament.env, (game.history(game.opening) for game in played)),
        seconds=seconds,
        by_side=games.has_asymmetric_roles(tournament.env),
        kin=[group for group in kin.values() if len(group) > 1],
        anchor=options.anchor,
    )


def write_report(
    folder: RunFolder, settings: dict[str, Any], budgets: Budgets, found: dict[str, Any]
) -> None:
    """Writes the report and shows what is in it."""
    made_with = {"versions": versions(), "machine": machine()}
    report = {"settings": settings, "budgets": to_json(budgets), **made_with, **found}
    ranked = by_strength(found["players"])
    pictures = {"elo": to_png(draw_elo(ranked)), "costs": to_png(draw_costs(ranked))}
    folder.write_json("report.json", report)
    for name, picture in pictures.items():
        (folder.path / f"{name}.png").write_bytes(picture)
    (folder.path / "report.html").write_text(make_page(report, pictures), encoding="utf-8")
    console = Console(highlight=False)
    console.print(standings(report))
    lines = [describe_test(report["sprt"])] if report["sprt"] else []
    files = "report.html, report.json, elo.png, costs.png, games.jsonl"
    for line in (*lines, *report["warnings"], f"in {folder.path}: {files}"):
        console.print(line, soft_wrap=True, markup=False)
