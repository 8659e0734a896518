"""How the options of a PUCT policy become a selection rule and the growth of a tree."""

import chex
import jax.numpy as jnp

from dualmctx.policies.action_weights import sample_regularized
from dualmctx.policies.option_groups import Backup, Puct, PuctOptions
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


def with_window_exploration(backup: Backup, select_fn: SelectFn, tree_index: int = 0) -> SelectFn:
    """Wraps a rule in the epsilon-greedy exploration outside a window.

    Without a window the rule is returned unchanged. A variant wraps its rule here last.
    """
    if backup.window is None:
        return select_fn
    return explore_outside_window(
        select_fn,
        window=backup.window,
        explore_fraction=backup.explore_fraction,
        explore_decay=backup.explore_decay,
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
    options: PuctOptions, evaluate_fn: EvaluateFn, *, num_simulations: int, tree_index: int = 0
) -> SearchSpec:
    """Turns the options into how one layer of a tree grows."""
    puct, window, execution = options.puct, options.backup.window, options.execution
    rule = make_rule(puct, tree_index)
    select_fn = with_window_exploration(options.backup, rule, tree_index)
    follows = (
        follow_minimax(window=window, tree_index=tree_index) if puct.minimax_mix else None,
        follow_rave(window=window, tree_index=tree_index) if puct.rave_visits else None,
    )
    max_depth = execution.max_depth or num_simulations
    return SearchSpec(
        evaluate_fn,
        select_fn,
        select_fn,
        max_depth,
        window,
        tree_index,
        execution.leaves_per_step,
        track_fn=track_together(*follows),
        virtual_loss=execution.virtual_loss,
    )
