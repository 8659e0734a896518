"""Recordings of searches by a trained network, in a position that moves lead to."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import games
from dualmctx.runs.saved_network import Trained, model_kwargs_of
from dualmctx.runs.saved_policy import build_policy
from dualmctx.types import Environment, Policy
from dualmctx.visualization.recording.recording import Progress, Subject, record_search
from games.histories import replay_checked


def record_trained(
    trained: Trained,
    moves: Any = (),
    *,
    fen: str | None = None,
    policy: Policy | None = None,
    variant: str | None = None,
    simulations: int | tuple[int, ...] | None = None,
    noise: bool = False,
    seed: int = 0,
    compare: bool = False,
    progress: Progress | None = None,
    name: str | None = None,
) -> dict[str, Any]:
    """Records a search by a trained network.

    Args:
      trained: the network with its game.
      moves: moves to the position, as in `games.parse_moves`.
      fen: the FEN from which the moves start; `None` for the initial position.
      policy: the search; `None` for one built from the next two arguments.
      variant: as in `runs.saved_policy.build_policy`; by default the search of the training.
      simulations: likewise; by default those of the search.
      noise: whether the root has noise and the action is sampled, as in self-play.
      seed: the seed of the search's key.
      compare: whether to add the recording of AlphaZero at the same cost.
      progress: called after each step with the simulations so far and their total.
      name: the name of the network in the recording.

    Returns:
      The recording, see docs/recordings.md.

    Raises:
      ValueError: if an argument is invalid, a move is illegal, or the game is over.
    """
    if policy is None:
        policy = build_policy(trained.record, variant, simulations)
    if not noise:
        policy = policy.for_evaluation()
    env, record = trained.env, trained.record
    start = None if fen is None else games.read_fen(env, fen)
    actions = games.parse_moves(env, moves, start)
    first, before, state = _play(env, start, actions)
    subject = Subject(
        game=record.get("game"),
        game_parameters=record.get("game_parameters"),
        moves=games.format_moves(env, start, actions),
        fen=fen,
        network=name,
        side=int(state.current_player != first),
        before=before if actions else None,
    )
    return record_search(
        env,
        trained.network,
        trained.params,
        policy,
        state,
        seed=seed,
        compare=compare,
        progress=progress,
        subject=subject,
        **model_kwargs_of(record),
    )


def _play(env: Environment, start: Any, actions: list[int]) -> tuple[int, Any, Any]:
    """Returns the player who begins the game, and the states before the last move and after it.

    Raises:
      ValueError: if a move is illegal.
    """
    # Each row of a batch has its own first player, so both histories start from one state.
    if start is None:
        initial = games.replay(env, np.full((1, 1), -1, np.int32))
    else:
        initial = games.set_up(env, [start])
    starts = jax.tree.map(lambda x: jnp.repeat(x[:1], 2, axis=0), initial)
    histories = np.full((2, max(1, len(actions))), -1, np.int32)
    histories[0, : max(0, len(actions) - 1)] = actions[:-1]
    histories[1, : len(actions)] = actions
    states, first_bad = jax.device_get(replay_checked(env, histories, starts))
    if first_bad[1] >= 0:
        number = int(first_bad[1])
        name = games.format_moves(env, start, actions[: number + 1])[number]
        raise ValueError(f"move {number + 1}, {name!r}, is illegal in this position")
    # In the positions of a FEN, player 0 begins the game.
    first = int(initial.current_player[0]) if start is None else 0
    before, state = (jax.tree.map(lambda x, i=i: x[i], states) for i in (0, 1))
    return first, before, state
