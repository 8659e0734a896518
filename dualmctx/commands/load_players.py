"""Loads the players of a comparison from their specifications."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import games
from dualmctx.commands.player_builder import (
    PlayerBuilder,
    networkless_builder,
    policy_builder,
    search_builder,
)
from dualmctx.errors import UserError
from dualmctx.matches.player_spec import NETWORKLESS, OWN, POLICY, PlayerSpec
from dualmctx.runs.saved_network import Trained, load_trained
from dualmctx.runs.saved_policy import build_policy
from dualmctx.types import Environment
from games.contract import find_static_faults
from games.own_game import OwnGame


class LoadedPlayers(NamedTuple):
    """The players and their game.

    Attributes:
      env: the game.
      game_parameters: parameters of the game.
      builders: one builder per player.
      trained: the first network of a player, or the default network; `None` without a network.
    """

    env: Environment
    game_parameters: dict[str, Any]
    builders: tuple[PlayerBuilder, ...]
    trained: Trained | None


def load_players(
    specs: Sequence[PlayerSpec],
    checkpoint: str | None,
    game: str | None,
    game_parameters: dict[str, int | float],
    simulations: int,
    networks: Sequence[str] = (),
) -> LoadedPlayers:
    """Loads the players.

    Args:
      specs: specifications of the players.
      checkpoint: checkpoint of the players that do not name one.
      game: the game of all networks; `None` for the game of the first network.
      game_parameters: parameters of the game; they must agree with those of the networks.
      simulations: simulations per move, over all trees, of players that do not specify them.
      networks: the import paths of networks that exported files may name.

    Raises:
      ValueError: if a specification is invalid, or a network plays a different game.
    """
    for spec in specs:
        if spec.search not in (*NETWORKLESS, OWN, POLICY):
            with _prefix_errors(spec):
                _check_variant(spec)
    loaded = [_load(spec, checkpoint, game, networks) for spec in specs]
    first = next((trained for trained in loaded if trained is not None), None)
    if first is None and checkpoint is not None:
        first = load_trained(checkpoint, game=game, network=networks)
    if first is not None:
        env, parameters = first.env, first.record["game_parameters"]
        _check_game(specs, loaded, first, game, game_parameters)
        # All players share one environment, so that equal searches share compiled programs.
        loaded = [trained and trained._replace(env=env) for trained in loaded]
    elif game is None:
        raise UserError("no player has a network; name the game with --game")
    else:
        env, parameters = games.make(game, **game_parameters), game_parameters
        _check_own_game(env)
    builders = []
    for spec, trained in zip(specs, loaded, strict=True):
        with _prefix_errors(spec):
            if trained is None:
                builders.append(networkless_builder(spec, env, simulations))
            elif spec.search == POLICY:
                builders.append(policy_builder(spec, trained))
            else:
                builders.append(search_builder(spec, trained, simulations))
    return LoadedPlayers(env, parameters, tuple(builders), first)


def _check_own_game(env: Environment) -> None:
    """Checks a game of the user that no network has been trained for."""
    for fault in find_static_faults(env) if isinstance(env, OwnGame) else ():
        raise UserError(
            f"{env.id} cannot be played: {fault.problem}; `dualmctx check-game {env.id}`, with the "
            "same --game-parameters, says more"
        )


@contextlib.contextmanager
def _prefix_errors(spec: PlayerSpec) -> Iterator[None]:
    """Prefixes error messages with the name of the player."""
    try:
        yield
    except UserError as error:
        raise UserError(f"player {spec.name!r}: {error}") from None


def _check_variant(spec: PlayerSpec) -> None:
    try:
        build_policy({}, spec.search)
    except UserError as error:
        others = ", ".join((OWN, POLICY, *NETWORKLESS))
        raise UserError(str(error).replace("variant is", "its search is") + f", {others}") from None


def _load(
    spec: PlayerSpec, checkpoint: str | None, game: str | None, networks: Sequence[str]
) -> Trained | None:
    if spec.search in NETWORKLESS:
        return None
    source = spec.checkpoint or checkpoint
    if source is None:
        raise UserError(
            f"player {spec.name!r} has no checkpoint; write CHECKPOINT+{spec.search}, or set "
            "--checkpoint"
        )
    return load_trained(source, spec.iteration, game=game, network=networks)


def _check_game(
    specs: Sequence[PlayerSpec],
    loaded: Sequence[Trained | None],
    first: Trained,
    game: str | None,
    game_parameters: dict[str, int | float],
) -> None:
    if game is not None and game.replace("-", "_") != first.env.id:
        raise UserError(f"game is {game}; the networks play {first.env.id}")
    expected = _describe_game(first)
    for name, value in game_parameters.items():
        if first.record["game_parameters"].get(name) != value:
            raise UserError(
                f"{name} is {value}; the networks play {expected}: remove the parameter"
            )
    for spec, trained in zip(specs, loaded, strict=True):
        if trained is not None and _describe_game(trained) != expected:
            raise UserError(
                f"player {spec.name!r} plays {_describe_game(trained)}, the first network plays "
                f"{expected}; all players "
                "must play the same game"
            )


def _describe_game(trained: Trained) -> str:
    parameters = sorted(trained.record["game_parameters"].items())
    return " ".join([trained.env.id, *(f"{name} {value}" for name, value in parameters)])
