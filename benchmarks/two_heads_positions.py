"""The labelled positions of `benchmarks.two_heads_networks`: exact values, or those of a search.

Connect Four has a perfect player, and a small game its solution. The positions of a large game are
labelled by the network that is measured: AlphaZero by its final head searches the position after
each legal move, and the sign of the search's value is the label. All moves of a position share the
cost equally, so the labels of bad moves are as good as those of good ones. Such labels share the
errors of the final head, so they favour it. They have no draws: the value of a search is hardly
ever 0, so the label of a drawn move is that of either side.
"""

import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import games
from benchmarks.connect_four import (
    Positions,
    game_positions,
    labelled,
    make_solver,
    random_positions,
)
from dualmctx import AlphaZero, make_search_fn
from dualmctx.evaluation.evaluations import make_evaluate
from dualmctx.matches.openings import position_digests, random_openings, to_action_rows
from dualmctx.models.game_model import is_over, mask_illegal
from dualmctx.runs.journal import read_rows, reopen_journal
from dualmctx.runs.progress import ShowFn
from dualmctx.runs.saved_network import Trained
from dualmctx.search.arrays import tree_where
from games.histories import pad_histories

# Positions of a part of the labels, states of a search, games at once, and their longest length.
PART, BATCH_SIZE, GAMES, MAX_PLIES = 50, 256, 256, 128
FEWEST_PLIES = 8


class Data(NamedTuple):
    """Labelled positions: to learn from, and to test with."""

    learned: Positions
    tested: Positions


def make_data(
    folder: pathlib.Path, trained: Trained, learned: int, tested: int, plies: tuple[int, int]
) -> Data:
    """Makes or reads positions with exact labels; no tested position is learned.

    Args:
      folder: where positions are kept.
      trained: the packaged network and its game.
      learned: positions to learn from. A small game has half of its positions for this.
      tested: positions of each kind, after random play and from games. A small game has no kinds.
      plies: see `unlabelled`.

    Returns:
      The positions. Those of a game without exact values are not labelled: all values are NaN.
    """
    env = trained.env
    if games.is_solvable(env):
        return solved_data(env, learned, 2 * tested)
    if env.id != "connect_four":
        histories = unlabelled(trained, tested, plies)
        nothing = np.full((len(histories), env.num_actions), np.nan)
        return _only_tested(Positions(histories, nothing))

    def read(name: str, make: Any, number: int, seed: int) -> Positions:
        return labelled(folder / f"{name}.csv", lambda: make(make_solver(), number, seed))

    kinds = [
        read(name, make, tested, 12)
        for name, make in (("random", random_positions), ("games", game_positions))
    ]
    found = Positions(*(np.concatenate(x) for x in zip(*kinds, strict=True)))
    if not learned:
        return _only_tested(found)
    known = read("learned", random_positions, learned, 11)
    boards = [position_digests(games.replay(env, x.histories)) for x in (known, found)]
    is_new = np.array([board not in set(boards[1]) for board in boards[0]])
    return Data(Positions(*(x[is_new] for x in known)), found)


def _only_tested(found: Positions) -> Data:
    return Data(Positions(*(x[:0] for x in found)), found)


def solved_data(env: Any, learned: int, tested: int) -> Data:
    """Divides the positions of a solved game at random, with their exact labels."""
    solution = games.solve(env)
    order = np.random.default_rng(0).permutation(len(solution.values))
    half = len(order) // 2
    values = solution.code_action_values[solution.codes].astype(np.float64)
    values[~solution.legal_actions] = np.nan
    found = Positions(solution.histories, values)
    learned_rows, tested_rows = order[:half][:learned], order[half:][:tested]
    return Data(*(Positions(*(x[rows] for x in found)) for rows in (learned_rows, tested_rows)))


def unlabelled(trained: Trained, number: int, plies: tuple[int, int]) -> np.ndarray:
    """Makes `number` positions of each kind, after random play and from the network's games.

    Args:
      trained: the network and its game.
      number: positions of each kind.
      plies: the least and the largest number of random moves.

    Returns:
      `[2 number, D]` int32 histories.
    """
    openings = random_openings(trained.env, number, plies=range(plies[0], plies[1] + 1), seed=12)
    return to_action_rows([*openings, *network_positions(trained, number, seed=13)])


