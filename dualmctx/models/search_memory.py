"""How much memory a search takes, known before it is compiled."""

import dataclasses
import functools
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from dualmctx.checks import check_count
from dualmctx.models.game_model import make_model, rollout_options
from dualmctx.search.tree import Tree
from dualmctx.types import Embedding, Environment, Policy, PolicyValueNetwork

# Temporaries need no fast code, and this compiles a model two to three times as fast.
_QUICK: dict[str, Any] = {"xla_backend_optimization_level": 0}


@dataclasses.dataclass(frozen=True)
class SearchMemory:
    """What a search allocates, in bytes, beside its parameters and the states it starts from.

    Predicted is the search as self-play runs it: its actions and weights leave the program, its
    trees do not. They stand in memory once, as every step writes them in place.

    Attributes:
      batch_size: B.
      num_nodes: N, the capacity of each tree.
      num_children: A, or the limit to which a policy reduced it.
      tree: the trees, all of `PolicyOutput.search_tree`.
      embeddings: of these, game states and kept activations.
      activations: of these, the kept activations.
      unread: of these, states' fields that nothing reads, which XLA leaves out.
      copies: what rounds of several trees copy.
      temporaries: the largest call of the model, with what it takes and returns.
      outputs: actions and weights.
      kept: the trees of the move before, from which a policy with `reuse_capacity` goes on. Counted
        in full, of which XLA took about half.
    """

    batch_size: int
    num_nodes: int
    num_children: int
    tree: int
    embeddings: int
    activations: int
    unread: int
    copies: int
    temporaries: int
    outputs: int
    kept: int = 0

    @property
    def node(self) -> int:
        """Bytes of the trees a node."""
        return self.tree // (self.batch_size * self.num_nodes)

    @property
    def total(self) -> int:
        """What is allocated at once."""
        search = self.tree - self.unread + self.copies + self.temporaries + self.outputs
        return search + self.kept


class _Call(NamedTuple):
    """A call that a search makes of the model, with the shapes of what it is given."""

    name: str
    function: Any
    arguments: tuple


def search_memory(
    env: Environment,
    network: PolicyValueNetwork,
    policy: Policy,
    batch_size: int,
    **model_options: Any,
) -> SearchMemory:
    """Predicts what a search allocates, within 5 % of XLA's report where the trees are most of it.

    The trees are those of the search itself, traced without running or compiling it. The model's
    calls are compiled by themselves, for the sizes that the search asks for, which takes a second
    or so; temporaries are those of the default device. Measured on a CPU. Too high by up to a third
    for one round of Dual where the activations of all its leaves are the most, as these take the
    place of the trees'. What rollouts take is left out: too low by an eighth for small trees and a
    network of convolutions.

    Args:
      env: a game as `games.make` gives it.
      network: a `dualmctx.models.network.Network`.
      policy: a search variant.
      batch_size: B.
      **model_options: options of `make_model`, such as `keep_activations`.

    Returns:
      The parts and their sum. XLA's report of them is `temp_size_in_bytes + output_size_in_bytes`.

    Raises:
      ValueError: when the batch size is not at least 1, in one line.
    """
    check_count("batch_size", batch_size, 1)
    output, calls = _trace(env, network, policy, batch_size, model_options)
    tree: Tree = output.search_tree
    traced = [(call, jax.jit(call.function).trace(*call.arguments)) for call in calls]
    embeddings = tree.embeddings
    activations = embeddings.activations if isinstance(embeddings, Embedding) else None
    num_nodes, reuse_capacity = tree.raw_values.shape[1], policy.traits.reuse_capacity
    return SearchMemory(
        batch_size=batch_size,
        num_nodes=num_nodes,
        num_children=tree.children_prior.shape[2],
        tree=num_bytes(tree),
        embeddings=num_bytes(embeddings),
        activations=num_bytes(activations),
        # Out of nested loops, as rounds are, XLA does not take them.
        unread=_unread(embeddings, traced) if len(tree.stats) == 1 else 0,
        copies=_copies(tree, policy),
        temporaries=max(
            _temporaries(call, trace) - _not_yet(tree, policy, call) for call, trace in traced
        ),
        outputs=num_bytes((output.action, output.action_weights)),
        kept=num_bytes(tree) * (1 + reuse_capacity) // num_nodes if reuse_capacity else 0,
    )


def num_bytes(tree: Any) -> int:
    """Returns the bytes of a pytree of arrays, or of their shapes."""
    return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(tree))


