"""The parts of AlphaGo's network: the rollout policy, the policy network and the value network.

The three are separate trunks of one `SeparateTrunks`, so that searches, files and commands take
them as one network. Each stage of the pipeline trains some of the parts.
"""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownMemberType=false

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, cast

import chex
import jax
import jax.numpy as jnp

from dualmctx.checks import check, show
from dualmctx.errors import UserError
from dualmctx.models.network import SeparateTrunks, make_network, one_of
from dualmctx.training.config import NetworkOptions
from dualmctx.types import Environment, Params, PolicyValueNetwork

LogitsFn = Callable[[Params, chex.Array], chex.Array]
"""`(policy, observation) -> logits`: takes the parameters of one policy and `[M, ...]` observations
as the player to move sees them; returns `[M, A]` float32 without a mask of illegal actions."""
ValueFn = Callable[[Params, chex.Array], chex.Array]
"""`(value, observation) -> value`: takes the parameters of a value network and `[M, ...]`
observations; returns `[M]` float32 in (-1, 1), from the view of the player to move."""
ROLLOUT, POLICY, VALUE = "rollout", "policy", "value"
# The subtree of each part in the parameters of the network.
_SUBTREES = {ROLLOUT: "networks_0", POLICY: "networks_1", VALUE: "value_network"}
# The default of the rollout policy: a stem and a head, which read patterns of 3x3 cells.
_ROLLOUT_BLOCKS = 0


def alphago_options(options: NetworkOptions) -> NetworkOptions:
    """Returns the options of the pipeline's network, with its defaults in place of `None`.

    The defaults are separate trunks, of 0 blocks for the rollout policy and of `num_blocks` each
    for the policy network and the value network.

    Raises:
      ValueError: if the options describe shared trunks, a network of your own, or not two depths.
    """
    remedy = "left out, because the pipeline has a network of its own"
    check(options.factory is None, "network", options.factory, remedy)
    remedy = "True, or left out, because the pipeline trains separate networks"
    check(options.separate_trunks is not False, "network.separate_trunks", False, remedy)
    depths = options.head_depths or (_ROLLOUT_BLOCKS, options.num_blocks)
    remedy = "two numbers: the blocks of the rollout policy and those of the policy network"
    check(len(depths) == 2, "network.head_depths", show(depths), remedy)
    blocks = options.num_blocks if options.value_blocks is None else options.value_blocks
    return dataclasses.replace(
        options, separate_trunks=True, head_depths=depths, value_blocks=blocks
    )


def alphago_network(env: Environment, options: NetworkOptions) -> SeparateTrunks:
    """Makes the network of the pipeline; see `alphago_options`."""
    options = alphago_options(options)
    network = make_network(
        env.num_actions,
        env.observation_shape,
        width=options.width,
        num_blocks=options.num_blocks,
        head_depths=options.head_depths,
        num_heads=2,
        separate_trunks=True,
        trunk=options.trunk,
        dtype=options.dtype,
        value_blocks=options.value_blocks,
    )
    return check_parts(network)


def check_parts(network: PolicyValueNetwork) -> SeparateTrunks:
    """Checks that a network is a `SeparateTrunks` of two policies and a value; returns it."""
    if (
        isinstance(network, SeparateTrunks)
        and len(network.head_depths) == 2
        and network.value_depth is not None
    ):
        return network
    found = f"{type(network).__name__} with head_depths {show(network.head_depths)}"
    raise UserError(
        f"the network is a {found}; the pipeline needs a rollout policy, a policy network and a "
        "value network, as --pipeline supervised trains them"
    )


def get_part(params: Params, part: str) -> Params:
    """Returns the parameters of `ROLLOUT`, `POLICY` or `VALUE`, as those of a whole network."""
    return {"params": params["params"][_subtree(part)]}


def with_part(params: Params, part: str, new: Params) -> Params:
    """Returns a copy of the parameters of the whole network, with those of one part replaced."""
    return {**params, "params": {**params["params"], _subtree(part): new["params"]}}


def initial_params(network: SeparateTrunks, env: Environment, rng_key: chex.PRNGKey) -> Params:
    """Returns random parameters of the whole network; consumes the key."""
    observation = jnp.zeros((1, *env.observation_shape), jnp.float32)
    return jax.jit(network.init)(rng_key, observation)


def make_logits_fn(network: SeparateTrunks, part: str = POLICY) -> LogitsFn:
    """Returns `POLICY` or `ROLLOUT` as a function of its own parameters; it runs no other part."""
    return _part_fn(cast(Any, network), part, "logits")


def make_value_fn(network: SeparateTrunks) -> ValueFn:
    """Returns the value network as a function of its own parameters; it runs no other part."""
    return _part_fn(cast(Any, network), VALUE, "value")


# Cached, so that equal networks share compiled programs.
@functools.lru_cache(maxsize=64)
def _part_fn(network: Any, part: str, output: str) -> Callable[[Params, chex.Array], chex.Array]:
    _subtree(part)
    depths = (*check_parts(network).head_depths, network.value_depth)
    own: Any = one_of(network, dict(zip(_SUBTREES, depths, strict=True))[part])
    return lambda params, observation: getattr(
        own.apply(params, observation, 0, method="begin")[1], output
    )


def _subtree(part: str) -> str:
    check(part in _SUBTREES, "part", part, f"one of {', '.join(_SUBTREES)}")
    return _SUBTREES[part]