def network_positions(trained: Trained, number: int, seed: int) -> list[tuple[int, ...]]:
    """Makes distinct positions from games of the network, one of each game.

    Both players sample their moves from the policy of the final head.
    """
    env, network = trained.env, trained.network

    def move(params: Any, state: Any, key: Any) -> tuple[Any, Any]:
        logits = mask_illegal(
            network.apply(params, state.observation)[-1].logits, state.legal_action_mask
        )
        action, goes_on = jax.random.categorical(key, logits), ~is_over(state)
        after = tree_where(goes_on, jax.vmap(env.step)(state, action), state)
        return after, jnp.where(goes_on, action, -1)

    @jax.jit
    def play(params: Any, key: Any) -> Any:
        start = jax.vmap(env.init)(jax.random.split(key, GAMES))
        keys = jax.random.split(key, MAX_PLIES)
        return jax.lax.scan(lambda state, x: move(params, state, x), start, keys)[1].T

    rng, found = np.random.default_rng(seed), dict[bytes, tuple[int, ...]]()
    while len(found) < number:
        actions = np.asarray(play(trained.params, jax.random.PRNGKey(rng.integers(2**31))))
        lengths = (actions >= 0).sum(axis=1)
        ends = rng.integers(np.minimum(FEWEST_PLIES, lengths - 1), lengths)
        histories = [tuple(x[:end].tolist()) for x, end in zip(actions, ends, strict=True)]
        boards = position_digests(games.replay(env, pad_histories(histories)))
        found.update(zip(boards, histories, strict=True))
    return list(found.values())[:number]


def search_labels(
    trained: Trained, histories: np.ndarray, cost: int, file: pathlib.Path, show: ShowFn
) -> Positions:
    """Labels positions by searches of the positions after their moves.

    Args:
      trained: the network, of which the final head is used, and its game.
      histories: `[S, D]` int32 moves that lead to the positions.
      cost: evaluations for a position, as a mean; each move has the same number.
      file: keeps the labels of complete parts; the same call continues after a stop.
      show: shows the progress.

    Returns:
      The positions. The value of a move is the sign of the search's value, or the result if the
      move ends the game.
    """
    states = jax.device_get(games.replay(trained.env, histories))
    legal = states.legal_action_mask
    search = make_child_search(trained, max(1, round(cost * len(legal) / legal.sum())))
    journal, rows = reopen_journal(file), read_rows(file)
    for begin in range(len(rows), len(legal), PART):
        part = jax.tree.map(lambda x, i=begin: x[i : i + PART], states)
        # The journal has no NaN: an illegal move has no value.
        found = np.where(part.legal_action_mask, np.sign(search(part)), np.nan)
        lines = [[None if np.isnan(x) else int(x) for x in row] for row in found]
        journal.append({"move_values": line} for line in lines)
        show("labels", min(begin + PART, len(legal)), len(legal))
    values = [row["move_values"] for row in read_rows(file)]
    return Positions(histories, np.array(values, np.float64))


def make_child_search(trained: Trained, num_simulations: int) -> Callable[[Any], np.ndarray]:
    """Returns a function that searches the positions after all moves.

    Returns:
      `states -> [S, A]` values for the player who moves; 0 for illegal moves.
    """
    env, network = trained.env, trained.network
    policy = AlphaZero(num_simulations).for_evaluation()
    evaluate = make_evaluate(network, make_search_fn(env, network, policy), BATCH_SIZE)
    play = jax.jit(jax.vmap(jax.vmap(env.step, (None, 0)), (0, None)))

    def search(states: Any) -> np.ndarray:
        legal = np.asarray(states.legal_action_mask)
        children = jax.device_get(play(states, jnp.arange(legal.shape[1])))
        children = jax.tree.map(lambda x: x[legal], children)
        found = evaluate(trained.params, jax.random.PRNGKey(0), children).value
        mover = np.broadcast_to(np.asarray(states.current_player)[:, None], legal.shape)[legal]
        values = np.zeros(legal.shape)
        values[legal] = np.where(children.current_player == mover, found, -found)
        return values

    return search


def agreement(exact: Positions, found: Positions) -> dict[str, float]:
    """Returns the shares of moves and of positions whose labels agree with the exact ones."""
    same = (exact.move_values == found.move_values)[exact.legal]
    return {
        "moves": round(float(np.mean(same)), 4),
        "positions": round(float(np.mean(exact.values == found.values)), 4),
    }