def _trace(
    env: Environment,
    network: PolicyValueNetwork,
    policy: Policy,
    batch_size: int,
    model_options: dict[str, Any],
) -> tuple[Any, list[_Call]]:
    """Traces a search; returns its output's shapes and the model's calls, the root's first."""
    model = make_model(env, network, heads=policy.heads, **model_options)
    is_compact = model_options.get("compact_states", False)
    # Not among the calls: a rollout takes much the same as a step of the model.
    rollouts = rollout_options(env, network, policy, compact_states=is_compact)
    calls: dict[Any, _Call] = {}

    def record(name: str, function: Any) -> Any:
        def recorded(*arguments: Any) -> Any:
            call = _Call(name, function, jax.tree.map(_shape, arguments))
            # A later call of the same function may be larger: many leaves at once.
            known = calls.get(function)
            if known is None or num_bytes(known.arguments) < num_bytes(call.arguments):
                calls[function] = call
            return function(*arguments)

        return recorded

    def search(params: Any, rng_key: chex.PRNGKey, state: Any) -> Any:
        root = record("root_fn", model.root_fn)(params, state)
        recurrent_fn = record("recurrent_fn", model.recurrent_fn)
        refine_fn = jax.tree.map(functools.partial(record, "refine_fn"), model.refine_fn)
        invalid = ~state.legal_action_mask
        return policy(
            params, rng_key, root, recurrent_fn, refine_fn, invalid_actions=invalid, **rollouts
        )

    key = jax.ShapeDtypeStruct((2,), jnp.uint32)
    states = jax.eval_shape(
        lambda rng_key: jax.vmap(env.init)(jax.random.split(rng_key, batch_size)), key
    )
    params = jax.eval_shape(network.init, key, states.observation)
    return jax.eval_shape(search, params, key, states), list(calls.values())


def _shape(x: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def _temporaries(call: _Call, trace: Any) -> int:
    """Returns the bytes that a call takes while it runs, with its outputs and what it reads."""
    *rest, embedding = call.arguments
    if call.name != "recurrent_fn":
        read = _read(call, trace, set())
        gathered = sum(size for name, size in _sizes(embedding).items() if name in read)
        return allocated(trace) + gathered

    def loop(*arguments: Any) -> Any:
        def body(_: Any, new: tuple) -> tuple:
            state = dataclasses.replace(new[1], activations=None)
            return call.function(*arguments, state)

        new = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), trace.out_info)
        return jax.lax.fori_loop(0, 8, body, new)

    # In a loop, as XLA moves out of it what is the same in every step, and keeps that.
    return allocated(jax.jit(loop).trace(*rest))


def allocated(trace: Any) -> int:
    """Compiles a traced function; returns the bytes of its temporaries and outputs."""
    report = trace.lower().compile(compiler_options=_QUICK).memory_analysis()
    return report.temp_size_in_bytes + report.output_size_in_bytes


def _has_rounds(policy: Policy) -> bool:
    return policy.traits.num_rounds > 1


def _copies(tree: Tree, policy: Policy) -> int:
    """Returns the bytes that XLA adds to a search with several trees, as measured on a CPU.

    Rounds write rows of children that they also read, so two such arrays are there twice; and the
    sums of what each node is to receive take some arrays of nodes, more for each tree to correct.
    """
    if len(tree.stats) == 1:
        return 0
    rows = _rows(tree) if _has_rounds(policy) else 0
    return rows + (10 + 17 * (len(tree.stats) - 2)) * num_bytes(tree.raw_values)


def _not_yet(tree: Tree, policy: Policy, call: _Call) -> int:
    """Returns the bytes of the rows that take a call's place after it: T_full's, in one round."""
    is_before = call.name == "refine_fn" and not _has_rounds(policy)
    return _rows(tree) if is_before and len(tree.stats) > 1 else 0


def _rows(tree: Tree) -> int:
    last = tree.stats[-1]
    return num_bytes((last.children_visits, last.children_qvalues))


def _unread(embeddings: Any, traced: list[tuple[_Call, Any]]) -> int:
    """Returns the bytes of those arrays of the embeddings that no evaluation depends on.

    XLA takes out of a loop what only hands itself on, such as a count of steps.
    """
    sizes = _sizes(embeddings)
    returned = {name for _, trace in traced for name in _names(trace.out_info, 1)}
    read: set[str] = set()
    while True:
        more = set[str]().union(*(_read(call, trace, read) for call, trace in traced))
        if more == read:
            return sum(sizes[name] for name in (returned & sizes.keys()) - read)
        read = more


def _read(call: _Call, trace: Any, wanted: set[str]) -> set[str]:
    """Returns what a call reads of an embedding for its evaluation and the new one's `wanted`."""
    jaxpr = trace.jaxpr.jaxpr
    returned = zip(_names(trace.out_info, 1), jaxpr.outvars, strict=True)
    needed = {id(x) for name, x in returned if not name or name in wanted}
    for equation in reversed(jaxpr.eqns):
        if any(id(x) in needed for x in equation.outvars):
            needed |= {id(x) for x in equation.invars}
    given = zip(_names(call.arguments, len(call.arguments) - 1), jaxpr.invars, strict=True)
    return {name for name, x in given if name and id(x) in needed}


def _sizes(embedding: Any) -> dict[str, int]:
    """Returns the bytes of each array of an embedding, by its name."""
    leaves = jax.tree_util.tree_leaves_with_path(embedding)
    return {jax.tree_util.keystr(path): num_bytes(x) for path, x in leaves}


def _names(values: tuple, position: int) -> list[str]:
    """Names the arrays of one part of a tuple by their places in it, the others by nothing."""
    leaves = jax.tree_util.tree_leaves_with_path(values)
    return [
        jax.tree_util.keystr(path[1:]) if getattr(path[0], "idx", None) == position else ""
        for path, _ in leaves
    ]
