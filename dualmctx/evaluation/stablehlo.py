"""Exports networks and searches as StableHLO programs, which run without this package.

The programs are those of `jax.export`: a file needs JAX alone, and names neither a game nor a
network of this package. The parameters of the network are part of the program.
"""

from collections.abc import Callable, Sequence
from typing import Any

import chex
import jax
import jax.numpy as jnp
from jax import export

from dualmctx.checks import check, check_count
from dualmctx.errors import UserError
from dualmctx.evaluation.evaluations import (
    Decision,
    Heads,
    by_network,
    by_search,
    make_evaluate_batch,
)
from dualmctx.models.search_fn import make_search_fn
from dualmctx.policies import named_options, with_options
from dualmctx.types import Environment, GameState, Params, Policy, PolicyValueNetwork, tree_budgets
from games.histories import replay_unpadded

PLATFORMS = ("cpu", "cuda")
"""The platforms for which programs are exported by default."""
_KNOWN_PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
# Arrays with more entries are indexed in another way; see `dualmctx.search.arrays`.
_MAX_ENTRIES = 2**31 - 1
# JAX raises these for a size that must be known, an operation without a symbolic form, and a custom
# call without guaranteed compatibility.
_NOT_EXPORTED = (
    *(ValueError, TypeError, NotImplementedError),
    jax.errors.InconclusiveDimensionOperation,
)


def export_network(
    env: Environment,
    network: PolicyValueNetwork,
    params: Params,
    *,
    batch_size: int | None = None,
    platforms: Sequence[str] = PLATFORMS,
) -> export.Exported:
    """Exports a network with its parameters.

    The program takes observations, `[B, ...]` of the game's shape and dtype, each from the view of
    the player to move. It returns a dictionary of float32 arrays: `logits`, `[B, H, A]`, in which
    illegal actions are not masked; and `value`, `[B, H]` in [-1, 1], from the view of the player to
    move. H is the number of heads; the last one is the final head.

    Args:
      env: the game.
      network: a `dualmctx.models.network.Network`, or another `PolicyValueNetwork`.
      params: its parameters.
      batch_size: B; `None` for a program that accepts any B of at least 1.
      platforms: the platforms on which the program can run: some of `cpu`, `cuda`, `rocm` and
        `tpu`. A machine needs no GPU to export a program for one.

    Returns:
      The program. Its method `serialize` converts it to bytes, which `jax.export.deserialize`
      reads; its method `call` runs it.

    Raises:
      ValueError: if an argument is out of range, or the network cannot be exported.
    """
    size, _ = _sizes(batch_size, _MAX_ENTRIES)
    state = jax.eval_shape(env.init, jax.random.PRNGKey(0))
    observation = jax.ShapeDtypeStruct((size, *state.observation.shape), state.observation.dtype)

    def evaluate_network(observation: chex.Array) -> dict[str, chex.Array]:
        outputs = network.apply(_as_inputs(params), observation)
        return {
            "logits": jnp.stack([output.logits for output in outputs], axis=1),
            "value": jnp.stack([output.value for output in outputs], axis=1),
        }

    return _export(f"the network of {env.id}", evaluate_network, platforms, observation)


