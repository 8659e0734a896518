"""Evals measure a network: against the exact solution of its game, or in games with opponents."""

from collections.abc import Callable
from typing import Any

import chex
import jax
import numpy as np

import games
from dualmctx.checks import check
from dualmctx.evaluation.evaluations import EvaluatePositions, Evaluations, make_evaluate
from dualmctx.matches.arena import Score, make_match
from dualmctx.matches.players import MoveFn, batched_move_fn, search_move_fn
from dualmctx.training.config import EvalConfig
from dualmctx.types import Environment, GameState, Params, PolicyValueNetwork, SearchFn


def score_exactly(
    evaluations: Evaluations, optimal_actions: np.ndarray, values: np.ndarray
) -> dict[str, float]:
    """Scores the evaluations of `[S]` positions against the exact solution of a game.

    Args:
      evaluations: the evaluations; the last head is the final one.
      optimal_actions: `[S, A]` bool, the actions that preserve a position's value.
      values: `[S]` exact values in {-1, 0, 1}, for the player to move.

    Returns:
      Fractions in [0, 1]: `search_optimal` and `network_optimal` of optimal actions;
      `search_value` and `network_value` of values that round to the exact value.
    """
    row, scores = np.arange(len(values)), {}
    for source, action, value in (
        ("search", evaluations.action, evaluations.value),
        ("network", evaluations.network_action[:, -1], evaluations.network_value[:, -1]),
    ):
        scores[f"{source}_optimal"] = float(np.mean(optimal_actions[row, action]))
        # A value halfway between two results counts as wrong.
        scores[f"{source}_value"] = float(np.mean(np.abs(value - values) < 0.5))
    return scores


EvalFn = Callable[[Params, chex.PRNGKey], dict[str, float]]
"""Measures parameters: `(params, rng_key) -> metrics`; consumes the key."""


def make_exact_eval(
    evaluate: EvaluatePositions, states: GameState, solution: Any, *, max_positions: int | None
) -> EvalFn:
    """Builds an eval on the positions of a solved game.

    Args:
      evaluate: the network and a search without noise, see `make_evaluate`.
      states: `[S]` states, all positions of the game in which it is not over.
      solution: their solution, see `games.solve`.
      max_positions: the approximate number of evenly spaced positions that are added to those on
        the optimal path; `None` for all positions.

    Returns:
      An eval with the fractions of `score_exactly`: under `exact/` for all chosen positions, and
      under `path/` for those that optimal play can reach; and the number of chosen positions as
      `exact_positions`.
    """
    num_positions = len(solution.values)
    step = 1 if max_positions is None else -(-num_positions // max_positions)
    chosen = solution.on_optimal_path | (np.arange(num_positions) % step == 0)
    states = jax.tree.map(lambda x: x[chosen], states)
    optimal, values = solution.optimal_actions[chosen], solution.values[chosen]
    on_path = solution.on_optimal_path[chosen]

    def eval_fn(params: Params, rng_key: chex.PRNGKey) -> dict[str, float]:
        results = evaluate(params, rng_key, states)
        metrics: dict[str, float] = {"exact_positions": len(values)}
        for scope, rows in (("exact", slice(None)), ("path", on_path)):
            some = Evaluations(*(x[rows] for x in results))
            scores = score_exactly(some, optimal[rows], values[rows])
            metrics |= {f"{scope}/{name}": share for name, share in scores.items()}
        return metrics

    return eval_fn


def make_match_eval(
    env: Environment, search_fn: SearchFn, opponent: MoveFn, name: str, *, num_games: int
) -> EvalFn:
    """Builds an eval that plays games against an opponent and moves first in half of them.

    Args:
      env: the game.
      search_fn: a search without noise.
      opponent: the opponent.
      name: the opponent's name, for the metrics.
      num_games: the number of games; even.

    Returns:
      An eval with the numbers of games won, drawn and lost, as `NAME/first_wins`,
      `NAME/second_wins` and so on, and the fraction of games won as `NAME/win_share`.
    """
    match = jax.jit(make_match(env, (search_move_fn(search_fn), opponent), num_games))

    def eval_fn(params: Params, rng_key: chex.PRNGKey) -> dict[str, float]:
        score: Score = jax.device_get(match(params, rng_key))
        metrics: dict[str, float] = {
            f"{name}/{side}_{result}": int(getattr(score, result)[i])
            for i, side in enumerate(("first", "second"))
            for result in Score._fields
        }
        return metrics | {f"{name}/win_share": float(np.sum(score.wins) / num_games)}

    return eval_fn


def make_evals(
    env: Environment, network: PolicyValueNetwork, search_fn: Any, options: EvalConfig
) -> tuple:
    """Builds the evals of a game: against its exact solution if it has one, else random play.

    Returns:
      The evals during training, the final evals, and the numbers of positions they cover.

    Raises:
      ValueError: if an option does not fit the game.
    """

    def match(player: Any, name: str) -> EvalFn:
        return make_match_eval(
            env, search_fn, batched_move_fn(player), name, num_games=options.num_games
        )

    against_random = match(games.random_player(), "random")
    if not games.is_solvable(env):
        number, remedy = options.stop_when_solved, "0 for a game without an exact solution"
        check(number == 0, "evals.stop_when_solved", number, remedy)
        return (against_random,), (against_random,), {}
    solution = games.solve(env)
    states = games.replay(env, solution.histories, key=jax.random.PRNGKey(0))
    batch_size = min(options.batch_size, len(solution.values))
    evaluate = make_evaluate(network, search_fn, batch_size)
    sampled_eval = make_exact_eval(evaluate, states, solution, max_positions=options.max_positions)
    full_eval = make_exact_eval(evaluate, states, solution, max_positions=None)
    against_perfect = match(games.perfect_player(env), "perfect")
    counts = {
        "exact_positions": len(solution.values),
        "path_positions": int(solution.on_optimal_path.sum()),
    }
    return (sampled_eval,), (full_eval, against_perfect), counts


def eval_key(seed: int, iteration: int) -> chex.PRNGKey:
    """Returns the key of the evals after an iteration; 0 for the final evals."""
    # Training splits the key of the seed, which folds small numbers into it.
    root_key = jax.random.fold_in(jax.random.PRNGKey(seed), 2**32 - 1)
    return jax.random.fold_in(root_key, iteration)


def run_evals(evals: tuple[EvalFn, ...], params: Params, rng_key: chex.PRNGKey) -> dict:
    """Runs all evals, each with its own key; returns their metrics in one dictionary."""
    metrics: dict[str, float] = {}
    for i, eval_fn in enumerate(evals):
        metrics |= eval_fn(params, jax.random.fold_in(rng_key, i))
    return metrics


def is_solved(metrics: dict[str, float]) -> bool:
    """Returns whether network and search are optimal wherever optimal play can lead."""
    names = ("path/search_optimal", "path/network_optimal")
    return all(metrics.get(name) == 1.0 for name in names)
