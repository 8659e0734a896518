"""Adapts a Flax module, also an imported one, to the interface of a search network."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownMemberType=false

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn

from dualmctx.checks import check_count, check_shape, plain
from dualmctx.errors import UserError
from dualmctx.import_path import call_factory
from dualmctx.models.network import HeadOutput, read_depths
from dualmctx.models.user_modules import (
    as_pair,
    check_head_costs,
    check_module,
    count_heads,
    read_activations,
    read_head,
    restore_fields,
    split_heads,
    trace,
)
from dualmctx.types import Params, PolicyValueNetwork


class Origin(NamedTuple):
    """The factory of a network and its arguments, for the files of the network.

    Attributes:
      factory: `package.module:factory`.
      options: names and values of the options.
      observation_shape: the shape of one observation.
    """

    factory: str
    options: tuple[tuple[str, Any], ...]
    observation_shape: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class AdaptedNetwork:
    """A Flax module with the interface of `dualmctx.types.PolicyValueNetwork`.

    `adapt_network` makes it, after its checks.

    Attributes:
      module: the module.
      num_actions: A.
      head_depths: one number for each head, see `adapt_network`.
      origin: the factory, if `import_network` made the network.
    """

    # Not a part of the hash, because the fields of a module may be lists.
    module: nn.Module = dataclasses.field(hash=False)
    num_actions: int
    head_depths: tuple[int, ...]
    origin: Origin | None = dataclasses.field(default=None, compare=False)

    @property
    def can_resume(self) -> bool:
        """Whether a later head continues from the activations at an earlier one."""
        return hasattr(self.module, "resume")

    def init(self, rngs: Any, observation: jax.Array) -> Params:
        """Returns parameters for `[M, ...]` observations."""
        return self.module.init(rngs, observation.astype(jnp.float32))

    def apply(self, variables: Params, *args: Any, method: str | None = None) -> Any:
        """Evaluates by every head, or runs `begin` or `resume`; see `PolicyValueNetwork`."""
        if method is None:
            return self._evaluate(variables, *args)
        return {"begin": self._begin, "resume": self._resume}[method](variables, *args)

    def _evaluate(self, params: Params, observation: jax.Array) -> tuple[HeadOutput, ...]:
        outputs = split_heads(self.module.apply(params, observation.astype(jnp.float32)))
        return tuple(self._read(output, observation) for output in outputs)

    def _begin(
        self, params: Params, observation: jax.Array, head: int
    ) -> tuple[jax.Array | None, HeadOutput]:
        # Under `jax.jit`, the layers above the head are dropped, because nothing uses them.
        if not hasattr(self.module, "begin"):
            return None, self._evaluate(params, observation)[head]
        observation = observation.astype(jnp.float32)
        activations, output = as_pair(
            self.module.apply(params, observation, head, method="begin"), "begin"
        )
        stored = read_activations(activations, observation.shape[0]) if self.can_resume else None
        return stored, self._read(output, observation)

    def _resume(
        self, params: Params, activations: jax.Array, head: int, next_head: int
    ) -> tuple[jax.Array, HeadOutput]:
        further, output = as_pair(
            self.module.apply(params, activations, head, next_head, method="resume"), "resume"
        )
        return further, self._read(output, activations)

    def _read(self, output: Any, batch: jax.Array) -> HeadOutput:
        return read_head(output, batch.shape[0], self.num_actions)


def adapt_network(
    module: nn.Module,
    num_actions: int,
    observation_shape: tuple[int, ...],
    *,
    head_depths: Sequence[int] | None = None,
) -> AdaptedNetwork:
    """Makes a search network of a Flax linen module.

    The module is called with `[M, ...]` observations in float32. It returns `(logits, value)`, or a
    list or tuple of such pairs, one for each head, from the cheapest head to the final one. The
    logits are `[M, A]`; the values are `[M]` or `[M, 1]`, in [-1, 1], from the view of the player
    to move. Illegal actions need no mask. Outputs are converted to float32.

    An evaluation must depend on one position and on the parameters alone: not on the other
    positions of the batch, and not on random numbers or running averages.

    Without further methods, each head is evaluated from the observation. Under `jax.jit`, an early
    head costs only the layers that it needs, and the final head runs the whole network again. A
    module that has both of these methods continues instead from stored activations:

      begin(observation, head) -> (activations, (logits, value))
      resume(activations, head, next_head) -> (activations, (logits, value))

    `head` is a Python integer from 0. `activations` is an array `[M, ...]`; a search may store it
    in another floating type. A module with `begin` alone cannot continue.

    Args:
      module: an instance of a subclass of `flax.linen.Module`.
      num_actions: A.
      observation_shape: the shape of one observation.
      head_depths: the cost of each head from the observation, as whole numbers in any unit, such as
        the number of blocks below it. They are used to compute the cost of a move. By default the
        module's attribute `head_depths`, or 1, 2, 3 … if it has none. With `resume` they increase.

    Returns:
      The network. Its parameters are those of the module.

    Raises:
      ValueError: if the module is not a linen module, cannot evaluate such observations, returns
        outputs of another form or shape, has variables other than parameters (as batch
        normalisation has), needs random numbers (as dropout does), or has only `resume`; or if
        `head_depths` does not fit its heads.
    """
    check_module(module)
    check_count("num_actions", num_actions, 1)
    observation_shape = check_shape("observation_shape", observation_shape)
    num_heads = count_heads(module, num_actions, observation_shape)
    depths = getattr(module, "head_depths", None) if head_depths is None else head_depths
    depths = tuple(range(1, num_heads + 1)) if depths is None else read_depths(depths)
    check_head_costs(module, depths, num_heads)
    network = AdaptedNetwork(module, int(num_actions), depths)
    if hasattr(module, "begin"):

        def run_parts() -> Any:
            variables = network.init(jax.random.PRNGKey(0), jnp.zeros((1, *observation_shape)))
            return evaluate_parts(network, variables, jnp.zeros((3, *observation_shape)))

        trace(module, observation_shape, run_parts)
    return network


def evaluate_parts(
    network: PolicyValueNetwork, params: Params, observation: jax.Array
) -> dict[str, tuple[int, Any]]:
    """Runs `begin` for each head, and `resume` for all pairs of heads if there are activations.

    Returns the head and the output of each call, by the text of the call.
    """
    found: dict[str, tuple[int, Any]] = {}
    heads = range(len(network.head_depths))
    for head in heads:
        activations, output = network.apply(params, observation, head, method="begin")
        found[f"begin(observation, {head})"] = head, output
        for later in heads[head + 1 :] if activations is not None else ():
            output = network.apply(params, activations, head, later, method="resume")[1]
            found[f"resume(activations, {head}, {later})"] = later, output
    return found


def import_network(
    factory: str,
    num_actions: int,
    observation_shape: tuple[int, ...],
    *,
    options: Mapping[str, Any] | None = None,
    head_depths: Sequence[int] | None = None,
    fields: Mapping[str, Any] | None = None,
) -> AdaptedNetwork:
    """Imports a factory, calls it, and makes a search network of the Flax module that it returns.

    The factory is called as `factory(num_actions=..., observation_shape=..., **options)`. Unlike a
    network of `adapt_network`, the network can be saved, because files can name its factory.

    Args:
      factory: `package.module:factory`, a function, or a class with these two fields. Modules are
        found in the current folder and among the installed packages.
      num_actions: A.
      observation_shape: the shape of one observation.
      options: further arguments of the factory: numbers, strings and booleans.
      head_depths: see `adapt_network`.
      fields: saved fields of the module, as `describe_fields` returned them. They replace the plain
        values of the module's fields, so that later changes of defaults have no effect.

    Returns:
      The network.

    Raises:
      ValueError: if the factory cannot be imported or called, if it does not return a linen module,
        if the fields of the module are not those that were saved, or as `adapt_network`.
    """
    # JSON can hold plain numbers only.
    given: dict[str, Any] = plain(dict(options or {}))
    shape = check_shape("observation_shape", observation_shape)
    arguments = {"num_actions": plain(num_actions), "observation_shape": shape}
    for name in arguments.keys() & given.keys():
        raise UserError(f"network.options has {name}; the game sets it, so leave it out")
    module = call_factory(factory, arguments | given, "network")
    try:
        check_module(module)
        if fields is not None:
            module = restore_fields(module, fields)
        network = adapt_network(module, num_actions, shape, head_depths=head_depths)
    except UserError as error:
        raise UserError(f"network {factory}: {error}") from error
    origin = Origin(factory, tuple(given.items()), shape)
    return dataclasses.replace(network, origin=origin)
