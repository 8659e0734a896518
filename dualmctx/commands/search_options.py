"""What is asked of a network and a search: the flags, and the evaluator made from them."""

import dataclasses
from typing import Any, NamedTuple

from dualmctx.evaluation.evaluator import Evaluator
from dualmctx.evaluation.factory import build_evaluator
from dualmctx.runs.folder import to_dict
from dualmctx.runs.saved_network import Trained, digest_of, load_trained
from dualmctx.runs.saved_policy import build_policy


@dataclasses.dataclass(frozen=True)
class Searching:
    """A search, the seed and the devices."""

    variant: str | None = None
    """The search: dual, chain, mpv, alphazero, gumbel, muzero, alphago or contempt, with its
    defaults. By default the search that the network was trained with, without its noise."""
    simulations: tuple[int, ...] | None = None
    """Simulations a position: one number, which several trees share in proportion, or one for each
    tree, as 50 35 for dual."""
    network_only: bool = False
    """Ask the network alone, without a search."""
    iteration: int | None = None
    """Of the run's checkpoint; by default the newest one's."""
    game: str | None = None
    """The game that the network must be of; another one is refused."""
    seed: int = 0
    """Of all draws. A position's answer depends on the seed and its id."""
    devices: int | None = None
    """Devices that share a batch; by default all of this process."""


class Searcher(NamedTuple):
    """A network with a search.

    Attributes:
      evaluator: of both.
      record: what decides about its answers, as JSON can hold it.
    """

    evaluator: Evaluator
    record: dict[str, Any]


def load(checkpoint: str, options: Searching, batch_size: int) -> Searcher:
    """Loads a network and compiles its search.

    Args:
      checkpoint: as in `load_trained`.
      options: the flags.
      batch_size: positions a call of the devices.

    Raises:
      ValueError: when something is wrong, in one line.
    """
    trained = load_trained(checkpoint, options.iteration)
    game = trained.env.id
    if options.game is not None and options.game.replace("-", "_") != game:
        raise ValueError(f"game is {options.game}; {checkpoint} plays {game}")
    if options.network_only and (options.variant or options.simulations):
        raise ValueError("network_only does without a search; leave variant and simulations out")
    policy = None
    if not options.network_only:
        policy = build_policy(trained.record, options.variant, options.simulations)
    evaluator = build_evaluator(
        trained, policy, batch_size=batch_size, seed=options.seed, devices=options.devices
    )
    return Searcher(evaluator, _record(trained, evaluator.policy, options.seed))


def _record(trained: Trained, policy: Any, seed: int) -> dict[str, Any]:
    return {
        "game": trained.env.id,
        "game_parameters": trained.record["game_parameters"],
        "iteration": trained.iteration,
        "network": digest_of(trained.params),
        "search": None if policy is None else {"policy": type(policy).__name__} | to_dict(policy),
        "seed": seed,
    }
