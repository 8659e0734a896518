"""Players of other libraries, which run on the host: OpenSpiel's MCTS and bitbully."""

import random
from collections.abc import Callable

from dualmctx.checks import check
from dualmctx.errors import UserError
from dualmctx.import_path import import_installed
from dualmctx.matches.players import HostMover, Player
from dualmctx.policies.costs import FREE, MoveCost
from dualmctx.types import Environment
from games.exact import load_bitbully

# Games whose actions have the same numbers in OpenSpiel; see `tests/games/test_games_openspiel.py`.
_OPENSPIEL_GAMES = ("connect_four", "othello", "tic_tac_toe")
# Memory limit of the bot's tree in MiB; exploration constant of OpenSpiel's AlphaZero evaluation.
_MEMORY, _UCT_C = 1000, 2.0


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


def host_mover(choose_one: Callable[[list[int], int], int]) -> HostMover:
    """Returns a host mover that calls `(history, seed) -> action` for each game."""
    return HostMover(lambda histories, seeds: [*map(choose_one, histories, seeds)])
