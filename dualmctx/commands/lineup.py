"""Who plays: from players as they were asked for to entrants of a tournament."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import games
from dualmctx.commands.candidates import Candidate, networkless, searching
from dualmctx.matches.player_spec import NETWORKLESS, OWN, PlayerSpec
from dualmctx.runs.saved_network import Trained, load_trained
from dualmctx.runs.saved_policy import build_policy
from dualmctx.types import Environment


class Lineup(NamedTuple):
    """The players and the game that they play.

    Attributes:
      env: the game.
      game_parameters: its parameters.
      candidates: the players.
      trained: the first network, of a player or the default one; `None` where there is none.
    """

    env: Environment
    game_parameters: dict[str, Any]
    candidates: tuple[Candidate, ...]
    trained: Trained | None


def load_lineup(
    specs: Sequence[PlayerSpec],
    checkpoint: str | None,
    game: str | None,
    game_parameters: dict[str, int | float],
    simulations: int,
) -> Lineup:
    """Loads the players.

    Args:
      specs: the players.
      checkpoint: of those that name none.
      game: that all networks must be of; `None` for whatever they are of.
      game_parameters: of the game; with networks none that are not theirs.
      simulations: a move, of all trees, of those that do not say.

    Raises:
      ValueError: when something is wrong, in one line.
    """
    for spec in specs:
        if spec.search not in (*NETWORKLESS, OWN):
            with _about(spec):
                _check_variant(spec)
    loaded = [_load(spec, checkpoint) for spec in specs]
    first = next((trained for trained in loaded if trained is not None), None)
    if first is None and checkpoint is not None:
        first = load_trained(checkpoint)
    if first is not None:
        env, parameters = first.env, first.record["game_parameters"]
        _check_game(specs, loaded, first, game, game_parameters)
        # One game for all, so that equal searches share compiled programs.
        loaded = [trained and trained._replace(env=env) for trained in loaded]
    elif game is None:
        raise ValueError("nobody has a network; say with --game what is to be played")
    else:
        env, parameters = games.make(game, **game_parameters), game_parameters
    candidates = []
    for spec, trained in zip(specs, loaded, strict=True):
        with _about(spec):
            if trained is None:
                candidates.append(networkless(spec, env, simulations))
            else:
                candidates.append(searching(spec, trained, simulations))
    return Lineup(env, parameters, tuple(candidates), first)


@contextlib.contextmanager
def _about(spec: PlayerSpec) -> Iterator[None]:
    """Says of which player an error is."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"player {spec.name!r}: {error}") from None


def _check_variant(spec: PlayerSpec) -> None:
    try:
        build_policy({}, spec.search)
    except ValueError as error:
        others = ", ".join((OWN, *NETWORKLESS))
        raise ValueError(
            str(error).replace("variant is", "its search is") + f", {others}"
        ) from None


def _load(spec: PlayerSpec, checkpoint: str | None) -> Trained | None:
    if spec.search in NETWORKLESS:
        return None
    source = spec.checkpoint or checkpoint
    if source is None:
        raise ValueError(
            f"player {spec.name!r} names no checkpoint; write CHECKPOINT+{spec.search}, or give "
            "--checkpoint for all that name none"
        )
    return load_trained(source, spec.iteration)


def _check_game(
    specs: Sequence[PlayerSpec],
    loaded: Sequence[Trained | None],
    first: Trained,
    game: str | None,
    game_parameters: dict[str, int | float],
) -> None:
    if game is not None and game.replace("-", "_") != first.env.id:
        raise ValueError(f"game is {game}; the networks play {first.env.id}")
    ours = _describe_game(first)
    for name, value in game_parameters.items():
        if first.record["game_parameters"].get(name) != value:
            raise ValueError(f"{name} is {value}; the networks play {ours}: leave it out")
    for spec, trained in zip(specs, loaded, strict=True):
        if trained is not None and _describe_game(trained) != ours:
            theirs = _describe_game(trained)
            raise ValueError(f"player {spec.name!r} plays {theirs}, the first one {ours}")


def _describe_game(trained: Trained) -> str:
    parameters = sorted(trained.record["game_parameters"].items())
    return " ".join([trained.env.id, *(f"{name} {value}" for name, value in parameters)])
