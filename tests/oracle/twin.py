"""The slow, simple twin of the search engine: one tree per root, node objects, plain loops.

It was written from the papers and the readings alone, not from the engine: Silver et al. 2017 for
PUCT; Kadam, Xu, Lieberherr 2021, section 3, for the window and the exploration; Grill et al. 2020
for the regularised policy. JAX is used for two things only: the model's answers and the random
draws of the exploration. `chain` has the searches with several trees.
"""

import dataclasses
import functools
import math
from typing import Any, NamedTuple

import jax
import numpy as np

from dualmctx.types import tree_budgets

SMALL, LARGE = 0, 1


@dataclasses.dataclass
class Stats:
    """The statistics of one tree for a node, that is, for the edge into it."""

    visits: int = 0
    ended: int = 0
    total: float = 0.0
    passes: int = 0
    height: int = 0

    @property
    def mean(self) -> float:
        return self.total / self.visits if self.visits else 0.0


@dataclasses.dataclass(eq=False)
class Node:
    """A position, identified by the actions that led to it."""

    actions: tuple[int, ...]
    parent: "Node | None"
    prior: np.ndarray
    raw: float
    reward: float
    discount: float
    embedding: Any
    stats: tuple[Stats, ...]
    children: dict[int, "Node"] = dataclasses.field(default_factory=dict)

    @property
    def depth(self) -> int:
        return len(self.actions)

    @property
    def path(self) -> list["Node"]:
        """All nodes from the root to here."""
        return [*self.parent.path, self] if self.parent else [self]


@dataclasses.dataclass
class Counters:
    """Counts of events in a search, by which a test checks that it covers them."""

    lengths: list[int] = dataclasses.field(default_factory=list)
    small_lengths: list[int] = dataclasses.field(default_factory=list)
    refined: int = 0
    fallbacks: int = 0
    adopted: int = 0
    terminal_hits: int = 0
    depth_hits: int = 0
    explored: int = 0
    sampled: int = 0
    collisions: int = 0
    pruned: int = 0


@dataclasses.dataclass
class Result:
    """A finished search; `acting` are the weights it acts by, if they may differ from `weights`."""

    search: "Search"
    weights: np.ndarray
    acting: np.ndarray | None = None
    action: int | None = None

    @property
    def nodes(self) -> list[Node]:
        return self.search.nodes

    @property
    def counters(self) -> Counters:
        return self.search.counters


class Model:
    """The interface of a game and its heads for one position.

    `root()` gives (logits, value, embedding); `step(embedding, action)` gives (reward, discount,
    logits, value, embedding); both by the head that `recurrent_fn` is bound to.
    `refine_by(head, embedding)` gives the (logits, value) of a later head, counted from 1.
    """

    root: Any
    step: Any
    refine_by: Any


class Task(NamedTuple):
    """The arguments of a twin.

    `element` is (index, size) of the root's place in the batch; `kept` is what `reroot` left of an
    earlier search, to go on from.
    """

    model: Model
    options: Any
    rng_key: Any
    element: tuple[int, int]
    is_legal: Any = None
    kept: list[Node] | None = None


# What draws are for is counted down from the largest number that a key can be folded with.
EXPLORING, REGULARIZED, FROZEN = 2**32 - 1, 2**32 - 2, 2**32 - 3


def remembered(draw: Any) -> Any:
    """Keeps the results of a function of a random key: elements and searches share their keys."""
    found: dict[Any, Any] = {}

    def drawn(rng_key: Any, *others: Any) -> Any:
        data = np.asarray(jax.random.key_data(rng_key)).tobytes()
        at = (data, bool(jax.config.jax_enable_x64), *others)
        if at not in found:
            found[at] = draw(rng_key, *others)
        return found[at]

    return drawn


class Draws(NamedTuple):
    """One element's random numbers in one simulation."""

    rng_key: Any
    element: tuple[int, int]
    """Its place in the batch, and the batch's size."""

    def at(self, depth: int) -> Any:
        """Returns the two uniform numbers of a depth."""
        return np.asarray(_draw(self.rng_key, depth, self.element[1]))[self.element[0]]


@remembered
@functools.partial(jax.jit, static_argnums=2)
def _draw(rng_key: Any, depth: int, batch_size: int) -> Any:
    keys = keys_of(rng_key, EXPLORING, depth, batch_size)
    return jax.vmap(lambda key: jax.random.uniform(key, (2,)))(keys)


def keys_of(rng_key: Any, purpose: int, depth: Any, batch_size: int) -> Any:
    """Returns the batch's keys for the samples at one depth of one simulation."""
    key = jax.random.fold_in(rng_key, np.uint32(purpose))
    return jax.random.split(jax.random.fold_in(key, depth), batch_size)


@remembered
@jax.jit
def _simulation_keys(rng_key: Any) -> tuple[Any, Any]:
    """Returns the key for the next simulation and this simulation's."""
    rng_key, select_key, _ = jax.random.split(rng_key, 3)
    return rng_key, select_key


