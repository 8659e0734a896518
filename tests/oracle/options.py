"""The twin of the options that change what PUCT compares: minimax values, RAVE, the regularised
policy as the rule.

Written from the papers: Lanctot et al. 2014 for the minimax values, Gelly and Silver 2011 for RAVE,
Grill et al. 2020 for the policy; and from the readings that dualmctx/README.md lists.
"""

import functools
import math
from typing import Any

import jax
import numpy as np

from oracle import twin
from oracle.twin import SMALL, Node


class Draws(twin.Draws):
    """One element's random numbers in one simulation, including those of sampled actions."""

    def at(self, depth: int) -> tuple[Any, Any]:
        """Returns the exploration's random numbers at a depth, and a function from A to noise."""
        index, size = self.element

        def gumbels(num_actions: int) -> np.ndarray:
            return np.asarray(_gumbels(self.rng_key, depth, size, num_actions))[index]

        return super().at(depth), gumbels


@twin.remembered
@functools.partial(jax.jit, static_argnums=(2, 3))
def _gumbels(rng_key: Any, depth: int, batch_size: int, num_actions: int) -> Any:
    keys = twin.keys_of(rng_key, twin.REGULARIZED, depth, batch_size)
    return jax.vmap(lambda key: jax.random.gumbel(key, (num_actions,)))(keys)


class Search(twin.Search):
    """A search of one tree, with additional statistics in attributes of the nodes.

    `node.minimax` is the minimax value of the edge into it, for who moved there; `node.rave` maps
    actions to all returns of simulations in which the node's player played it at or below the node.
    """

    @property
    def needs_draws(self) -> bool:
        return self.may_explore or "search" in self.options.puct.regularized

    def make_draws(self, select_key: Any, element: tuple[int, int]) -> Draws:
        return Draws(select_key, element)

    def choose(self, node: Node, tree: int, draws: Any) -> int:
        if draws is None:
            return self.best(node, tree)
        uniforms, gumbels = draws
        self.gumbels = gumbels
        return super().choose(node, tree, uniforms)

    def best(self, node: Node, tree: int) -> int:
        if "search" in self.options.puct.regularized:
            policy = self.regularized(node)
            legal = np.flatnonzero(policy)
            return int(legal[np.argmax(np.log(policy[legal]) + self.gumbels(len(policy))[legal])])
        return super().best(node, tree)

    def qvalue(self, node: Node, action: int, untried: float, tree: int = SMALL) -> float:
        found, child = super().qvalue(node, action, untried, tree), node.children.get(action)
        mix, k = self.options.puct.minimax_mix, self.options.puct.rave_visits
        if mix and child and child.stats[SMALL].visits:
            found = (1 - mix) * found + mix * child.minimax
        returns = getattr(node, "rave", {}).get(action)
        if k is not None and returns:
            total = sum(child.stats[SMALL].visits for child in node.children.values())
            beta = math.sqrt(k / (3 * total + k))
            found = (1 - beta) * found + beta * sum(returns) / len(returns)
        return found

    def backup(self, leaf: Node, tree: int) -> None:
        super().backup(leaf, tree)
        path = leaf.path
        for node in reversed(path[1:]):
            if self.is_reached(node, leaf.depth):
                tried = [c.minimax for c in node.children.values() if c.stats[SMALL].visits]
                node.minimax = node.reward + node.discount * max(tried, default=node.raw)
        outcomes = [leaf.raw]
        for node in reversed(path[1:]):
            outcomes.insert(0, node.reward + node.discount * outcomes[0])
        for i, (node, outcome) in enumerate(zip(path[:-1], outcomes[:-1], strict=True)):
            if not self.is_reached(path[i + 1], leaf.depth):
                continue
            if not hasattr(node, "rave"):
                node.rave = {}
            for action in played_by_same_player(path[i:]):
                node.rave.setdefault(action, []).append(outcome)


def are_used(options: Any) -> bool:
    """Returns whether a policy has one of these options."""
    puct = options.puct
    return bool(puct.minimax_mix or puct.rave_visits or "search" in puct.regularized)


def played_by_same_player(path: list[Node]) -> set[int]:
    """Returns the actions that the player to move at the start of a path plays along it."""
    actions, is_same = set(), True
    for child in path[1:]:
        if is_same:
            actions.add(child.actions[-1])
        is_same = is_same == (child.discount >= 0)
    return actions


alphazero = functools.partial(twin.alphazero, kind=Search)
"""AlphaZero's search with options."""
