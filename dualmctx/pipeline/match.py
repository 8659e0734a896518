"""The match of the player stage: its players, and their share of value-keeping moves."""

from collections.abc import Sequence
from typing import NamedTuple

import jax

from dualmctx.errors import UserError
from dualmctx.matches.openings import (
    Opening,
    accept_any,
    accept_balanced,
    find_openings,
)
from dualmctx.matches.players import Player, policy_player, search_player
from dualmctx.matches.tournament import Tournament
from dualmctx.models.network import SeparateTrunks
from dualmctx.pipeline.exact import exact_positions, keeping_share, search_keeping, value_error
from dualmctx.pipeline.options import PlayerOptions
from dualmctx.pipeline.parts import POLICY, ROLLOUT, VALUE, get_part, make_value_fn
from dualmctx.policies import AlphaGo, AlphaZero
from dualmctx.policies.options import Puct
from dualmctx.runs.saved_network import Trained, digest_of, identity_of, model_kwargs_of
from dualmctx.runs.saved_policy import search_record
from dualmctx.types import Environment, Params


def search_players(
    env: Environment,
    network: SeparateTrunks,
    params: Params,
    options: PlayerOptions,
    opponent: Trained | None,
) -> tuple[Player, ...]:
    """Makes the players that search: AlphaGo's search with each λ, and the opponent, if any.

    None has noise at the root, and all have the same number of simulations. The opponent plays with
    AlphaZero's search.
    """
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
    """Measures how often each player of the match keeps the exact value of the game.

    The searches run in the batches of the match, and thus in the programs compiled for it.

    Returns:
      Shares of positions as `exact/NAME_keeping`, see `entry_of`, and the error of the value
      network as `exact/value_loss`; empty if the game has no exact values.
    """
    positions = exact_positions(tournament.env)
    if positions is None:
        return {}
    found = value_error(network, params, positions)
    for part in (POLICY, ROLLOUT):
        found |= keeping_share(network, params, positions, part)
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
    """Chooses different openings, half as many as games per pair of players.

    Raises:
      ValueError: if there is no opening of the given lengths.
    """
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
    """Checks that there is an opening of the given lengths.

    Raises:
      ValueError: if none was found.
    """
    if not found:
        listed = " ".join(map(str, plies))
        raise UserError(
            f"player.opening_plies is {listed}; every game of {env.id} is over after as many "
            "random moves: choose fewer plies"
        )
