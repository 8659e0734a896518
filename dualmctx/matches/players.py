"""Players of tournaments: networks with or without a search, perfect and random play, other bots.

OpenSpiel's MCTS and bitbully run on the host.
"""

import dataclasses
import functools
import math
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax.numpy as jnp

import games
from dualmctx.checks import check
from dualmctx.errors import UserError
from dualmctx.import_path import import_installed
from dualmctx.matches.movers import (
    MoveFn,
    Mover,
    batched_move_fn,
    search_move_fn,
    tree_reusing_mover,
)
from dualmctx.models.game_model import mask_illegal
from dualmctx.models.search_fn import make_search_fn
from dualmctx.policies.costs import FREE, MoveCost, move_cost
from dualmctx.policies.root import legal_probabilities, sample_action
from dualmctx.types import Environment, Failure, GameState, Params, Policy, PolicyValueNetwork
from games.exact import load_bitbully

# Games whose actions have the same numbers in OpenSpiel; see `tests/games/test_games_openspiel.py`.
_OPENSPIEL_GAMES = ("connect_four", "othello", "tic_tac_toe")
# Memory limit of the bot's tree in MiB; exploration constant of OpenSpiel's AlphaZero evaluation.
_MEMORY, _UCT_C = 1000, 2.0


ChooseFn = Callable[[list[list[Any]], list[int]], list[int | Failure]]
"""`(histories, seeds) -> actions`: takes, for each game, the actions so far and a seed in
[0, 2**31). It may give a failure in place of an action, which ends that game."""


class HostMover(NamedTuple):
    """Chooses the moves of a player on the host.

    Attributes:
      choose: chooses the actions, which may depend on nothing but the arguments.
      begin: called before each batch of games.
      close: called after the last game; ends the programs of the player.
      takes_fen: whether games may begin with a FEN, which is then the first entry of a history.
    """

    choose: ChooseFn
    begin: Callable[[], None] = lambda: None
    close: Callable[[], None] = lambda: None
    takes_fen: bool = False


@dataclasses.dataclass(frozen=True, eq=False)
class Player:
    """A named player.

    Attributes:
      name: name of the player in results.
      mover: chooses the moves. Players with the same mover share compiled programs.
      params: parameters that are passed to `mover`.
      cost: cost of a move; `None` if it is not known.
      about: additional description, as JSON values.
    """

    name: str
    mover: MoveFn | Mover | HostMover
    params: Params = None
    cost: MoveCost | None = None
    about: dict[str, Any] = dataclasses.field(default_factory=dict)


def search_player(
    name: str,
    env: Environment,
    network: PolicyValueNetwork,
    params: Params,
    policy: Policy,
    *,
    about: dict[str, Any] | None = None,
    **options: Any,
) -> Player:
    """Builds a player from a network and a search.

    The policy is used as given: `for_evaluation()` plays the best move, other policies may sample
    their moves. With `reuse_capacity` the player reuses the tree of its previous move. Players with
    the same environment, equal networks and equal policies share compiled programs.

    Args:
      name: name of the player.
      env: a game of `games.make`.
      network: a `dualmctx.models.network.Network`.
      params: parameters of the network.
      policy: a search variant.
      about: additional description, as JSON values.
      **options: options of `make_model`.
    """
    mover = _search_mover(env, network, policy, tuple(sorted(options.items())))
    keep = options.get("keep_activations", True)
    cost = move_cost(policy, network, keep_activations=keep)
    return Player(name, mover, params, cost, about or {})


@functools.lru_cache(maxsize=256)
def _search_mover(
    env: Environment, network: PolicyValueNetwork, policy: Policy, options: tuple
) -> MoveFn | Mover:
    search_fn = make_search_fn(env, network, policy, **dict(options))
    reuse_capacity = policy.traits.reuse_capacity
    return (
        tree_reusing_mover(search_fn, reuse_capacity=reuse_capacity)
        if reuse_capacity
        else search_move_fn(search_fn)
    )


def policy_player(
    name: str,
    network: PolicyValueNetwork,
    params: Params,
    *,
    head: int = -1,
    temperature: float = 0.0,
    about: dict[str, Any] | None = None,
) -> Player:
    """Builds a player that follows the policy of a network, without a search.

    Its cost is one evaluation of the network and no simulations. Equal networks share compiled
    programs.

    Args:
      name: name of the player.
      network: a `dualmctx.models.network.Network`.
      params: parameters of the network.
      head: index of the head whose policy plays, from 0; -1 is the last one.
      temperature: 0 plays the most probable legal move; otherwise a move is sampled from
        probabilities^(1 / temperature) over the legal moves.
      about: additional description, as JSON values.

    Raises:
      ValueError: if the network has no such head, or the temperature is negative or not finite.
    """
    number = len(network.head_depths)
    check(-number <= head < number, "head", head, f"from {-number} to {number - 1}")
    check(0 <= temperature < math.inf, "temperature", temperature, "finite and at least 0")
    mover = _policy_move_fn(network, head % number, temperature)
    return Player(name, mover, params, MoveCost(0, 1, network.head_depths[head]), about or {})


