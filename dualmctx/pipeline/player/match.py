"""The match of the player stage: its players, and their share of value-keeping moves."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from dualmctx.matches.openings import Opening
from dualmctx.matches.players import Player, policy_player, search_player
from dualmctx.matches.tournament import Tournament
from dualmctx.models.network import SeparateTrunks
from dualmctx.pipeline.exact_evals import keeping_share, search_keeping, value_error
from dualmctx.pipeline.exact_positions import exact_positions
from dualmctx.pipeline.options import PlayerOptions
from dualmctx.pipeline.parts import POLICY, ROLLOUT
from dualmctx.policies import AlphaGo, AlphaZero
from dualmctx.policies.option_groups import Puct
from dualmctx.runs.saved_network import Trained, digest_of, identity_of, model_kwargs_of
from dualmctx.runs.saved_policy import search_record
from dualmctx.types import Environment, Params, Policy, PolicyValueNetwork

POLICY_NETWORK, ROLLOUT_POLICY, OPPONENT = "policy", "rollout policy", "opponent"
"""Names of the players that do not mix values and rollouts."""
# Largest number of pairs of games that two players play at once.
_BATCH = 64


def name_of(rollout_mix: float) -> str:
    """Returns the name of the search with a weight λ of the rollouts, such as `lambda 0.5`."""
    return f"lambda {rollout_mix:g}"


class Searcher(NamedTuple):
    """A player of the match that searches.

    Attributes:
      name: its name.
      network: its network.
      params: the parameters.
      policy: its search, without noise at the root.
      options: options of `make_model`.
      about: the identity of the network, as JSON values.
    """

    name: str
    network: PolicyValueNetwork
    params: Params
    policy: Policy
    options: dict[str, Any]
    about: dict[str, Any]

    def player(self, env: Environment) -> Player:
        """Returns the player of a tournament."""
        about = self.about | {"search": search_record(self.policy)}
        parts = (self.network, self.params, self.policy)
        return search_player(self.name, env, *parts, about=about, **self.options)


def make_searchers(
    network: SeparateTrunks, params: Params, options: PlayerOptions, opponent: Trained | None
) -> list[Searcher]:
    """Makes the players that search: AlphaGo's search with each λ, and the opponent, if any.

    Args:
      network: the network with three parts.
      params: its parameters.
      options: the options of the stage.
      opponent: a network that plays with AlphaZero's search and the same number of simulations.
    """
    number, digest = options.num_simulations, {"network": digest_of(params)}
    made = []
    for mix in options.rollout_mixes:
        policy = AlphaGo(number, puct=Puct(options.c_puct), rollout_mix=mix).for_evaluation()
        made.append(Searcher(name_of(mix), network, params, policy, {}, digest))
    if opponent is not None:
        digest = identity_of(opponent)
        policy, kept = AlphaZero(number).for_evaluation(), model_kwargs_of(opponent.record)
        made.append(Searcher(OPPONENT, opponent.network, opponent.params, policy, kept, digest))
    return made


def make_players(
    env: Environment, network: SeparateTrunks, params: Params, searchers: Sequence[Searcher]
) -> tuple[Player, ...]:
    """Makes the players of the match.

    They are those that search, and the most probable moves of the policy network and of the rollout
    policy.
    """
    made = [searcher.player(env) for searcher in searchers]
    for name, head in ((POLICY_NETWORK, -1), (ROLLOUT_POLICY, 0)):
        about = {"network": digest_of(params), "policy": {"head": head, "temperature": 0.0}}
        made.append(policy_player(name, network, params, head=head, about=about))
    return tuple(made)


def make_tournament(
    env: Environment,
    players: tuple[Player, ...],
    openings: Sequence[Opening],
    seed: int,
    game_parameters: dict[str, Any],
) -> Tournament:
    """Makes the round robin of the players; each pair plays two games from each opening.

    Each player is compiled once. A program for each pairing, or one for all of them, would take
    longer to compile than the games of a small match.

    The folder of the tournament names the parameters of the game, so that a data set of other
    parameters refuses its games.
    """
    return Tournament(
        env=env,
        players=players,
        openings=tuple(openings),
        seed=seed,
        batch_size=min(_BATCH, len(openings)),
        about={"game_parameters": game_parameters},
        move_by_move=True,
    )


def measure_keeping(
    network: SeparateTrunks, params: Params, tournament: Tournament
) -> dict[str, float]:
    """Measures how often each player of the match keeps the exact value of the game.

    The searches run in the batches of the match, and thus in the programs compiled for it.

    Args:
      network: the network with three parts.
      params: its parameters.
      tournament: the match; its players with simulations are those that search.

    Returns:
      Shares of positions as `exact/NAME_keeping`, see `entry_of`, and the error of the value
      network as `exact/value_error`; empty if the game has no exact values.
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
