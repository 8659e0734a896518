"""Players of other libraries, on the host: OpenSpiel's MCTS, bitbully's perfect player."""

import importlib
import random
from typing import Any

from dualmctx.matches.costs import FREE, MoveCost
from dualmctx.matches.players import Entrant, Host
from dualmctx.types import Environment

# Games whose actions have the same numbers there; `tests/games/test_games_openspiel.py` plays them.
_OPENSPIEL_GAMES = ("connect_four", "othello", "tic_tac_toe")
# For the bot's tree, in MiB; OpenSpiel's choice for AlphaZero's opponents is c = 2.
_MEMORY, _UCT_C = 1000, 2.0


def openspiel_mcts(
    env: Environment, num_simulations: int, *, uct_c: float = _UCT_C, name: str | None = None
) -> Entrant:
    """Makes OpenSpiel's MCTS bot: UCT with a random rollout for each leaf, solving what it can.

    Args:
      env: a game as `games.make` gives it, whose actions are numbered as in OpenSpiel.
      num_simulations: a move, at least 1; each move starts a new tree.
      uct_c: weight of exploration.
      name: of the entrant.

    Returns:
      The entrant; a move depends on the position and its seed alone.

    Raises:
      ValueError: when the game's actions differ, the number is bad or OpenSpiel is not installed,
        in one line.
    """
    if env.id not in _OPENSPIEL_GAMES:
        raise ValueError(f"OpenSpiel's MCTS plays {', '.join(_OPENSPIEL_GAMES)} here, not {env.id}")
    if num_simulations < 1:
        raise ValueError(f"num_simulations is {num_simulations}; it must be at least 1")
    pyspiel = _load("pyspiel", "OpenSpiel's MCTS", 'pip install "dualmctx[compare]"')
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
    return Entrant(name or f"mcts-{num_simulations}", each(choose_one), cost=cost, about=about)


def perfect_connect_four(env: Environment, name: str = "perfect") -> Entrant:
    """Makes bitbully's perfect player of Connect Four: the fastest win, the slowest loss.

    bitbully is licensed under the AGPL, so dualmctx neither brings nor needs it: whoever has
    installed it can play against it.

    Args:
      env: Connect Four.
      name: of the entrant.

    Returns:
      The entrant; of moves that are as good it draws one.

    Raises:
      ValueError: when it is another game, or bitbully or its book of openings is not installed, in
        one line.
    """
    if env.id != "connect_four":
        raise ValueError(f"bitbully plays connect_four, not {env.id}")
    remedy = "pip install bitbully bitbully-databases (AGPL)"
    bitbully = _load("bitbully", "the perfect player of Connect Four", remedy)
    _load("bitbully_databases", "the perfect player of Connect Four", remedy)
    solver = bitbully.BitBully(opening_book="12-ply-dist")

    def choose_one(history: list[int], seed: int) -> int:
        scores = solver.score_all_moves(bitbully.Board(history))
        best = max(scores.values())
        moves = sorted(move for move, score in scores.items() if score == best)
        return random.Random(seed).choice(moves)

    return Entrant(name, each(choose_one), cost=FREE, about={"player": "bitbully"})


def each(choose_one: Any) -> Host:
    """Makes a host player of `(history, seed) -> action`."""
    return Host(lambda histories, seeds: [*map(choose_one, histories, seeds)])


def _load(module: str, what: str, remedy: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ValueError(f"{what} needs {module}: {remedy} ({error})") from error
