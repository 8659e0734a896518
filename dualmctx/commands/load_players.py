"""Players of a comparison: loads them, and builds them with any number of simulations."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, NamedTuple

from msgspec import Meta

import games
from dualmctx.checks import MAX_NUMBER
from dualmctx.commands.search import read_options, search_of, with_texts
from dualmctx.errors import UserError
from dualmctx.matches.other_players import (
    LIMITS,
    exact_player,
    gtp_player,
    openspiel_mcts,
    uci_player,
)
from dualmctx.matches.player_spec import (
    GTP,
    NETWORKLESS,
    OPENSPIEL,
    OWN,
    POLICY,
    PROTOCOLS,
    RANDOM,
    UCI,
    PlayerSpec,
)
from dualmctx.matches.players import (
    HostMover,
    Player,
    policy_player,
    random_player,
    search_player,
)
from dualmctx.models.costs import Simulations
from dualmctx.policies import paper_setting
from dualmctx.runs.saved_network import Trained, identity_of, load_trained, model_kwargs_of
from dualmctx.runs.saved_policy import build_policy, search_record, with_simulations
from dualmctx.types import Environment, tree_budgets
from games.contract import find_static_faults, unusable
from games.own_game import OwnGame

_POLICY_OPTIONS: dict[str, Any] = {"head": int, "temperature": float}
_UCT_C = Meta(ge=0, le=MAX_NUMBER, description="a finite number of at least 0")
_OPENSPIEL_OPTIONS: dict[str, Any] = {"uct_c": Annotated[float, _UCT_C]}


class PlayerBuilder(NamedTuple):
    """Builds a player with any number of simulations.

    Attributes:
      spec: the specification of the player.
      simulations: default simulations per move, one number per tree; `None` if it has none.
      build: builds the player with the given simulations, one number per tree.
      close: ends the programs of the player.
    """

    spec: PlayerSpec
    simulations: Simulations | None
    build: Callable[[Simulations | None], Player]
    close: Callable[[], None] = lambda: None


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
    num_processes: int | None = None,
    *,
    has_checkpoint_flag: bool = True,
) -> LoadedPlayers:
    """Loads the players.

    Args:
      specs: specifications of the players.
      checkpoint: checkpoint of the players that do not name one.
      game: the game of all networks; `None` for the game of the first network.
      game_parameters: parameters of the game; they must agree with those of the networks.
      simulations: simulations per move, over all trees, of players that do not specify them.
      networks: the import paths of networks that exported files may name.
      num_processes: how many programs of a player think at once; by default one for each core.
      has_checkpoint_flag: whether the command has `--checkpoint`, for the remedy in a message.

    Raises:
      ValueError: if a specification is invalid, a network plays a different game, or a program
        cannot be started or does not play the game.
    """
    for spec in specs:
        with _prefix_errors(spec):
            _check_variant(spec)
    remedy = ", or set --checkpoint" if has_checkpoint_flag else ""
    loaded = [_load(spec, checkpoint, game, networks, remedy) for spec in specs]
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
            builders.append(_make_builder(spec, env, trained, simulations, num_processes))
    return LoadedPlayers(env, parameters, tuple(builders), first)


def _make_builder(
    spec: PlayerSpec,
    env: Environment,
    trained: Trained | None,
    simulations: int,
    num_processes: int | None,
) -> PlayerBuilder:
    if trained is not None:
        if spec.search == POLICY:
            return _policy_builder(spec, trained)
        return _search_builder(spec, trained, simulations)
    if spec.search == OPENSPIEL:
        return _openspiel_builder(spec, env, simulations)
    if spec.search in PROTOCOLS:
        program = _build_program(spec, env, num_processes)
        assert isinstance(program.mover, HostMover)
        return PlayerBuilder(spec, None, lambda requested: program, program.mover.close)
    if spec.options or spec.simulations:
        raise UserError(f"{spec.search} has no options")
    player = random_player(spec.name) if spec.search == RANDOM else exact_player(env, spec.name)
    return PlayerBuilder(spec, None, lambda requested: player)


def _check_own_game(env: Environment) -> None:
    """Checks a game of the user that no network has been trained for."""
    for fault in find_static_faults(env) if isinstance(env, OwnGame) else ():
        raise unusable(env, "played", fault.problem)


@contextlib.contextmanager
def _prefix_errors(spec: PlayerSpec) -> Iterator[None]:
    """Prefixes error messages with the name of the player."""
    try:
        yield
    except UserError as error:
        raise UserError(f"player {spec.name!r}: {error}") from None


def _check_variant(spec: PlayerSpec) -> None:
    if spec.paper:
        paper_setting(spec.search)
    if spec.search in (*NETWORKLESS, OWN, POLICY):
        return
    try:
        build_policy({}, spec.search)
    except UserError as error:
        others = ", ".join((OWN, POLICY, *NETWORKLESS))
        raise UserError(str(error).replace("variant is", "its search is") + f", {others}") from None


def _load(
    spec: PlayerSpec,
    checkpoint: str | None,
    game: str | None,
    networks: Sequence[str],
    remedy: str,
) -> Trained | None:
    if spec.search in NETWORKLESS:
        return None
    source = spec.checkpoint or checkpoint
    if source is None:
        raise UserError(
            f"player {spec.name!r} has no checkpoint; write CHECKPOINT+{spec.search}{remedy}"
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


def _openspiel_builder(spec: PlayerSpec, env: Environment, simulations: int) -> PlayerBuilder:
    uct_c = read_options(OPENSPIEL, spec.options, _OPENSPIEL_OPTIONS, "simulations")
    if len(spec.simulations or ()) > 1:
        raise UserError("simulations must be one number, because the search has one tree")
    budget = spec.simulations or (simulations,)

    def build(requested: Simulations | None) -> Player:
        [number] = requested or budget
        return openspiel_mcts(env, number, name=spec.name, **uct_c)

    build(budget)
    return PlayerBuilder(spec, budget, build)


def _build_program(spec: PlayerSpec, env: Environment, num_processes: int | None) -> Player:
    """Builds the player of a program; in UCI, all other options are those of the program."""
    hints: dict[str, Any] = {"timeout": float}
    common: dict[str, Any] = {"num_processes": num_processes, "name": spec.name}
    if spec.search == GTP:
        return gtp_player(env, spec.command, **common, **read_options(GTP, spec.options, hints))
    hints |= dict.fromkeys(LIMITS, int)
    own = [option for option in spec.options if option[0] in hints]
    read = read_options(UCI, own, hints)
    limits = {name: read.pop(name) for name in LIMITS if name in read}
    options = dict(option for option in spec.options if option not in own)
    return uci_player(env, spec.command, limits=limits, options=options, **common, **read)


def _policy_builder(spec: PlayerSpec, trained: Trained) -> PlayerBuilder:
    if spec.simulations:
        raise UserError(f"{POLICY} does not search, so it has no simulations; leave them out")
    options = read_options(POLICY, spec.options, _POLICY_OPTIONS)
    about = identity_of(trained) | {"policy": {"head": -1, "temperature": 0.0} | options}
    player = policy_player(spec.name, trained.network, trained.params, about=about, **options)
    return PlayerBuilder(spec, None, lambda requested: player)


def _search_builder(spec: PlayerSpec, trained: Trained, simulations: int) -> PlayerBuilder:
    """Returns the builder of a search; `own` keeps the simulations of its training by default."""
    default = None if spec.search == OWN else simulations
    # The options may bring noise back.
    policy = with_texts(search_of(trained.record, spec, default).for_evaluation(), spec)
    budget, network = tree_budgets(policy), identity_of(trained)

    def build(requested: Simulations | None) -> Player:
        chosen = policy if requested in (None, budget) else with_simulations(policy, requested)
        about = network | {"search": search_record(chosen)}
        options = model_kwargs_of(trained.record)
        parts = (trained.env, trained.network, trained.params, chosen)
        return search_player(spec.name, *parts, about=about, **options)

    build(budget)
    return PlayerBuilder(spec, budget, build)
