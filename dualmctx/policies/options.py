"""Conversion of the options of a PUCT policy to a selection rule and a `SearchSpec`."""

from dualmctx.policies.action_weights import sample_regularized
from dualmctx.policies.option_groups import Backup, Puct, PuctOptions
from dualmctx.search.minimax import MINIMAX, minimax_qvalues
from dualmctx.search.rave import RAVE, rave_qvalues
from dualmctx.search.select import (
    QvaluesFn,
    completed_qvalues,
    explore_outside_window,
    mean_qvalues,
    puct,
)
from dualmctx.search.simulate import SearchSpec
from dualmctx.search.statistics import Statistic
from dualmctx.types import EvaluateFn, SelectFn


def with_window_exploration(backup: Backup, select_fn: SelectFn, tree_index: int = 0) -> SelectFn:
    """Wraps a rule in the epsilon-greedy exploration outside a window.

    Without a window the rule is returned unchanged. A variant must apply this wrapper last.
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
    """Returns the function that computes Q: means, mixed with minimax values and RAVE if set."""
    if options.minimax_mix:
        qvalues_fn = minimax_qvalues(options.minimax_mix, qvalues_fn)
    if options.rave_visits is not None:
        qvalues_fn = rave_qvalues(options.rave_visits, qvalues_fn)
    return qvalues_fn


def make_select_fn(options: Puct, tree_index: int = 0) -> SelectFn:
    """Returns the selection rule, without the exploration outside a window."""
    if "search" in options.regularized:
        qvalues_fn = make_qvalues(options, completed_qvalues)
        return sample_regularized(
            c_puct=options.c_puct, tree_index=tree_index, qvalues_fn=qvalues_fn
        )
    return puct(c_puct=options.c_puct, tree_index=tree_index, qvalues_fn=make_qvalues(options))


def make_statistics(options: Puct) -> tuple[Statistic, ...]:
    """Returns the statistics that the functions of `make_qvalues` read."""
    minimax = (MINIMAX,) if options.minimax_mix else ()
    rave = (RAVE,) if options.rave_visits is not None else ()
    return (*minimax, *rave)


def make_search_spec(
    options: PuctOptions, evaluate_fn: EvaluateFn, *, num_simulations: int, tree_index: int = 0
) -> SearchSpec:
    """Returns the specification of the simulations of one tree."""
    puct, execution = options.puct, options.execution
    rule = make_select_fn(puct, tree_index)
    select_fn = with_window_exploration(options.backup, rule, tree_index)
    return SearchSpec(
        evaluate_fn=evaluate_fn,
        root_select_fn=select_fn,
        interior_select_fn=select_fn,
        max_depth=execution.max_depth or num_simulations,
        window=options.backup.window,
        tree_index=tree_index,
        leaves_per_step=execution.leaves_per_step,
        statistics=make_statistics(puct),
        virtual_loss=execution.virtual_loss,
        speculation=execution.speculation,
        kernels=execution.kernels,
    )
