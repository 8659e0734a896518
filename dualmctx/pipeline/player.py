"""The player stage: all parts in one network, and a match of searches with different λ.

AlphaGo's search takes its prior from the policy network, and mixes the output v of the value
network with the outcome z of a rollout to V = (1 − λ) v + λ z. The stage trains nothing. It saves
the network of the parts, and plays a round robin of λ = 0, 0.5 and 1, as figure 4b of the paper.

Source: Silver et al. 2016, "Searching with policy and value networks", and Methods, "Search
algorithm" and "Evaluation".
"""

import functools
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from dualmctx.errors import UserError
from dualmctx.experiment.stage import Stage, one_line
from dualmctx.matches.game_file import GAMES, Game, read_games
from dualmctx.matches.openings import Opening, accept_any, accept_balanced, find_openings
from dualmctx.matches.players import Player, policy_player, search_player
from dualmctx.matches.report.answer import by_strength
from dualmctx.matches.report.page import write_report
from dualmctx.matches.report.report import measure
from dualmctx.matches.tournament import Tournament, games_of, play_batches
from dualmctx.matches.usage import SIMULATIONS, Budget, Budgets
from dualmctx.models.network import SeparateTrunks
from dualmctx.pipeline.config import PlayerConfig
from dualmctx.pipeline.exact import exact_positions, keeping_share, search_keeping, value_error
from dualmctx.pipeline.options import PlayerOptions
from dualmctx.pipeline.parts import (
    POLICY,
    ROLLOUT,
    VALUE,
    check_parts,
    get_part,
    make_value_fn,
    with_part,
)
from dualmctx.pipeline.stage import Inputs, StageState
from dualmctx.policies import AlphaGo, AlphaZero
from dualmctx.policies.options import Puct
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
from dualmctx.runs.saved_network import Trained, digest_of, identity_of, model_kwargs_of
from dualmctx.runs.saved_policy import search_record
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
    """
    options, network = config.player, check_parts(network)
    params = assemble(inputs, options.prior)
    players = (
        *search_players(env, network, params, options, inputs.get("opponent")),
        *policy_players(network, params),
    )
    openings, rule, note = choose_openings(env, network, params, options, config.seed)
    tournament = Tournament(
        env,
        players,
        openings,
        seed=config.seed,
        batch_size=min(_BATCH, len(openings)),
        # A data set of other parameters refuses the games.
        about={"game_parameters": config.game_parameters},
    )
    where = folder / TOURNAMENT
    settings = {
        "game_parameters": config.game_parameters,
        "games": 2 * len(openings),
        "openings": rule,
        "opening_plies": list(options.opening_plies),
        "seed": config.seed,
        "anchor": None,
        "command": shlex.join(["dualmctx", "train", "--resume", str(folder)]),
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
        about=f"{len(players)} players, {2 * len(openings)} games per pair",
        prepare=lambda say: say(note) if note else None,
    )


def assemble(inputs: Inputs, prior: str) -> Params:
    """Returns the parameters of the player's network.

    The rollout policy is that of the stage `supervised`, and the policy network, which is the prior
    of the search, that of the stage `prior`: `supervised` or `reinforced`.
    """
    supervised, value = inputs["supervised"].params, inputs["value"].params
    params = with_part(supervised, VALUE, get_part(value, VALUE))
    if prior == "supervised":
        return params
    if "reinforced" not in inputs:
        raise UserError(
            "player.prior is reinforced; name the run of --pipeline reinforce with --reinforced"
        )
    return with_part(params, POLICY, get_part(inputs["reinforced"].params, POLICY))


def count_batches(tournament: Tournament) -> int:
    """Returns the number of batches of games of a tournament."""
    chunks = -(-len(tournament.openings) // tournament.batch_size)
    return chunks * len(tournament.pairings)


def play_batch(tournament: Tournament, folder: Path, number: int) -> list[Game]:
    """Returns the games of batch `number`; plays them, and earlier ones, if the folder lacks them.

    The batches are those of `play_batches`.
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
    """Writes the report of `dualmctx compare`, with times of moves; returns its content."""
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