def export_search(
    env: Environment,
    network: PolicyValueNetwork,
    params: Params,
    policy: Policy | None,
    *,
    batch_size: int | None = None,
    platforms: Sequence[str] = PLATFORMS,
    **model_options: Any,
) -> export.Exported:
    """Exports a search of a game with a network and its parameters.

    The program takes the moves that lead to the positions, so it needs neither the game nor states
    of it: `(moves, seeds) -> results`.

    - `moves`: `[B, D]` int32, the actions from the initial position of the game. A row ends at its
      first negative number; the initial position is a row of -1. D is at least 1. JAX compiles the
      program for each pair of B and D, so callers should pad to few sizes.
    - `seeds`: `[B]` uint32. Row i uses the key `jax.random.PRNGKey(seeds[i])`, so its results
      depend on no other row.

    The results are a dictionary: the fields of `Evaluations`, such as `action`, `action_weights`,
    `value`, `visits` and `legal_action_mask`, and `first_illegal`, `[B]` int32, the index of the
    first move that is illegal, out of range or after the end of the game; -1 if there is none. The
    other results of such a row are those of the position before that move.

    The search runs in XLA's loops: the GPU kernels of `Execution.kernels` are custom calls, for
    which JAX does not guarantee compatibility between versions. The results are the same.

    Args:
      env: the game.
      network: a `dualmctx.models.network.Network`, or another `PolicyValueNetwork`.
      params: its parameters.
      policy: a search variant, which is used without noise; `None` for the network alone.
      batch_size: B; `None` for a program that accepts any B of at least 1, as long as the trees
        have fewer than 2**30 edges.
      platforms: as in `export_network`.
      **model_options: options of `make_model`, such as `compact_states`.

    Returns:
      The program; see `export_network`.

    Raises:
      ValueError: if an argument is out of range, or the search cannot be exported.
    """
    decide_fn, name, num_nodes = by_network, "the network", 1
    if policy is not None:
        policy = _without_kernels(policy.for_evaluation())
        decide_fn = by_search(make_search_fn(env, network, policy, **model_options))
        name, num_nodes = f"the search {type(policy).__name__}", _count_nodes(policy)
    limit = _MAX_ENTRIES // (2 * num_nodes * env.num_actions)
    rows, width = _sizes(batch_size, max(1, limit))
    start = jax.vmap(lambda _: env.init(jax.random.PRNGKey(0)))

    def search(moves: chex.Array, seeds: chex.Array) -> dict[str, chex.Array]:
        rng_keys = jax.vmap(jax.random.PRNGKey)(seeds)

        def decide(params: Params, _: Any, state: GameState, heads: Heads) -> Decision:
            return decide_fn(params, rng_keys, state, heads)

        states, first_illegal = replay_unpadded(env, moves, start(moves))
        # The keys of an evaluation follow from ids, which a program does not have.
        unused = jax.random.PRNGKey(0), jnp.zeros((moves.shape[0], 2), jnp.uint32)
        inputs, states = _as_inputs((params, states))
        found = make_evaluate_batch(network, decide)(inputs, *unused, states)
        return found._asdict() | {"first_illegal": first_illegal}

    moves = jax.ShapeDtypeStruct((rows, width), jnp.int32)
    seeds = jax.ShapeDtypeStruct((rows,), jnp.uint32)
    return _export(f"{name} of {env.id}", search, platforms, moves, seeds)


def _as_inputs(arrays: Any) -> Any:
    """Hides from XLA where arrays come from, so that it compiles the rest as for any inputs.

    It may otherwise compute with constants in another order, which changes the last digits.
    """
    return jax.lax.optimization_barrier(arrays)


def _without_kernels(policy: Policy) -> Policy:
    """Returns a policy that runs in XLA's loops on every platform."""
    return with_options(policy, kernels="off") if "kernels" in named_options(policy) else policy


def _count_nodes(policy: Policy) -> int:
    """Returns an upper bound of the nodes that a search allocates for each element."""
    return sum(tree_budgets(policy)) + policy.traits.reuse_capacity + 1


def _sizes(batch_size: int | None, limit: int) -> tuple[Any, Any]:
    """Returns B and D: symbols, or the given B. The symbol of B is at most `limit`."""
    check_count("batch_size", batch_size, 1, "for any")
    if batch_size is not None:
        [width] = export.symbolic_shape("d")
        return batch_size, width
    rows, width = export.symbolic_shape("b, d", constraints=(f"b <= {limit}",))
    return rows, width


def _export(
    name: str, function: Callable[..., Any], platforms: Sequence[str], *shapes: jax.ShapeDtypeStruct
) -> export.Exported:
    """Exports a function; a UserError has its name and the reason."""
    known = ", ".join(_KNOWN_PLATFORMS)
    check(bool(platforms), "platforms", "empty", f"some of {known}")
    # JAX refuses a platform that is named twice.
    chosen = (platforms,) if isinstance(platforms, str) else tuple(dict.fromkeys(platforms))
    for platform in chosen:
        check(platform in _KNOWN_PLATFORMS, "platform", platform, f"one of {known}")
    try:
        return export.export(jax.jit(function), platforms=chosen)(*shapes)
    except _NOT_EXPORTED as error:
        # The messages of JAX have several lines.
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        remedy = "" if isinstance(shapes[0].shape[0], int) else "; a fixed batch size may help"
        raise UserError(f"{name} cannot be exported: {reason}{remedy}") from error
