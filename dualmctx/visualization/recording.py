"""Recordings of searches: one search, step by step, as JSON. docs/recordings.md has the format."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

import games
from dualmctx.errors import UserError
from dualmctx.models.costs import move_cost, scale_to_cost
from dualmctx.pages import SHARED_STYLE
from dualmctx.policies import AlphaZero, Puct, Root
from dualmctx.reports.page import Viewer, render_page
from dualmctx.runs.saved_network import Trained, model_kwargs_of
from dualmctx.runs.saved_policy import build_policy
from dualmctx.types import Environment, HasHeads, Params, Policy, PolicyValueNetwork, tree_budgets
from dualmctx.visualization.programs import Programs
from dualmctx.visualization.recorded_search import Subject as Subject
from dualmctx.visualization.recorded_search import run_recorded

_VIEWER = Path(__file__).parent / "static"
MAX_SIMULATIONS = 2000
"""The largest number of simulations, of all trees together, of a recorded search."""
Progress = Callable[[int, int], None]
"""Called with the recorded simulations and their total; may raise an exception to stop."""


def record_search(
    env: Environment,
    network: PolicyValueNetwork,
    params: Params,
    policy: Policy,
    state: Any,
    *,
    seed: int = 0,
    rng_key: Any = None,
    compare: bool = False,
    progress: Progress | None = None,
    subject: Subject | None = None,
    **model_kwargs: Any,
) -> dict[str, Any]:
    """Records a search from one position.

    The search equals that of `make_search_fn` with the same arguments and key: bit for bit on CPUs
    with XLA's default options; elsewhere, means may differ in their last bits.

    Args:
      env: the game.
      network: the network.
      params: its parameters.
      policy: a search variant.
      state: an unbatched state in which the game is not over.
      seed: the seed of the search's key.
      rng_key: the key itself, in place of a seed.
      compare: whether to add, as `comparison`, the recording of AlphaZero at the same cost.
      progress: called after each step; the simulations of the comparison count as well.
      subject: texts about the position; `None` for none.
      **model_kwargs: options of `make_search_fn`.

    Returns:
      The recording, see docs/recordings.md.

    Raises:
      ValueError: if the game is over, if the search or the comparison has more than
        `MAX_SIMULATIONS`, or if the policy cannot be recorded.
    """
    key = jax.random.PRNGKey(seed) if rng_key is None else rng_key
    subject = Subject() if subject is None else subject
    searches = recorded_searches(policy, network, compare=compare, **model_kwargs)
    for name, each in searches.items():
        _check(each, name, state)
    done, total = 0, sum(sum(tree_budgets(each)) for each in searches.values())
    recordings: list[dict[str, Any]] = []
    for each in searches.values():

        def count(number: int, before: int = done) -> None:
            if progress is not None:
                progress(before + number, total)

        programs = _programs(env, network, each, tuple(sorted(model_kwargs.items())))
        recording = run_recorded(programs, params, key, state, subject, count)
        recordings.append(recording | {"seed": seed if rng_key is None else None})
        done += sum(tree_budgets(each))
    return recordings[0] | {"comparison": recordings[1] if len(recordings) > 1 else None}


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


def _check(policy: Policy, name: str, state: Any) -> None:
    """Checks that a search, which messages call by `name`, can be recorded."""
    total = sum(tree_budgets(policy))
    if total > MAX_SIMULATIONS:
        raise UserError(
            f"{name} has {total:,} simulations; a recording has at most {MAX_SIMULATIONS:,}:"
            " choose fewer simulations"
        )
    capacity = policy.traits.reuse_capacity
    if capacity > MAX_SIMULATIONS:
        raise UserError(
            f"reuse_capacity is {capacity:,}; in a recording it must be at most "
            f"{MAX_SIMULATIONS:,}, and it has no effect there"
        )
    if np.ndim(state.terminated):
        shape = np.shape(state.terminated)
        raise UserError(f"the state has a batch axis of shape {shape}; pass a single state")
    if state.terminated or state.truncated:
        raise UserError("the game is over in this position; record an earlier one")


@functools.lru_cache(maxsize=8)
def _programs(
    env: Environment, network: PolicyValueNetwork, policy: Policy, model_kwargs: Any
) -> Programs:
    """Returns the compiled parts of a search; the last ones stay in memory."""
    return Programs(env, network, policy, **dict(model_kwargs))


def recorded_searches(
    policy: Policy, network: HasHeads, *, compare: bool, **model_kwargs: Any
) -> dict[str, Policy]:
    """Returns the searches that a recording holds, by their names in messages."""
    rival = alphazero_of_equal_cost(policy, network, **model_kwargs) if compare else None
    others = {} if rival is None else {"the comparison with AlphaZero": rival}
    return {"the search": policy} | others


def alphazero_of_equal_cost(
    policy: Policy, network: HasHeads, *, keep_activations: bool = True, **model_kwargs: Any
) -> AlphaZero | None:
    """Returns AlphaZero with the number of simulations whose cost is closest to that of a policy.

    It has the policy's constant of exploration and options of the root, and the default of all
    other options.

    Args:
      policy: a search.
      network: the network of both.
      keep_activations: see `make_model`.
      **model_kwargs: other options of `make_model`; ignored.

    Returns:
      The search; `None` if the policy is AlphaZero itself, or if its cost is not known because of
      rollouts without a fixed length.
    """
    del model_kwargs
    blocks = move_cost(policy, network, keep_activations=keep_activations).blocks
    if type(policy) is AlphaZero or blocks is None:
        return None
    given = getattr(policy, "puct", None)
    puct = Puct(c_puct=given.c_puct) if isinstance(given, Puct) else Puct()
    root = getattr(policy, "root", None)
    root = root if isinstance(root, Root) else Root().for_evaluation()

    def with_budget(simulations: tuple[int, ...]) -> AlphaZero:
        return AlphaZero(simulations[0], puct=puct, root=root)

    def cost_of(simulations: tuple[int, ...]) -> float:
        return move_cost(with_budget(simulations), network).blocks or 0

    return with_budget(scale_to_cost((1,), cost_of, blocks))


def recording_page(recording: Mapping[str, Any] | None, title: str = "Recorded search") -> str:
    """Returns a page that shows a recording; it needs no server and no network.

    Args:
      recording: as in the message `recording` of the web application. None leaves its place empty:
        the element of the id `recording` then contains the JSON value null, which the Trees view
        replaces.
      title: the title of the page.

    Returns:
      HTML. Numbers that are NaN or infinite are null in its JSON.
    """
    viewer = Viewer(_VIEWER / "viewer.js", recording, "recording")
    return render_page(title, [SHARED_STYLE, _VIEWER / "viewer.css"], viewer)
