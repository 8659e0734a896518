"""The twin with steps of several leaves of one root, under virtual visits or virtual losses.

A walk that meets a leaf of its own step is discarded and ends the step.

Written from Liu et al. 2020 (WU-UCT) for the visits, Silver et al. 2016, Methods, for the losses.
"""

import collections
import math
from typing import Any

import numpy as np

from oracle import twin


class Search(twin.Search):
    """The twin with steps of several leaves; `open` holds the walks not yet backed up."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.open = collections.Counter()

    def best(self, node: twin.Node, tree: int) -> int:
        """PUCT with virtual visits or losses for the open walks.

        As one more visit of the value that is known already, or as n_vl visits that are lost.
        """
        lost = self.options.execution.virtual_loss
        counts, qvalues = np.zeros(len(node.prior)), np.zeros(len(node.prior))
        for action, child in node.children.items():
            visits, walks = child.stats[tree].visits, self.open[child.actions]
            won = visits * (child.reward + child.discount * child.stats[tree].mean)
            counts[action] = visits + walks * (lost or 1)
            if lost and counts[action] > 0:
                qvalues[action] = (won - lost * walks) / counts[action]
            elif visits > 0:
                qvalues[action] = won / visits
        total = math.sqrt(max(1, counts.sum()))
        scores = qvalues + self.options.puct.c_puct * node.prior * total / (1 + counts)
        scores[node.prior == 0] = -math.inf
        return int(np.flatnonzero(scores >= scores.max() - 1e-12)[0])

    def step(self, num_leaves: int) -> int:
        """Selects up to a number of leaves, backs them up, and returns their number."""
        leaves = []
        for i in range(num_leaves):
            self.place = i
            leaf = self.walk()
            if leaf is None:
                self.counters.collisions += 1
                break
            leaves.append(leaf)
            self.open.update(node.actions for node in leaf.path)
        self.open.clear()
        for leaf in leaves:
            self.backup(leaf, twin.SMALL)
        return len(leaves)

    def walk(self) -> twin.Node | None:
        """Returns the end of a walk, or None if it is a leaf of this step."""
        node = self.root
        while True:
            action = self.take(node, twin.SMALL, None)
            if action not in node.children:
                return self.create(node, action, twin.SMALL)
            node = node.children[action]
            if node.stats[twin.SMALL].visits == 0:
                return None
            if node.discount == 0:
                self.counters.terminal_hits += 1
                return node
            if node.depth == self.max_depth:
                self.counters.depth_hits += 1
                return node


def alphazero(task: twin.Task) -> twin.Result:
    """AlphaZero's search with several leaves per step."""
    search, num_left = Search(task), task.options.num_simulations
    while num_left:
        num_left -= search.step(min(task.options.execution.leaves_per_step, num_left))
    return search.finish()
