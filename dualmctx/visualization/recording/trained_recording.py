"""Recordings of searches by a trained network, in a position that moves lead to."""

from typing import Any

import games
from dualmctx.runs.saved_network import Trained, model_kwargs_of
from dualmctx.runs.saved_policy import build_policy
from dualmctx.types import Policy
from dualmctx.visualization.recording.recording import Progress, Subject, record_search


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
    opened = games.open_position(env, moves, fen)
    subject = Subject(
        game=record.get("game"),
        game_parameters=record.get("game_parameters"),
        moves=games.format_moves(env, opened.start, opened.actions),
        fen=fen,
        network=name,
        side=opened.side,
        before=opened.before if opened.actions else None,
    )
    return record_search(
        env,
        trained.network,
        trained.params,
        policy,
        opened.state,
        seed=seed,
        compare=compare,
        progress=progress,
        subject=subject,
        **model_kwargs_of(record),
    )
