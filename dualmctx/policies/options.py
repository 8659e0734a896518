"""Options that every PUCT policy has, and how they make a tree grow."""

import dataclasses
from typing import Any, Self

from dualmctx.search import Grow
from dualmctx.select import explore_outside_window, puct
from dualmctx.types import EvaluateFn, SelectFn


@dataclasses.dataclass(frozen=True)
class Puct:
    """How a tree is searched by PUCT.

    A window turns on the sliding-window backup and the epsilon-greedy exploration of the Dual MCTS
    paper, which apply to any tree search.

    Raises:
      ValueError: when an option is out of range, in one line.

    Source: Silver et al. 2017 (arXiv 1712.01815); Kadam, Xu, Lieberherr 2021, section 3. PUCT's c
    is a constant, as in AlphaGo Zero.
    """

    c_puct: float = 1.25
    """Weight of exploration; positive."""
    max_depth: int | None = None
    """Largest number of edges of a simulation; none for no limit."""
    window: int | None = None
    """Edges that a backup updates, counted from the leaf, at least 1; none for all."""
    explore_fraction: float = 0.05
    """With a window: probability of a uniform legal action at a root outside of it, in [0, 1]."""
    explore_decay: float = 0.5
    """With a window: factor by which that probability falls a ply, in [0, 1]."""
    dirichlet_fraction: float = 0.25
    """Share of noise in the root's prior, in [0, 1]; 0 to evaluate."""
    dirichlet_alpha: float = 0.3
    """Concentration of that noise, positive; about 10 / (number of legal moves)."""
    temperature: float = 1.0
    """The action is drawn from weights^(1/temperature); 0 takes the best. Self-play draws its moves
    from the weights by a rule of its own, and exams take the best."""
    max_children: int | None = None
    """Actions kept at each node, those with the best priors, at least 1; none for all. Saves memory
    and time in large action spaces and is exact where no more are legal: 128 for chess's 4,672."""
    leaves_per_step: int = 1
    """Leaves of each root that are selected one after the other, each under virtual visits of those
    before it, and evaluated at once; at least 1, the ordinary search. For large budgets on few
    roots: evaluations are wider, and selection knows a little less."""

    def __post_init__(self) -> None:
        """Checks the options."""
        window, depth = self.window, self.max_depth
        check(
            window is None or window >= 1, "window", window, "at least 1, or none for full backups"
        )
        check(depth is None or depth >= 1, "max_depth", depth, "at least 1, or none for no limit")
        most = self.max_children
        check(most is None or most >= 1, "max_children", most, "at least 1, or none for all")
        leaves = self.leaves_per_step
        check(leaves >= 1, "leaves_per_step", leaves, "at least 1")
        check(leaves == 1 or window is None, "leaves_per_step", leaves, "1 with a window")
        check(self.c_puct > 0, "c_puct", self.c_puct, "positive")
        for name in ("explore_fraction", "explore_decay", "dirichlet_fraction"):
            value = getattr(self, name)
            check(0 <= value <= 1, name, value, "between 0 and 1")
        check(self.dirichlet_alpha > 0, "dirichlet_alpha", self.dirichlet_alpha, "positive")
        check(self.temperature >= 0, "temperature", self.temperature, "at least 0")

    def noiseless(self) -> Self:
        """Returns the options for evaluation: no noise at the root, the best action."""
        return dataclasses.replace(self, dirichlet_fraction=0.0, temperature=0.0)


def check(is_right: bool, name: str, value: Any, remedy: str) -> None:
    """Raises a one-line `ValueError` unless an option is right."""
    if not is_right:
        raise ValueError(f"{name} is {value}; it must be {remedy}")


def explore(options: Puct, select_fn: SelectFn, layer: int = 0) -> SelectFn:
    """Adds the epsilon-greedy exploration that goes with a window to a rule; without one, nothing.

    Whatever rule a variant makes for a node goes through here last.
    """
    if options.window is None:
        return select_fn
    return explore_outside_window(
        select_fn,
        window=options.window,
        explore_fraction=options.explore_fraction,
        explore_decay=options.explore_decay,
        layer=layer,
    )


def make_grow(
    options: Puct, evaluate_fn: EvaluateFn, *, num_simulations: int, layer: int = 0
) -> Grow:
    """Turns the options into how one layer of a tree grows."""
    select_fn = explore(options, puct(c_puct=options.c_puct, layer=layer), layer)
    max_depth = options.max_depth or num_simulations
    return Grow(
        evaluate_fn,
        select_fn,
        select_fn,
        max_depth,
        options.window,
        layer,
        options.leaves_per_step,
    )