def probabilities(logits: Any, is_legal: Any = None) -> np.ndarray:
    """Returns the softmax over legal actions; masked logits are the lowest float32."""
    logits = np.asarray(logits, np.float64)
    legal = logits > np.finfo(np.float32).min / 2
    if is_legal is not None:
        legal &= np.asarray(is_legal)
    shares = np.exp(np.where(legal, logits - logits[legal].max(), -np.inf))
    return shares / shares.sum()


class Search:
    """A search from one root, in one tree or several, which are numbered from SMALL on."""

    def __init__(self, task: Task, num_trees: int = 1) -> None:
        self.model, self.options, self.num_trees = task.model, task.options, num_trees
        self.window = self.options.backup.window or 10**9
        most = sum(tree_budgets(self.options)) + self.options.traits.reuse_capacity
        self.max_depth = self.options.execution.max_depth or most
        self.is_root_legal = task.is_legal
        self.counters = Counters()
        if task.kept is not None:
            self.keep(task.kept)
            return
        logits, value, embedding = self.model.root()
        prior = probabilities(logits, self.is_root_legal)
        stats = (Stats(visits=1, total=float(value), passes=1), *self.new_stats()[1:])
        self.root = Node((), None, prior, float(value), 0.0, 1.0, embedding, stats)
        self.nodes = [self.root]

    def new_stats(self) -> tuple[Stats, ...]:
        return tuple(Stats() for _ in range(self.num_trees))

    def keep(self, nodes: list[Node]) -> None:
        """Starts from the nodes of an earlier search, without those below invalid actions."""
        self.root, self.nodes = nodes[0], nodes
        if self.is_root_legal is not None:
            prior = np.where(self.is_root_legal, self.root.prior, 0)
            self.root.prior = prior / prior.sum()
            for action in [a for a in self.root.children if not self.is_root_legal[a]]:
                child = self.root.children.pop(action)
                self.nodes = [node for node in self.nodes if child not in node.path]
        stats = self.root.stats[SMALL]
        if stats.visits == 0:  # The small tree adopts what the large one has evaluated.
            stats.visits, stats.ended, stats.total, stats.passes = 1, 1, self.root.raw, 1

    def simulate(self, tree: int, draws: Any) -> None:
        """Runs one simulation in a tree; `draws` are for the exploration."""
        node = self.root
        while True:
            action = self.take(node, tree, draws.at(node.depth) if draws else None)
            if action not in node.children:
                node = self.create(node, action, tree)
                break
            node = node.children[action]
            if node.stats[tree].visits == 0:
                self.counters.adopted += 1
                break
            if node.discount == 0:
                self.counters.terminal_hits += 1
                break
            if node.depth == self.max_depth:
                self.counters.depth_hits += 1
                break
        self.backup(node, tree)

    @property
    def may_explore(self) -> bool:
        backup = self.options.backup
        return backup.window is not None and backup.explore_fraction > 0

    @property
    def needs_draws(self) -> bool:
        return self.may_explore

    def make_draws(self, select_key: Any, element: tuple[int, int]) -> Draws:
        return Draws(select_key, element)

    def forced(self, tree: int) -> int:
        """Returns the first action of the next simulation of a tree, -1 for a free choice."""
        del tree
        return -1

    def take(self, node: Node, tree: int, draws: Any) -> int:
        """Returns the action of a simulation at a node."""
        action = -1 if node.parent else self.forced(tree)
        return self.choose(node, tree, draws) if action < 0 else action

    def may_evaluate(self, node: Node, tree: int) -> bool:
        """Whether a later tree may evaluate a node: one below the forced action, if any."""
        action = self.forced(tree)
        return action < 0 or node.actions[:1] == (action,)

    def choose(self, node: Node, tree: int, draws: Any) -> int:
        """Explores at random outside the window, otherwise follows PUCT."""
        if self.may_explore and node.stats[tree].height > self.window:
            backup = self.options.backup
            epsilon = backup.explore_fraction * backup.explore_decay**node.depth
            if draws[0] < epsilon:
                self.counters.explored += 1
                legal = np.flatnonzero(node.prior)
                return int(legal[math.floor(draws[1] * len(legal))])
        return self.best(node, tree)

    def best(self, node: Node, tree: int) -> int:
        """Returns PUCT's action, the lowest of equal ones."""
        visits = {a: child.stats[tree].visits for a, child in node.children.items()}
        total = math.sqrt(max(1, sum(visits.values())))
        best_action, best_score = -1, -math.inf
        for action in np.flatnonzero(node.prior).tolist():
            bonus = node.prior[action] * total / (1 + visits.get(action, 0))
            score = self.qvalue(node, action, 0.0, tree) + self.options.puct.c_puct * bonus
            if score > best_score + 1e-12:
                best_action, best_score = action, score
        return best_action

    def qvalue(self, node: Node, action: int, untried: float, tree: int = SMALL) -> float:
        """Returns the value used for Q(s, a) in a tree, `untried` without visits."""
        child = node.children.get(action)
        if child is None or child.stats[tree].visits == 0:
            return untried
        return child.reward + child.discount * child.stats[tree].mean

    def create(self, parent: Node, action: int, tree: int) -> Node:
        """Plays an action to a new position, for a simulation of a tree."""
        del tree
        reward, discount, logits, value, embedding = self.model.step(parent.embedding, action)
        node = Node(
            actions=(*parent.actions, action),
            parent=parent,
            prior=probabilities(logits),
            raw=float(value),
            reward=float(reward),
            discount=float(discount),
            embedding=embedding,
            stats=self.new_stats(),
        )
        parent.children[action] = node
        self.nodes.append(node)
        return node

    def backup(self, leaf: Node, tree: int) -> None:
        """Adds a simulation that ended at `leaf` to a tree, its raw value as the outcome."""
        length = leaf.depth
        (self.counters.lengths if tree == LARGE else self.counters.small_lengths).append(length)
        outcome = leaf.raw
        leaf.stats[tree].ended += 1
        for node in reversed(leaf.path):
            stats = node.stats[tree]
            if self.is_reached(node, length):
                stats.visits += 1
                stats.total += outcome
            stats.passes += 1
            stats.height = max(stats.height, length - node.depth)
            outcome = node.reward + node.discount * outcome

    def is_reached(self, node: Node, length: int) -> bool:
        """Whether the window reaches from a leaf at depth `length` to the edge into the node.

        The root has no such edge; it counts as the edge by which the path leaves it.
        """
        edge = max(node.depth - 1, 0)
        return length - edge <= self.window

    def run(self, tree: int, number: int, rng_key: Any, element: tuple[int, int]) -> Any:
        """Runs simulations; returns the key for what follows."""
        for _ in range(number):
            draws = None
            if self.needs_draws:
                rng_key, select_key = _simulation_keys(rng_key)
                draws = self.make_draws(select_key, element)
            self.simulate(tree, draws)
        return rng_key

    def regularized(self, node: Node) -> np.ndarray:
        """Returns the regularised policy of a node of the small tree."""
        mean, actions = node.stats[SMALL].mean, range(len(node.prior))
        qvalues = np.array([self.qvalue(node, action, mean) for action in actions])
        total = edges(node, SMALL)[0].sum()
        return regularized(node.prior, qvalues, total, self.options.puct.c_puct)

    def finish(self) -> Result:
        """Returns the result of a search with one tree.

        Its weights are those learnt from; without noise, so the root's prior is the clean one.
        """
        visits, _ = edges(self.root, SMALL)
        shares = visits / visits.sum()
        if self.options.root.visit_weights == "smoothed":
            legal = self.root.prior > 0
            shares = np.where(legal, (1 + visits) / (legal.sum() + visits.sum()), 0)
        uses = self.options.puct.regularized
        learn, act = (
            self.regularized(self.root) if x in uses else shares for x in ("learn", "act")
        )
        return Result(self, learn, act)


