"""Options that every PUCT policy has, and how they make a tree grow."""

import dataclasses
import math
from typing import Literal, Self

import chex
import jax.numpy as jnp

from dualmctx.checks import (
    Windowed,
    check,
    check_count,
    check_not_negative,
    check_positive,
    check_share,
    check_window,
    show,
)
from dualmctx.policies.weights import sample_regularized
from dualmctx.search.minimax import follow_minimax, minimax_qvalues
from dualmctx.search.rave import follow_rave, rave_qvalues
from dualmctx.search.select import (
    QvaluesFn,
    completed_qvalues,
    explore_outside_window,
    mean_qvalues,
    puct,
)
from dualmctx.search.simulate import SearchSpec
from dualmctx.search.tree import Tree, replace_stats
from dualmctx.types import EvaluateFn, SelectFn, TrackFn


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
    """The action is drawn from weights^(1/temperature), finite; 0 takes the best. Self-play draws
    its moves from the weights by a rule of its own, and exams take the best."""
    max_children: int | None = None
    """Actions kept at each node, those with the best priors, at least 1; none for all. Saves memory
    and time in large action spaces and is exact where no more are legal: 128 for chess's 4,672."""
    leaves_per_step: int = 1
    """The most leaves of each root that are selected one after the other, each under virtual visits
    of those before it, and evaluated at once; at least 1, the ordinary search. A walk that meets a
    leaf of the same step ends the step for its root, so that each simulation evaluates a new
    position or ends where the ordinary search's does. For large budgets on few roots; a step rarely
    has more than 10 leaves, so 8 to 16 are enough."""
    virtual_loss: int = 0
    """With several leaves a step: visits, all lost, that a leaf counts as until its value is known,
    at least 0; 0 for one visit that leaves Q as it is. AlphaGo's is 3. Larger ones find more leaves
    per step and worse moves."""

    regularized: tuple[Literal["act", "search", "learn"], ...] = ()
    """Where the regularised policy of Grill et al. takes the place of visits: act, moves are drawn
    from it; search, actions are drawn from it at each node, without PUCT; learn, it is the target.
    For policies with one tree."""
    visit_weights: Literal["plain", "smoothed"] = "plain"
    """What moves are drawn from and learned: the visits' shares N(a) / ΣN, or with one visit more
    for each legal action, (1 + N(a)) / (|A| + ΣN). For policies with one tree."""
    minimax_mix: float = 0.0
    """Weight of the implicit minimax value in Q, in [0, 1]; 0 for the mean alone, 0.4 as published.
    For policies with one tree."""
    rave_visits: float | None = None
    """With RAVE: visits of a node at which its actions' means and their all-moves-as-first means
    weigh the same, positive, 1000 as published; none for no RAVE. For policies with one tree."""

    def __post_init__(self) -> None:
        """Checks the options."""
        check_window(self)
        check_count("max_depth", self.max_depth, 1, "for no limit")
        check_count("max_children", self.max_children, 1, "for all")
        check_count("leaves_per_step", self.leaves_per_step, 1)
        check_count("virtual_loss", self.virtual_loss, 0)
        check_positive(self, "c_puct", "dirichlet_alpha")
        check_share(self, "dirichlet_fraction", "minimax_mix")
        check_not_negative(self, "temperature")
        rave = self.rave_visits
        is_right = rave is None or 0 < rave < math.inf
        check(is_right, "rave_visits", rave, "positive, or none for no RAVE; finite")
        modes, known = self.regularized, {"act", "search", "learn"}
        is_known = isinstance(modes, tuple) and known.issuperset(modes)
        is_known = is_known and len(set(modes)) == len(modes)
        remedy = "some of act, search and learn, each once at most, or empty"
        check(is_known, "regularized", show(modes), remedy)
        is_known = self.visit_weights in ("plain", "smoothed")
        check(is_known, "visit_weights", self.visit_weights, "plain or smoothed")
        self._check_pairs()

    def _check_pairs(self) -> None:
        """Refuses what does not go together."""
        leaves, rave = self.leaves_per_step, self.rave_visits
        check(leaves == 1 or self.window is None, "leaves_per_step", leaves, "1 with a window")
        remedy = "none with max_children, as an action has another slot at each node"
        check(rave is None or self.max_children is None, "rave_visits", rave, remedy)
        remedy = "1 with minimax_mix or rave_visits, which follow each simulation"
        check(leaves == 1 or not (self.minimax_mix or rave), "leaves_per_step", leaves, remedy)
        remedy = "1 with regularized search, which draws without regard to pending leaves"
        check(leaves == 1 or "search" not in self.regularized, "leaves_per_step", leaves, remedy)
        is_used = self.visit_weights == "plain" or not {"act", "learn"} <= set(self.regularized)
        remedy = "plain with regularized act and learn, which leave no use for the visits"
        check(is_used, "visit_weights", self.visit_weights, remedy)

    def for_evaluation(self) -> Self:
        """Returns the options for evaluation: no noise at the root, the best action."""
        return dataclasses.replace(self, dirichlet_fraction=0.0, temperature=0.0)


