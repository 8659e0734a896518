"""What benchmarks share: times taken in turns, mctx's search by our rule, untrained networks."""

import functools
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import mctx

import dualmctx
import games
from dualmctx.types import PolicyValueNetwork

K = TypeVar("K")


def run_in_turns(
    runs: Mapping[K, Callable[[], Any]], repeats: int
) -> dict[K, list[tuple[float, Any]]]:
    """Runs each so many times, in turns; returns the seconds and the result of each time."""
    found: dict[K, list[tuple[float, Any]]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            start = time.perf_counter()
            result = jax.block_until_ready(run())
            found[name].append((time.perf_counter() - start, result))
    return found


def time_in_turns(runs: Mapping[K, Callable[[], Any]], repeats: int) -> dict[K, float]:
    """Returns the median seconds of each, after one time that does not count."""
    run_in_turns(runs, 1)
    return {
        name: statistics.median(seconds for seconds, _ in times)
        for name, times in run_in_turns(runs, repeats).items()
    }


def search_by_puct(
    params: Any, rng_key: Any, root: Any, recurrent_fn: Any, num_simulations: int, c_puct: float
) -> Any:
    """Searches by mctx with our PUCT rule, without noise; returns mctx's tree."""
    select = functools.partial(_puct, c_puct=c_puct)
    return mctx.search(
        params=params,
        rng_key=rng_key,
        root=root,
        recurrent_fn=recurrent_fn,
        root_action_selection_fn=functools.partial(select, depth=0),
        interior_action_selection_fn=select,
        num_simulations=num_simulations,
    )


def _puct(rng_key: Any, tree: Any, node_index: Any, depth: Any, *, c_puct: float) -> Any:
    del rng_key, depth
    visits = tree.children_visits[node_index]
    prior = jax.nn.softmax(tree.children_prior_logits[node_index])
    qvalues = jnp.where(visits > 0, tree.qvalues(node_index), 0.0)
    total = jnp.maximum(jnp.sum(visits), 1)
    score = qvalues + c_puct * prior * jnp.sqrt(total) / (1 + visits)
    # An illegal action has no prior.
    return jnp.argmax(jnp.where(prior > 0, score, -jnp.inf)).astype(jnp.int32)


def make_params(network: PolicyValueNetwork, state: Any, seed: int) -> Any:
    """Makes parameters that have opinions; an untrained network's heads are zero."""
    params = network.init(jax.random.PRNGKey(seed), state.observation[:1])
    leaves, treedef = jax.tree.flatten(params)
    keys = jax.random.split(jax.random.PRNGKey(seed + 1), len(leaves))
    noisy = [x + 0.05 * jax.random.normal(k, x.shape) for k, x in zip(keys, leaves, strict=True)]
    return jax.tree.unflatten(treedef, noisy)


def untrained() -> tuple[Any, Any, Any]:
    """Makes Connect Four, a tiny network with opinions and its parameters, to see that it runs."""
    env = games.make("connect_four")
    network = dualmctx.make_network(env.num_actions, env.observation_shape, width=4, num_blocks=2)
    state = jax.vmap(env.init)(jax.random.split(jax.random.key(0), 1))
    return env, network, make_params(network, state, 0)
