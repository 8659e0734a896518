"""The slow twin of search-contempt, from Joshi 2025 and the readings alone.

Whether a node freezes is asked of every node after every simulation.
"""

import functools
from typing import Any

import jax
import numpy as np

from oracle import options as with_options
from oracle import twin

TREE = twin.SMALL


@twin.remembered
@functools.partial(jax.jit, static_argnums=2)
def _uniform(rng_key: Any, depth: int, batch_size: int) -> Any:
    return jax.vmap(jax.random.uniform)(twin.keys_of(rng_key, twin.FROZEN, depth, batch_size))


class Search(twin.Search):
    """A search in which the nodes of one side freeze; the options are the policy's."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.frozen: dict[twin.Node, np.ndarray] = {}
        self.freeze()

    def freeze(self) -> None:
        """Freezes the nodes that have newly reached the limit."""
        limit = self.options.frozen_visit_limit
        for node in self.nodes if limit is not None else ():
            visits, _ = twin.edges(node, TREE)
            if self.is_side(node) and node not in self.frozen and visits.sum() >= abs(limit):
                self.frozen[node] = visits

    def is_side(self, node: twin.Node) -> bool:
        """Whether the node may freeze, by the player to move; the root never freezes."""
        if node.parent is None or node.discount == 0:
            return False
        changes = sum(step.discount < 0 for step in node.path[1:])
        is_opponent = changes % 2 == 1
        return is_opponent == (self.options.frozen_visit_limit > 0)

    def best(self, node: twin.Node, tree: int) -> int:
        """Samples at frozen nodes; elsewhere PUCT."""
        if node not in self.frozen:
            return super().best(node, tree)
        self.counters.sampled += 1
        index, batch_size = self.element
        uniform = float(np.asarray(_uniform(self.select_key, node.depth, batch_size))[index])
        counts = self.frozen[node]
        odds = (counts / counts.max()) ** (1 / self.options.frozen_temperature)
        limits = np.cumsum(odds)
        return int(np.flatnonzero(limits > uniform * limits[-1])[0])

    def run(self, tree: int, number: int, rng_key: Any, element: tuple[int, int]) -> Any:
        """Runs simulations, each of which may freeze nodes."""
        self.element = element
        for _ in range(number):
            rng_key, self.select_key = twin._simulation_keys(rng_key)
            draws = self.make_draws(self.select_key, element) if self.needs_draws else None
            self.simulate(tree, draws)
            self.freeze()
        return rng_key


class WithOptions(Search, with_options.Search):
    """The same search with minimax values, RAVE and the regularised policy at the other nodes."""


def contempt(task: twin.Task) -> twin.Result:
    """search-contempt."""
    kind = WithOptions if with_options.are_used(task.options) else Search
    return twin.alphazero(task, kind)
