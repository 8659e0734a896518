"""`dualmctx compare PLAYER PLAYER ...`: plays games between players and reports their strength."""

import itertools
import json
import shlex
import sys
from pathlib import Path
from typing import Any

import games
from dualmctx.commands.budgets import Budgets, read_budgets, set_budgets, to_json, write_budgets
from dualmctx.commands.compare_options import DESCRIPTION, PROGRAM, Options
from dualmctx.commands.flags import parse_flags
from dualmctx.commands.load_players import LoadedPlayers, load_players
from dualmctx.commands.opening_rules import choose_openings, is_file
from dualmctx.commands.tournament_progress import play, select_games
from dualmctx.console import Console
from dualmctx.distributed.backend import require_backend
from dualmctx.errors import UserError
from dualmctx.matches.game_file import read_games
from dualmctx.matches.player_spec import PlayerSpec, parse_player
from dualmctx.matches.players import HostMover, Player
from dualmctx.matches.report.answer import describe_test
from dualmctx.matches.report.page import FILES, write_report
from dualmctx.matches.report.report import HOST_BATCH, Played, measure
from dualmctx.matches.report.tables import standings
from dualmctx.matches.tournament import Tournament, round_robin
from dualmctx.matches.tournament_folder import GAMES
from dualmctx.matches.usage import seconds_per_move
from dualmctx.ratings.sprt import Sprt
from dualmctx.reports.numbers import show_milliseconds
from dualmctx.runs.folder import RunFolder, create_run, lock_folder, read_config, reopen_run

# Default number of parallel pairs of games.
_BATCH = 64


def main(arguments: list[str]) -> int:
    """Runs the command; returns its exit code."""
    options = parse_flags(Options(), arguments, PROGRAM, DESCRIPTION)
    require_backend(PROGRAM)
    loaded = _load_players(options)
    with lock_folder(Path(options.out), resume=options.resume):
        return run(options, arguments, loaded)


def run(options: Options, arguments: list[str], loaded: LoadedPlayers) -> int:
    """Plays the games and writes the report, in a locked folder; returns the exit code."""
    settings = _settings(options, loaded)
    folder = Path(options.out)
    if options.resume:
        reopen_run(folder, settings)
    tournament, budgets = prepare(options, loaded, settings["batch"])
    if not options.resume:
        create_run(folder, settings)
    write_budgets(folder, budgets)
    to_repeat = [argument for argument in arguments if argument != "--resume"]
    command = shlex.join([*PROGRAM.split(), *to_repeat])
    report_settings = settings | {
        "games": options.games,
        "anchor": options.anchor,
        "command": command,
    }
    try:
        test = options.sprt and Sprt(*options.sprt)
        verdict = play(tournament, folder, test)
        played = measure_played(options, loaded, tournament, folder)._replace(
            test=test,
            verdict=verdict,
            timed=[name for name, row in budgets.players.items() if row.measured],
        )
        report = write_report(
            RunFolder(folder), report_settings, to_json(budgets), loaded.env, played
        )
        print_report(report, folder)
    except KeyboardInterrupt:
        file = folder / GAMES
        games_so_far = f": games so far are in {file}" if file.exists() else ": no game is finished"
        raise KeyboardInterrupt(f"{games_so_far}; to continue: {command} --resume") from None
    return 0


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
    )


def _settings(options: Options, loaded: LoadedPlayers) -> dict[str, Any]:
    """Returns the settings that must not change on resumption, apart from the players."""
    names = ("budget", "openings", "opening_plies", "sprt", "max_plies", "seed")
    saved_batch = read_config(Path(options.out)).get("batch") if options.resume else None
    settings = {
        "game": loaded.env.id,
        "game_parameters": loaded.game_parameters,
        "batch": options.batch or saved_batch or min(_BATCH, options.games // 2),
    }
    if is_file(options.openings):
        # The tournament saves the openings, so the file may be moved or extended.
        settings["openings"] = "file"
        names = tuple(name for name in names if name != "openings")
    # JSON converts tuples to lists, as in the saved settings.
    return json.loads(json.dumps(settings | {name: getattr(options, name) for name in names}))


def prepare(options: Options, loaded: LoadedPlayers, batch: int) -> tuple[Tournament, Budgets]:
    """Chooses openings and budgets; writes no files."""
    plies, number = options.opening_plies, options.games // 2
    openings = choose_openings(options.openings, loaded, number, plies, options.seed)

    def seconds(player: Player) -> float:
        size = HOST_BATCH if isinstance(player.mover, HostMover) else batch
        positions = list(itertools.islice(itertools.cycle(openings), size))
        measured = seconds_per_move(loaded.env, player, positions)
        label = f"{player.name}: {player.cost.simulations:,} simulations" if player.cost else ""
        print(f"{label}, {show_milliseconds(measured)} ms per move", file=sys.stderr)
        return measured

    known = read_budgets(Path(options.out)) if options.resume else None
    budgets = set_budgets(options.budget, loaded.builders, seconds, known)
    players = tuple(
        builder.build(budgets.players[builder.spec.name].simulations) for builder in loaded.builders
    )
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
        about={"game_parameters": loaded.game_parameters},
    )
    return tournament, budgets


def measure_played(
    options: Options, loaded: LoadedPlayers, tournament: Tournament, folder: Path
) -> Played:
    """Reads the games, and measures the seconds per move in positions of these games."""
    names = [player.name for player in tournament.players]
    played = select_games(names, read_games(folder / GAMES))
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
    lines = [describe_test(report["sprt"])] if report["sprt"] else []
    files = ", ".join((*FILES, GAMES))
    for line in (*lines, *report["warnings"], f"results in {folder}: {files}"):
        console.print(line, soft_wrap=True, markup=False)
