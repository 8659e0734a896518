"""The flags of a network with its search, and the evaluator built from them."""

import dataclasses
from typing import Annotated, Any, NamedTuple

from dualmctx.commands.flags import named
from dualmctx.commands.search_spec import build_search
from dualmctx.errors import UserError
from dualmctx.evaluation.evaluator import Evaluator
from dualmctx.evaluation.factory import build_evaluator, default_batch_size
from dualmctx.policies import REGISTRY
from dualmctx.runs.saved_network import Trained, identity_of, load_trained
from dualmctx.runs.saved_policy import search_record
from dualmctx.types import Policy

_VARIANT = (
    f"Search variant: {', '.join(REGISTRY)}; also with options, as in dual:num_rounds=10, or in "
    "the setting of the paper, dual:paper. By default own, the search that the network was trained "
    "with, without noise."
)


@dataclasses.dataclass(frozen=True)
class SearchFlags:
    """The flags of a search: its variant and budget, the seed and the devices."""

    variant: Annotated[str | None, named(help=_VARIANT)] = None
    simulations: tuple[int, ...] | None = None
    """Simulations per position: one number, which the trees share in proportion to their defaults,
    or a number for each tree, such as 50 35 for dual."""
    network_only: bool = False
    """Use the network's output without a search."""
    iteration: int | None = None
    """Iteration of the run's checkpoint; by default the newest."""
    game: str | None = None
    """Reject a network for another game. Required for an exported file whose game is
    package.module:factory."""
    network: tuple[str, ...] = ()
    """The networks that exported files may import, as package.module:factory (docs/networks.md)."""
    seed: int = 0
    """Random seed. The result for a position depends on the seed and the id of the position."""
    devices: int | None = None
    """Number of devices that share a batch; by default all devices of this process."""


class LoadedSearch(NamedTuple):
    """A network with a search, ready to evaluate positions.

    Attributes:
      evaluator: evaluates positions.
      record: everything that determines the results, as JSON values.
      trained: the network.
    """

    evaluator: Evaluator
    record: dict[str, Any]
    trained: Trained


def load_search(
    checkpoint: str,
    flags: SearchFlags,
    batch_size: int | None,
    max_positions: int | None = None,
) -> LoadedSearch:
    """Loads a network and compiles its search.

    Args:
      checkpoint: a folder, file or name, as in `load_trained`.
      flags: the flags.
      batch_size: positions per device call; by default as in `default_batch_size`.
      max_positions: an upper bound of the number of positions of this process; `None` if it is
        unknown.

    Raises:
      ValueError: if the checkpoint cannot be loaded, or the flags do not fit it or each other.
    """
    trained = load_network(checkpoint, flags)
    if flags.network_only and (flags.variant or flags.simulations):
        raise UserError("network_only excludes a search; leave out variant and simulations")
    policy = None
    if not flags.network_only:
        policy = build_search(trained.record, flags.variant, flags.simulations)
    if batch_size is None:
        batch_size = default_batch_size(
            trained, policy, devices=flags.devices, max_positions=max_positions
        )
    evaluator = build_evaluator(
        trained, policy, batch_size=batch_size, seed=flags.seed, devices=flags.devices
    )
    return LoadedSearch(evaluator, _record(trained, evaluator.policy, flags.seed), trained)


def load_network(checkpoint: str, flags: SearchFlags) -> Trained:
    """Loads the network that the flags describe.

    Raises:
      ValueError: if the checkpoint cannot be loaded, or plays another game than `flags.game`.
    """
    trained = load_trained(checkpoint, flags.iteration, game=flags.game, network=flags.network)
    game = trained.env.id
    if flags.game is not None and flags.game.replace("-", "_") != game:
        raise UserError(f"game is {flags.game}; {checkpoint} plays {game}")
    return trained


def _record(trained: Trained, policy: Policy | None, seed: int) -> dict[str, Any]:
    return {
        **{"game": trained.env.id, "game_parameters": trained.record["game_parameters"]},
        **identity_of(trained),
        "search": None if policy is None else search_record(policy),
        "seed": seed,
    }