@functools.lru_cache(maxsize=256)
def _policy_move_fn(network: PolicyValueNetwork, head: int, temperature: float) -> MoveFn:
    def logits_fn(params: Params, observation: chex.Array) -> chex.Array:
        return network.apply(params, observation, head, method="begin")[1].logits

    return policy_move_fn(logits_fn, temperature)


def policy_move_fn(
    logits_fn: Callable[[Params, chex.Array], chex.Array], temperature: float
) -> MoveFn:
    """Returns a function that plays moves of a policy.

    Args:
      logits_fn: `(params, observation) -> logits`, `[B, A]` without a mask.
      temperature: 0 for the most probable legal move, ties going to the lowest action; otherwise a
        move is sampled from probabilities^(1 / temperature).
    """

    def choose(params: Params, rng_key: chex.PRNGKey, state: GameState) -> chex.Array:
        logits = logits_fn(params, state.observation)
        probabilities = legal_probabilities(mask_illegal(logits, state.legal_action_mask))
        action = sample_action(rng_key, probabilities, temperature)
        return jnp.where(jnp.isfinite(logits).all(axis=-1), action, -1)

    return choose


def perfect_player(env: Environment, name: str = "perfect") -> Player:
    """Builds the perfect player of a small game; see `games.perfect_player`.

    Raises:
      ValueError: if the game cannot be solved.
    """
    return Player(name, _perfect_move_fn(env), cost=FREE, about={"player": "perfect"})


def random_player(name: str = "random") -> Player:
    """Builds a player that samples uniformly from the legal actions."""
    return Player(name, _random_move_fn(), cost=FREE, about={"player": "uniformly random"})


# Cached, so that players share compiled programs.
@functools.lru_cache(maxsize=16)
def _perfect_move_fn(env: Environment) -> MoveFn:
    return batched_move_fn(games.perfect_player(env))


@functools.cache
def _random_move_fn() -> MoveFn:
    return batched_move_fn(games.random_player())


def openspiel_mcts(
    env: Environment, num_simulations: int, *, uct_c: float = _UCT_C, name: str | None = None
) -> Player:
    """Builds OpenSpiel's MCTS bot: UCT with random rollouts and the solver enabled.

    Args:
      env: a game of `games.make` whose actions have the same numbers in OpenSpiel.
      num_simulations: simulations per move, at least 1; each move starts a new tree.
      uct_c: exploration constant.
      name: name of the player; by default `mcts-` and the number of simulations.

    A move depends only on the position and its seed.

    Raises:
      ValueError: if the game is not supported, the number of simulations is less than 1, or
        OpenSpiel is not installed.
    """
    if env.id not in _OPENSPIEL_GAMES:
        supported = ", ".join(_OPENSPIEL_GAMES)
        raise UserError(f"OpenSpiel's MCTS supports {supported}, not {env.id}")
    check(num_simulations >= 1, "num_simulations", num_simulations, "at least 1")
    try:
        pyspiel = import_installed("pyspiel")
    except ImportError as error:
        remedy = 'pip install "dualmctx[compare]"'
        raise UserError(f"OpenSpiel's MCTS needs pyspiel: {remedy} ({error})") from error
    game = pyspiel.load_game(env.id)
    solve, is_verbose = True, False

    def choose_one(history: list[int], seed: int) -> int:
        state = game.new_initial_state()
        for action in history:
            state.apply_action(action)
        evaluator = pyspiel.RandomRolloutEvaluator(1, seed)
        options = (num_simulations, _MEMORY, solve, seed, is_verbose)
        return pyspiel.MCTSBot(game, evaluator, uct_c, *options).step(state)

    about = {"player": "OpenSpiel's MCTS", "simulations": num_simulations, "uct_c": uct_c}
    cost = MoveCost(num_simulations, 0, 0)
    mover = host_mover(choose_one)
    return Player(name or f"mcts-{num_simulations}", mover, cost=cost, about=about)


def perfect_connect_four(env: Environment, name: str = "perfect") -> Player:
    """Builds bitbully's perfect player of Connect Four, which wins fast and loses slowly.

    It samples uniformly from equally good moves. bitbully is licensed under the AGPL. It is not a
    dependency of dualmctx and must be installed separately.

    Raises:
      ValueError: if the game is not Connect Four, or bitbully or its opening book is not installed.
    """
    if env.id != "connect_four":
        raise UserError(f"bitbully supports connect_four, not {env.id}")
    bitbully, solver = load_bitbully()

    def choose_one(history: list[int], seed: int) -> int:
        scores = solver.score_all_moves(bitbully.Board(history))
        best = max(scores.values())
        moves = sorted(move for move, score in scores.items() if score == best)
        return random.Random(seed).choice(moves)

    return Player(name, host_mover(choose_one), cost=FREE, about={"player": "bitbully"})


def host_mover(choose_one: Callable[[list[Any], int], int | Failure]) -> HostMover:
    """Returns a host mover that calls `(history, seed) -> action` for each game."""
    return HostMover(lambda histories, seeds: [*map(choose_one, histories, seeds)])