def search_players(
    env: Environment,
    network: SeparateTrunks,
    params: Params,
    options: PlayerOptions,
    opponent: Trained | None,
) -> tuple[Player, ...]:
    """Makes the players that search: AlphaGo's with each λ, and AlphaZero's with an opponent."""
    number, players = options.num_simulations, []
    for mix in options.rollout_mixes:
        policy = AlphaGo(number, puct=Puct(options.c_puct), rollout_mix=mix).for_evaluation()
        about = {"network": digest_of(params), "search": search_record(policy)}
        players.append(search_player(f"lambda {mix:g}", env, network, params, policy, about=about))
    if opponent is not None:
        policy, kept = AlphaZero(number).for_evaluation(), model_kwargs_of(opponent.record)
        about = identity_of(opponent) | {"search": search_record(policy)}
        parts = (opponent.network, opponent.params, policy)
        players.append(search_player("opponent", env, *parts, about=about, **kept))
    return tuple(players)


def policy_players(network: SeparateTrunks, params: Params) -> tuple[Player, ...]:
    """Makes the players of the most probable moves of the policy network and the rollout policy."""
    players = []
    for name, head in (("policy", -1), ("rollout policy", 0)):
        about = {"network": digest_of(params), "policy": {"head": head, "temperature": 0.0}}
        players.append(policy_player(name, network, params, head=head, about=about))
    return tuple(players)


def measure_keeping(
    network: SeparateTrunks, params: Params, tournament: Tournament
) -> dict[str, float]:
    """Measures how often each player of the match keeps the exact value of the game, if it has one.

    Returns:
      Shares of positions as `exact/NAME_keeping`, see `entry_of`, and the error of the value
      network as `exact/value_loss`.
    """
    positions = exact_positions(tournament.env)
    if positions is None:
        return {}
    found = value_error(network, params, positions)
    for part in (POLICY, ROLLOUT):
        found |= keeping_share(network, params, positions, part)
    # In the batches of the match, and thus in the programs compiled for it.
    for player in tournament.players:
        if player.cost and player.cost.simulations:
            share = search_keeping(player, positions, tournament.batch_size)
            found[f"exact/{entry_of(player.name)}_keeping"] = share
    return found


def entry_of(player: str) -> str:
    """Returns the name of a player in entries, such as `lambda_0.5` or `rollout`."""
    return player.removesuffix(" policy").replace(" ", "_")


class Openings(NamedTuple):
    """The openings of the match.

    Attributes:
      openings: the actions of each opening.
      rule: how they were chosen: `balanced` or `random`.
      note: a message about another rule or number than the options ask for; empty if there is none.
    """

    openings: list[Opening]
    rule: str
    note: str


def choose_openings(
    env: Environment, network: SeparateTrunks, params: Params, options: PlayerOptions, seed: int
) -> Openings:
    """Chooses different openings of the given lengths, half as many as games per pair."""
    number, plies = options.num_games // 2, options.opening_plies
    found, notes = [], []
    if options.openings == "balanced":
        value_fn = jax.jit(make_value_fn(network))
        accept = accept_balanced(
            env, lambda states: value_fn(get_part(params, VALUE), states.observation)
        )
        found = find_openings(env, number, plies=plies, seed=seed, accept=accept)
        if len(found) == number:
            return Openings(found, "balanced", "")
        notes.append(f"there are only {len(found)} balanced openings, so random ones are played")
    found = find_openings(env, number, plies=plies, seed=seed, accept=accept_any)
    require_openings(found, env, plies)
    if len(found) < number:
        notes.append(
            f"there are only {len(found)} openings, so each pair of players plays "
            f"{2 * len(found)} games"
        )
    return Openings(found, "random", "; ".join(notes))


def require_openings(found: Sequence[Opening], env: Environment, plies: Sequence[int]) -> None:
    """Checks that an opening of the given lengths was found."""
    if not found:
        listed = " ".join(map(str, plies))
        raise UserError(
            f"player.opening_plies is {listed}; every game of {env.id} is over after as many "
            "random moves: choose fewer plies"
        )
