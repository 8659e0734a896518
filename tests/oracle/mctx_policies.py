"""The twins of MuZero and Gumbel with what mctx has not: windows, exploration and kept trees.

Written from Schrittwieser et al. 2020, appendix B, and Danihelka et al. 2022, sections 3 and 5,
with mctx's default qtransforms. Without noise at the root; ties are not broken at random.
"""

import math
from typing import Any

import jax
import numpy as np

from oracle import twin
from oracle.twin import SMALL, Node


class MuZeroSearch(twin.Search):
    """A search by MuZero's rule; `puct` is the policy with the options of the window."""

    def best(self, node: Node, tree: int) -> int:
        visits, qvalues = edges(node)
        value, known = node.stats[tree].mean, qvalues[visits > 0]
        low, high = min([value, *known]), max([value, *known])
        scaled = np.where(visits > 0, (qvalues - low) / max(high - low, 1e-8), 0)
        total = node.stats[tree].visits
        base = self.options.pb_c_base
        rate = (self.options.pb_c_init + math.log((total + base + 1) / base)) * math.sqrt(total)
        score = scaled + rate * node.prior / (1 + visits)
        return int(np.argmax(np.where(node.prior > 0, score, -np.inf)))


class GumbelSearch(twin.Search):
    """A search by Gumbel's rules, the root's by Sequential Halving over passes."""

    def choose(self, node: Node, tree: int, draws: Any) -> int:
        return super().choose(node, tree, draws) if node.parent else self.halve()

    def best(self, node: Node, tree: int) -> int:
        visits, _ = edges(node)
        return int(np.argmax(improved(node) - visits / (1 + visits.sum())))

    def halve(self) -> int:
        passes = self.passes()
        num_legal = np.count_nonzero(self.root.prior)
        num_considered = min(self.options.max_num_considered_actions, num_legal)
        due = halving(num_considered, self.options.num_simulations)[int(passes.sum())]
        return self.likeliest(passes == due)

    def likeliest(self, where: np.ndarray) -> int:
        prior = self.root.prior
        score = np.where(prior > 0, np.log(np.maximum(prior, 1e-300)), -np.inf)
        return int(np.argmax(np.where(where, score + completed(self.root), -np.inf)))

    def passes(self) -> np.ndarray:
        passes = np.zeros(len(self.root.prior), int)
        for action, child in self.root.children.items():
            passes[action] = child.stats[SMALL].passes
        return passes


def halving(num_considered: int, num_simulations: int) -> list[int]:
    """Returns the number of earlier visits of each simulation's action."""
    tried, due = [0] * num_considered, []
    num_phases = max(1, math.ceil(math.log2(num_considered)))
    while len(due) < num_simulations:
        for _ in range(max(1, num_simulations // (num_phases * len(tried)))):
            due += tried
            tried = [n + 1 for n in tried]
        tried = tried[: max(min(2, num_considered), len(tried) // 2)]
    return due


def edges(node: Node) -> tuple[np.ndarray, np.ndarray]:
    """Returns N(s, a) and Q(s, a), 0 for actions without visits."""
    visits, qvalues = twin.edges(node, SMALL)
    return visits, np.nan_to_num(qvalues)


def completed(node: Node) -> np.ndarray:
    """Returns the completed and scaled Q: appendix D's mixed value for actions without visits."""
    visits, qvalues = edges(node)
    tried = visits > 0
    mixed = node.raw
    if tried.any():
        shares = node.prior[tried] / node.prior[tried].sum()
        mixed = (node.raw + visits.sum() * (shares @ qvalues[tried])) / (1 + visits.sum())
    known = np.where(tried, qvalues, mixed)
    known = (known - known.min()) / max(known.max() - known.min(), 1e-8)
    return (50 + visits.max()) * 0.1 * known


def improved(node: Node) -> np.ndarray:
    """Returns the improved policy, softmax(logits + completed Q)."""
    score = completed(node)
    shares = node.prior * np.exp(score - score.max())
    return shares / shares.sum()


def muzero(task: twin.Task) -> twin.Result:
    """MuZero's search without noise."""
    _, _, search_key = jax.random.split(task.rng_key, 3)
    search = MuZeroSearch(task)
    search.run(SMALL, task.options.num_simulations, search_key, task.element)
    visits, _ = edges(search.root)
    return twin.Result(search, visits / visits.sum())


def gumbel(task: twin.Task) -> twin.Result:
    """Gumbel's search without noise, from a new tree; `action` of the result is its move."""
    search_key, _ = jax.random.split(task.rng_key)
    search = GumbelSearch(task)
    search.run(SMALL, task.options.num_simulations, search_key, task.element)
    passes = search.passes()
    action = search.likeliest(passes == passes.max())
    return twin.Result(search, improved(search.root), action=action)