def check_several_trees(options: Puct, name: str) -> None:
    """Refuses, in a policy of that name with several trees, the options that need a single one."""
    leaves, lost, modes = options.leaves_per_step, options.virtual_loss, options.regularized
    remedy = f"1 in {name}, whose rounds evaluate at once"
    check(leaves == 1, "leaves_per_step", leaves, remedy)
    check(lost == 0, "virtual_loss", lost, f"0 in {name}, whose rounds evaluate at once")
    remedy = f"empty in {name}, whose action_weights say what to act by and to learn"
    check(not modes, "regularized", show(modes), remedy)
    visits, remedy = options.visit_weights, f"plain in {name}, whose action_weights say what to use"
    check(visits == "plain", "visit_weights", visits, remedy)
    remedy = f"0 in {name}, whose trees correct each other's means"
    check(not options.minimax_mix, "minimax_mix", options.minimax_mix, remedy)
    rave = options.rave_visits
    check(rave is None, "rave_visits", rave, f"none in {name}, whose leaves are backed up at once")


def with_window_exploration(
    options: Windowed, select_fn: SelectFn, tree_index: int = 0
) -> SelectFn:
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
        tree_index=tree_index,
    )


def make_qvalues(options: Puct, qvalues_fn: QvaluesFn = mean_qvalues) -> QvaluesFn:
    """Turns the options into what stands for Q: a mean, with minimax values and RAVE mixed in."""
    if options.minimax_mix:
        qvalues_fn = minimax_qvalues(options.minimax_mix, qvalues_fn)
    if options.rave_visits is not None:
        qvalues_fn = rave_qvalues(options.rave_visits, qvalues_fn)
    return qvalues_fn


def make_rule(options: Puct, tree_index: int = 0) -> SelectFn:
    """Turns the options into the rule at a node, without the exploration outside a window."""
    if "search" in options.regularized:
        qvalues_fn = make_qvalues(options, completed_qvalues)
        return sample_regularized(
            c_puct=options.c_puct, tree_index=tree_index, qvalues_fn=qvalues_fn
        )
    return puct(c_puct=options.c_puct, tree_index=tree_index, qvalues_fn=make_qvalues(options))


def allocate_rows(options: Puct, tree: Tree) -> Tree:
    """Allocates what `make_qvalues` reads, in the first layer."""
    stats, shape = tree.stats[0], tree.stats[0].children_qvalues.shape
    if options.minimax_mix:
        stats = stats.replace(children_minimax=jnp.zeros(shape, stats.children_qvalues.dtype))
    if options.rave_visits is not None:
        stats = stats.replace(children_rave=jnp.zeros((*shape, 2), stats.children_qvalues.dtype))
    return replace_stats(tree, 0, stats)


def track_together(*track_fns: TrackFn | None) -> TrackFn | None:
    """Makes one function of several, of which some may be `None`."""
    present = [track_fn for track_fn in track_fns if track_fn is not None]
    if len(present) <= 1:
        return present[0] if present else None

    def track(tree: Tree, leaf: chex.Array) -> Tree:
        for track_fn in present:
            tree = track_fn(tree, leaf)
        return tree

    return track


def make_grow(
    options: Puct, evaluate_fn: EvaluateFn, *, num_simulations: int, tree_index: int = 0
) -> SearchSpec:
    """Turns the options into how one layer of a tree grows."""
    select_fn = with_window_exploration(options, make_rule(options, tree_index), tree_index)
    follows = (
        follow_minimax(window=options.window, tree_index=tree_index)
        if options.minimax_mix
        else None,
        follow_rave(window=options.window, tree_index=tree_index) if options.rave_visits else None,
    )
    max_depth = options.max_depth or num_simulations
    return SearchSpec(
        evaluate_fn,
        select_fn,
        select_fn,
        max_depth,
        options.window,
        tree_index,
        options.leaves_per_step,
        track_fn=track_together(*follows),
        virtual_loss=options.virtual_loss,
    )
