"""The memory that a search needs, predicted before the search is compiled."""

# Some functions of JAX have incomplete types.
# pyright: reportUnknownMemberType=false

import dataclasses
from collections.abc import Callable
from typing import Any, cast

import jax
import jax.numpy as jnp

from dualmctx.checks import check_count
from dualmctx.models.search_fn import GameSearch, check_parts
from dualmctx.search.refine import map_refine_fns
from dualmctx.types import Embedding, Environment, Policy, PolicyValueNetwork

# In a search with several trees and rounds, XLA copies up to half of the statistics.
_MARGIN, _COPIED = 0.1, 0.5
# A backup from many leaves sums four numbers per node and tree; see `search.backup`.
_NUM_SUMS = 4


@dataclasses.dataclass(frozen=True)
class SearchMemory:
    """The bytes that a search allocates, not counting parameters and the states at its roots.

    The search is as in self-play: it returns actions and weights, but not trees.

    Attributes:
      batch_size: B.
      num_nodes: N, the capacity of each tree.
      num_children: C, the children of a node.
      tree: all arrays of `PolicyOutput.search_tree`.
      embeddings: the part of `tree` for game states and stored activations.
      activations: the part of `embeddings` for stored activations.
      temporaries: the largest call of the model, including its inputs and outputs.
      outputs: actions and weights.
      margin: an allowance for copies of arrays and for the error of the prediction.
      kept: the trees of the previous move, for a policy that reuses them.
    """

    batch_size: int
    num_nodes: int
    num_children: int
    tree: int
    embeddings: int
    activations: int
    temporaries: int
    outputs: int
    margin: int
    kept: int = 0

    @property
    def node(self) -> int:
        """Bytes of the trees per node."""
        return self.tree // (self.batch_size * self.num_nodes)

    @property
    def total(self) -> int:
        """The largest number of bytes allocated at the same time, with the margin."""
        return self.tree + self.temporaries + self.outputs + self.margin + self.kept


def search_memory(
    env: Environment,
    network: PolicyValueNetwork,
    policy: Policy,
    batch_size: int,
    **model_options: Any,
) -> SearchMemory:
    """Predicts the memory of a search, with a margin.

    The sizes of trees are the shapes of the search's output, which is traced but not compiled. The
    functions of the model are compiled on their own, for the batches that the search evaluates;
    this takes seconds. Temporaries are those of the default device. The memory of rollouts is not
    included.

    Args:
      env: a game, as `games.make` returns it.
      network: a `dualmctx.models.network.Network`.
      policy: a search variant.
      batch_size: B.
      **model_options: arguments of `make_model`, such as `keep_activations`.

    Returns:
      The parts and their total, to be compared with `temp_size_in_bytes + output_size_in_bytes` of
      XLA's `memory_analysis()`.

    Raises:
      ValueError: if an argument has a wrong type, or the batch size is not at least 1.
    """
    check_parts(env, network, policy)
    check_count("batch_size", batch_size, 1)
    search = GameSearch(env, policy, network, **model_options)
    output, calls = _trace(search, env, network, batch_size)
    tree: Any = output.search_tree
    embeddings = tree.embeddings
    activations = embeddings.activations if isinstance(embeddings, Embedding) else None
    num_nodes, num_kept = tree.raw_values.shape[1], policy.traits.reuse_capacity
    size, stored = num_bytes(tree), num_bytes(embeddings)
    outputs = num_bytes((output.action, output.action_weights))
    temporaries = max(
        temporary_bytes(function, *arguments) + num_bytes(arguments[2:])
        for function, arguments in calls
    )
    num_trees = len(tree.stats)
    has_copies = num_trees > 1 and policy.traits.num_rounds > 1
    copies = _COPIED * (size - stored) if has_copies else 0
    if num_spare := policy.traits.num_spare:  # See `search.speculation`.
        copies += size * num_spare // num_nodes + size - stored
    if num_trees > 1:
        copies += _NUM_SUMS * num_trees * num_bytes(tree.raw_values)
    return SearchMemory(
        batch_size=batch_size,
        num_nodes=num_nodes,
        num_children=tree.children_prior.shape[2],
        tree=size,
        embeddings=stored,
        activations=num_bytes(activations),
        temporaries=temporaries,
        outputs=outputs,
        margin=int(_MARGIN * (size + temporaries + outputs) + (1 + _MARGIN) * copies),
        kept=size * (1 + num_kept) // num_nodes if num_kept else 0,
    )


def num_bytes(tree: Any) -> int:
    """Returns the bytes of a pytree of arrays, or of their shapes."""
    return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(tree))


def temporary_bytes(function: Callable[..., Any], *arguments: Any) -> int:
    """Compiles a function for arrays or shapes; returns its bytes of temporaries and outputs."""
    report = compile_quickly(function, *arguments).memory_analysis()
    return report.temp_size_in_bytes + report.output_size_in_bytes


def compile_quickly(function: Callable[..., Any], *arguments: Any) -> Any:
    """Compiles a program that runs once or twice, or not at all, two to three times as fast."""
    lowered: Any = jax.jit(function).lower(*arguments)
    return lowered.compile(compiler_options={"xla_backend_optimization_level": 0})


def _trace(search: GameSearch, env: Environment, network: PolicyValueNetwork, size: int) -> Any:
    """Traces a search from initial states; returns the shapes of its output, and its largest calls.

    The calls are of each of the model's functions: the function to measure, with the shapes of its
    arguments.
    """
    calls: dict[Any, tuple[Any, ...]] = {}

    def record(function: Callable[..., Any], measured: Any = None) -> Callable[..., Any]:
        def recorded(*arguments: Any) -> Any:
            shapes = jax.eval_shape(lambda: arguments)
            # One search may call a function with batches of different sizes.
            key = measured or function
            calls[key] = max(calls.get(key, ()), shapes, key=num_bytes)
            return function(*arguments)

        return recorded

    model = search.model
    search.model = model._replace(
        recurrent_fn=record(model.recurrent_fn, _looped(model.recurrent_fn)),
        refine_fn=map_refine_fns(record, model.refine_fn),
    )
    key = jax.ShapeDtypeStruct((2,), jnp.uint32)

    def start(rng_key: jax.Array) -> Any:
        return jax.vmap(env.init)(jax.random.split(rng_key, size))

    states = jax.eval_shape(start, key)
    params = jax.eval_shape(network.init, key, states.observation)
    return jax.eval_shape(search, params, key, states), list(calls.items())


def _looped(recurrent_fn: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that calls `recurrent_fn` in a loop, as a search does.

    A loop takes more memory than its body alone, because XLA stores results that are the same in
    every iteration.
    """

    def looped(*arguments: Any) -> Any:
        def body(_: Any, carry: Any) -> Any:
            state = dataclasses.replace(carry[1], activations=None)
            return recurrent_fn(*arguments[:-1], state)

        start = jax.tree.map(jnp.zeros_like, jax.eval_shape(recurrent_fn, *arguments))
        return cast(Any, jax.lax.fori_loop(0, 8, body, start))

    return looped
