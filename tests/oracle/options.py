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
        visits = visits_of(node)
        qvalues = self.qvalues(node, 0.0)
        c_puct = self.options.puct.c_puct
        bonus = c_puct * node.prior * math.sqrt(max(1, visits.sum())) / (1 + visits)
        best_action, best_score = -1, -math.inf
        for action in np.flatnonzero(node.prior):
            score = qvalues[action] + bonus[action]
            if score > best_score + 1e-12:
                best_action, best_score = int(action), score
        return best_action

    def qvalues(self, node: Node, untried: float) -> np.ndarray:
        """Returns the value used for Q(s, a), with `untried` for actions without visits."""
        visits = visits_of(node)
        found = np.full(len(node.prior), untried, float)
        mix, k = self.options.puct.minimax_mix, self.options.puct.rave_visits
        for action, child in node.children.items():
            if visits[action]:
                found[action] = child.reward + child.discount * child.stats[SMALL].mean
                if mix:
                    found[action] = (1 - mix) * found[action] + mix * child.minimax
        if k is not None:
            beta = math.sqrt(k / (3 * visits.sum() + k))
            for action, returns in getattr(node, "rave", {}).items():
                found[action] = (1 - beta) * found[action] + beta * np.mean(returns)
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


def visits_of(node: Node) -> np.ndarray:
    """Returns N(s, a)."""
    visits = np.zeros(len(node.prior))
    for action, child in node.children.items():
        visits[action] = child.stats[SMALL].visits
    return visits


def alphazero(
    model: Any,
    options: Any,
    rng_key: Any,
    element: tuple[int, int],
    is_legal: Any = None,
    kept: list[Node] | None = None,
) -> twin.Result:
    """AlphaZero's search with options; arguments as in `twin.alphazero`."""
    _, search_key, _ = jax.random.split(rng_key, 3)
    longest = options.num_simulations + options.reuse_capacity
    search = Search(model, options, longest, is_legal, kept)
    search.run(SMALL, options.num_simulations, search_key, element)
    return search.finish()
