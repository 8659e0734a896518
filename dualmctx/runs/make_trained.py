"""Trained networks from Python: the record that a run of `dualmctx train` would have written."""

from typing import Any

import games
from dualmctx.checks import check, check_count, describe
from dualmctx.policies import REGISTRY
from dualmctx.runs.network_record import with_architecture
from dualmctx.runs.saved_network import Trained
from dualmctx.runs.saved_policy import search_record
from dualmctx.types import Params, Policy, PolicyValueNetwork


def make_trained(
    game: str,
    network: PolicyValueNetwork,
    params: Params,
    policy: Policy,
    *,
    game_parameters: dict[str, Any] | None = None,
    iteration: int = 0,
) -> Trained:
    """Describes a network that was trained in Python, so that `export_trained` can save it.

    Args:
      game: the name of the game, as in `games.make`.
      network: the network, such as one of `make_network`.
      params: its parameters.
      policy: the search of its training, by which commands search if they name no other.
      game_parameters: parameters of the game, as in `games.make`.
      iteration: number of iterations of the training, for messages.

    Returns:
      The network with the record that its file will hold.

    Raises:
      ValueError: if there is no such game, the policy is not in `dualmctx.policies.REGISTRY`, the
        network cannot be saved, or it is for another number of actions.
    """
    check_count("iteration", iteration, 0)
    parameters = dict(game_parameters or {})
    env = games.make(game, **parameters)
    types = [row.policy for row in REGISTRY.values()]
    known = ", ".join(x.__name__ for x in types)
    check(type(policy) in types, "policy", describe(policy), f"of one of the types {known}")
    num_actions = getattr(network, "num_actions", env.num_actions)
    remedy = f"{env.num_actions}, those of {env.id}"
    check(num_actions == env.num_actions, "the network's num_actions", num_actions, remedy)
    record = {
        "game": game,
        "game_parameters": parameters,
        "search": search_record(policy),
        # A search stores activations in the dtype of the trunk.
        "network": {"dtype": getattr(network, "dtype", "float32")},
    }
    return Trained(env, network, params, iteration, with_architecture(record, network))
