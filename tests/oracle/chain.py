"""The twins of the searches with several trees, and of MPV-MCTS slot by slot.

Written from the papers and the readings alone, not from the engine: Kadam, Xu, Lieberherr 2021,
section 3 for two trees and section 6 for the chain; Lan et al. 2019, Algorithm 2, for MPV-MCTS.
"""

from typing import Any

import jax
import numpy as np

from oracle import twin
from oracle.twin import LARGE, SMALL, Node, Result, Task


class ChainSearch(twin.Search):
    """A search of K trees from one root, whose later trees evaluate by the later heads."""

    def __init__(self, task: Task, num_trees: int) -> None:
        super().__init__(task, num_trees)
        options = task.options
        # Without a first tree, no position is common to two trees.
        is_mixed = options.num_simulations[0] > 0
        self.mixes = (options.value_mix, options.prior_mix) if is_mixed else (0.0, 0.0)

    def create(self, parent: Node, action: int, tree: int) -> Node:
        """Plays an action; the heads up to the tree's own head evaluate the position, in order."""
        node = super().create(parent, action, tree)
        for head in range(1, tree + 1):
            node.raw, node.prior = self.opinion(node, head)
        return node

    def opinion(self, node: Node, head: int) -> tuple[float, np.ndarray]:
        """Returns the mix of a node's stored evaluation with a head's."""
        alpha, beta = self.mixes
        logits, value = self.model.refine_by(head, node.embedding)
        said = twin.probabilities(logits, None if node.parent else self.is_root_legal)
        prior = beta * node.prior + (1 - beta) * said
        if node.discount == 0:
            return node.raw, prior
        return alpha * node.raw + (1 - alpha) * float(value), prior

    def refine(self, leaf: Node, tree: int) -> None:
        """Adds a node to a tree, evaluated by its head, or as it is after a later head."""
        self.counters.refined += 1
        if any(stats.visits for stats in leaf.stats[tree + 1 :]):
            self.counters.adopted += 1
        else:
            value, leaf.prior = self.opinion(leaf, tree)
            for earlier in range(tree):
                self.correct(leaf, earlier, value - leaf.raw)
            leaf.raw = value
        self.backup(leaf, tree)

    def correct(self, leaf: Node, tree: int, difference: float) -> None:
        """Corrects the values of all simulations of a tree that ended at a node."""
        difference *= leaf.stats[tree].ended
        for node in reversed(leaf.path):
            if self.is_reached(node, leaf.depth):
                node.stats[tree].total += difference
            difference *= node.discount

    def refine_root(self) -> None:
        """Evaluates the root, which is in all trees from the start, with every later head."""
        is_kept = self.root.stats[SMALL].ended > 0
        for tree in range(1, self.num_trees):
            if not is_kept:
                self.root.raw, self.root.prior = self.opinion(self.root, tree)
            elif self.root.stats[tree].visits == 0:
                self.refine(self.root, tree)
        if not is_kept:
            for stats in self.root.stats:
                stats.visits, stats.total, stats.passes = 1, self.root.raw, 1

    def waiting(self, tree: int) -> list[Node]:
        """Returns the nodes that a tree lacks, sorted by earlier trees' counts, then by age."""
        nodes = [node for node in self.nodes if not node.stats[tree].visits]
        nodes = [node for node in nodes if self.may_evaluate(node, tree)]
        for earlier in range(tree):  # Sorting is stable, so the last key counts most.
            nodes.sort(key=lambda node, i=earlier: -node.stats[i].passes)
        return nodes


def chain(task: Task) -> Result:
    """The search of a chain, or with two trees of Dual MCTS."""
    options = task.options
    budgets, num_rounds = options.num_simulations, options.num_rounds
    if budgets[-1] == 0:
        budgets = budgets[:-1]  # A last tree without simulations does not exist.
    _, _, rng_key, _ = jax.random.split(task.rng_key, 4)
    search = ChainSearch(task, len(budgets))
    search.refine_root()
    for i in range(num_rounds):
        spans = [(i * b // num_rounds, (i + 1) * b // num_rounds) for b in budgets]
        begin, end = spans[0]
        rng_key = search.run(SMALL, end - begin, rng_key, task.element)
        for tree, (begin, end) in enumerate(spans[1:], 1):
            rng_key, _, own_key = jax.random.split(rng_key, 3)
            leaves = search.waiting(tree)[: end - begin]
            for leaf in leaves:
                search.refine(leaf, tree)
            for j in range(begin + len(leaves), end):
                search.counters.fallbacks += 1
                search.run(tree, 1, jax.random.fold_in(own_key, j), task.element)
    return Result(search, weights(search, options))


def weights(search: ChainSearch, options: Any) -> np.ndarray:
    """Returns the policy, read from the first tree, the last one or all of them."""
    root, last = search.root, search.num_trees - 1
    visits, qvalues = twin.edges(root, last)
    if options.action_weights == "all_visits":
        total = sum(twin.edges(root, tree)[0] for tree in range(search.num_trees))
        return total / total.sum()
    if options.action_weights == "small_visits":
        first = SMALL if options.num_simulations[0] else last
        passes = np.zeros(len(root.prior))
        for action, child in root.children.items():
            passes[action] = child.stats[first].passes
        return passes / passes.sum()
    if options.action_weights == "large_visits":
        counts = np.where(root.prior > 0, 1 + visits, 0)
        return counts / counts.sum()
    qvalues = np.where(visits > 0, qvalues, root.stats[last].mean)
    return twin.regularized(root.prior, qvalues, visits.sum(), options.puct.c_puct)


def slots(options: Any) -> list[int]:
    """Returns the tree of each slot."""
    small, large = options.num_simulations
    if options.schedule == "small_first":
        return [SMALL] * small + [LARGE] * large
    if options.schedule != "interleaved":
        return list(options.schedule)
    order = []
    for j in range(large):  # Before the j-th large slot, its share of the small ones.
        order += [SMALL] * ((j + 1) * small // large - j * small // large) + [LARGE]
    return order


def mpv(task: Task) -> Result:
    """MPV-MCTS, slot by slot, without exploration."""
    search = ChainSearch(task, 2)
    search.refine_root()
    for slot in slots(task.options):
        if slot == SMALL:
            search.simulate(SMALL, None)
            continue
        leaves = [
            node
            for parent in search.nodes
            if parent.stats[LARGE].visits
            for node in parent.children.values()
            if node.stats[SMALL].passes and not node.stats[LARGE].visits
            if search.may_evaluate(node, LARGE)
        ]
        if leaves:
            age = search.nodes.index
            search.refine(min(leaves, key=lambda n: (-n.stats[SMALL].passes, age(n))), LARGE)
        else:
            search.counters.fallbacks += 1
            search.simulate(LARGE, None)
    return Result(search, weights(search, task.options))