def alphazero(task: Task, kind: Any = Search) -> Result:
    """AlphaZero's search; `kind` is a class of searches."""
    _, search_key, _ = jax.random.split(task.rng_key, 3)
    search = kind(task)
    search.run(SMALL, task.options.num_simulations, search_key, task.element)
    return search.finish()


def reroot(nodes: list[Node], action: int, reuse_capacity: int) -> list[Node] | None:
    """Makes a child the root; returns the oldest nodes of its subtree, or None to start anew."""
    child = nodes[0].children.get(action)
    if child is None or child.discount == 0:
        return None
    kept = [node for node in nodes if child in node.path][: 1 + reuse_capacity]
    child.parent, child.reward, child.discount = None, 0.0, 1.0
    for node in kept:
        node.actions = node.actions[1:]
        node.children = {a: below for a, below in node.children.items() if below in kept}
    return kept


def edges(root: Node, tree: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the visits and the Q of the root's actions; Q is nan where unvisited."""
    visits, qvalues = np.zeros(len(root.prior)), np.full(len(root.prior), np.nan)
    for action, child in root.children.items():
        visits[action] = child.stats[tree].visits
        if visits[action]:
            qvalues[action] = child.reward + child.discount * child.stats[tree].mean
    return visits, qvalues


def regularized(prior: np.ndarray, qvalues: np.ndarray, total: float, c_puct: float) -> np.ndarray:
    """Returns pi(a) = lambda P(a) / (alpha - q(a)), alpha by Newton's method from the left.

    The sum over pi is convex and falls in alpha, so that from the lower bound, where it is at
    least 1, every step stays on the left of the solution.
    """
    if total == 0:
        return prior
    legal = prior > 0
    p, q = prior[legal], qvalues[legal]
    scale = c_puct * math.sqrt(total) / (len(p) + total)
    alpha = (q + scale * p).max()
    for _ in range(200):
        terms = scale * p / (alpha - q)
        step = (terms.sum() - 1) / (terms / (alpha - q)).sum()
        alpha += step
        if step < 1e-15:
            break
    policy = np.zeros(len(prior))
    policy[legal] = scale * p / (alpha - q)
    return policy
