"""The player stage: all parts in one network, and a match of searches with different λ.

AlphaGo's search takes its prior from the policy network, and mixes the output v of the value
network with the outcome z of a rollout to V = (1 − λ) v + λ z. The stage trains nothing. It saves
the network of the parts, and plays a round robin of λ = 0, 0.5 and 1, as figure 4b of the paper.

Source: Silver et al. 2016, "Searching with policy and value networks", and Methods, "Search
algorithm" and "Evaluation".
"""

import functools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from dualmctx.errors import UserError
from dualmctx.experiment.stage import Stage, one_line
from dualmctx.matches.game_file import GAMES, Game, read_games
from dualmctx.matches.report.answer import by_strength
from dualmctx.matches.report.page import write_report
from dualmctx.matches.report.report import measure
from dualmctx.matches.tournament import Tournament, games_of, play_batches
from dualmctx.matches.usage import SIMULATIONS, Budget, Budgets
from dualmctx.pipeline.config import PlayerConfig
from dualmctx.pipeline.match import (
    choose_openings,
    entry_of,
    measure_keeping,
    policy_players,
    search_players,
)
from dualmctx.pipeline.options import PlayerOptions
from dualmctx.pipeline.parts import POLICY, VALUE, check_parts, get_part, with_part
from dualmctx.pipeline.stage import Inputs, StageState
from dualmctx.reports.numbers import (
    show_elo,
    show_interval,
    show_milliseconds,
    show_score,
    show_share,
)
from dualmctx.reports.plots import draw_elo
from dualmctx.reports.table import Table, entry
from dualmctx.runs.folder import RunFolder
from dualmctx.runs.metrics_file import Row
from dualmctx.types import Environment, Params, PolicyValueNetwork

TOURNAMENT = "tournament"
"""The folder of the match, inside the folder of the stage."""
# Largest number of pairs of games that two players play at once.
_BATCH = 64


def make_stage(
    env: Environment,
    network: PolicyValueNetwork,
    config: PlayerConfig,
    inputs: Inputs,
    folder: Path,
) -> Stage:
    """Makes the stage; see `dualmctx.pipeline.stage.MakeStage`.

    An iteration plays one batch of games of two players. A resumed stage reads the games that are
    already in the folder.

    Raises:
      UserError: if the reinforced policy is the prior and missing, or if there is no opening.
    """
    options, network = config.player, check_parts(network)
    params = assemble(inputs, options.prior)
    players = (
        *search_players(env, network, params, options, inputs.opponent),
        *policy_players(network, params),
    )
    openings = choose_openings(env, network, params, options, config.seed)
    tournament = Tournament(
        env,
        players,
        openings.openings,
        seed=config.seed,
        batch_size=min(_BATCH, len(openings.openings)),
        # A data set of other parameters refuses the games.
        about={"game_parameters": config.game_parameters},
    )
    where = folder / TOURNAMENT
    settings = {
        "game_parameters": config.game_parameters,
        "games": 2 * len(openings.openings),
        "openings": openings.rule,
        "opening_plies": list(options.opening_plies),
        "seed": config.seed,
        "anchor": None,
        "command": f"dualmctx train --resume {folder}",
    }
    report = functools.cache(lambda: _report(tournament, where, settings))

    def init() -> StageState:
        key = jax.random.PRNGKey(config.seed)
        return StageState(params, (), (), key, jnp.zeros((), jnp.int32))

    def iterate(state: StageState) -> tuple[StageState, dict[str, float]]:
        number = int(state.iteration)
        played, first = play_batch(tournament, where, number), _pairing(tournament, number)[0]
        results = [game.result if game.players[0] == first else -game.result for game in played]
        row = {"games": float(len(played))}
        for name, result in (("wins", 1), ("draws", 0), ("losses", -1)):
            row[name] = float(results.count(result))
        return state._replace(iteration=state.iteration + 1), row

    def describe(row: Row) -> str:
        # At most 43 columns if λ has at most 4 decimals.
        return f"{' – '.join(_pairing(tournament, row['iteration'] - 1))} {show_score(row)}"

    def plot(rows: list[Row], title: str, file: Path) -> None:
        del rows
        draw_elo(by_strength(report()["players"]), title).savefig(file, dpi=110)

    return Stage(
        name="player",
        num_iterations=count_batches(tournament),
        init=init,
        iterate=iterate,
        evaluate=lambda state: measure_keeping(network, state.params, tournament),
        eval_every=0,
        describe=one_line(describe),
        plot=plot,
        summarize=lambda state, rows: _summarize(report(), rows[-1], options),
        table=summary_table,
        about=f"{len(players)} players, {2 * len(openings.openings)} games per pair",
        prepare=lambda say: say(openings.note) if openings.note else None,
    )


def assemble(inputs: Inputs, prior: str) -> Params:
    """Returns the parameters of the player's network.

    The rollout policy is that of the stage `supervised`, and the policy network, which is the prior
    of the search, that of the stage `prior`: `supervised` or `reinforced`.

    Raises:
      UserError: if the prior is missing.
    """
    assert inputs.supervised is not None
    assert inputs.value is not None
    params = with_part(inputs.supervised.params, VALUE, get_part(inputs.value.params, VALUE))
    if prior == "supervised":
        return params
    if inputs.reinforced is None:
        raise UserError(
            "player.prior is reinforced; name the run of --pipeline reinforce with --reinforced"
        )
    return with_part(params, POLICY, get_part(inputs.reinforced.params, POLICY))


def count_batches(tournament: Tournament) -> int:
    """Returns the number of batches of games of a tournament."""
    chunks = -(-len(tournament.openings) // tournament.batch_size)
    return chunks * len(tournament.pairings)


def play_batch(tournament: Tournament, folder: Path, number: int) -> list[Game]:
    """Returns the games of batch `number`; plays them, and earlier ones, if the folder lacks them.

    Batches have the order of `play_batches`: the pairings take turns.
    """
    names = {*_pairing(tournament, number)}
    start = number // len(tournament.pairings) * tournament.batch_size
    pairs = range(start, min(start + tournament.batch_size, len(tournament.openings)))

    def read() -> list[Game]:
        file = folder / GAMES
        known = read_games(file) if file.exists() else []
        return [game for game in known if {*game.players} == names and game.pair in pairs]

    batches = play_batches(tournament, folder)
    while len(read()) < 2 * len(pairs):
        next(batches)
    return read()


def _pairing(tournament: Tournament, number: int) -> tuple[str, str]:
    """Returns the names of the players of a batch."""
    one, other = tournament.pairings[number % len(tournament.pairings)]
    return tournament.players[one].name, tournament.players[other].name


def _report(tournament: Tournament, folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Writes the report of `dualmctx compare` about all games in the folder; returns its content.

    It has the time of a move of each player, which is measured here.
    """
    players = tournament.players
    played = measure(tournament, players, games_of(tournament, read_games(folder / GAMES)))
    settings = settings | {"game": tournament.env.id, "batch": tournament.batch_size}
    simulations = {x.name: x.cost.simulations if x.cost else 0 for x in players}
    asked = {name: (number,) if number else None for name, number in simulations.items()}
    budgets = Budgets(SIMULATIONS, None, None, {x: Budget(y, y) for x, y in asked.items()})
    return write_report(RunFolder(folder), settings, budgets, tournament.env, played)


def _summarize(report: dict[str, Any], evals: Row, options: PlayerOptions) -> dict[str, Any]:
    """Returns the entries of `summary.json`; the evals are those of `measure_keeping`."""
    rows = [
        row | {"keeping": evals.get(f"exact/{entry_of(row['name'])}_keeping")}
        for row in by_strength(report["players"])
    ]
    return {
        "games": report["games"]["played"],
        "simulations": options.num_simulations,
        "prior": options.prior,
        "openings": report["settings"]["openings"],
        "answer": report["answer"]["sentences"],
        "warnings": report["warnings"],
        "players": rows,
    }


_COLUMNS = {
    "": entry("name", str),
    "Elo": show_elo,
    "95%": show_interval,
    "points": entry("score", show_share, 1),
    "keeps value": entry("keeping", show_share, 1),
    "blocks": entry("blocks"),
    "ms": entry("seconds", show_milliseconds),
}


def summary_table(summary: dict[str, Any]) -> Table:
    """Lays out the players, the strongest first."""
    return Table.of(
        f"player: {summary['games']:,} games, {summary['simulations']} simulations per move",
        _COLUMNS,
        summary["players"],
        caption=" ".join(summary["answer"]),
    )
