"""Conversion of the options of a PUCT policy to a selection rule and a `SearchSpec`."""

from dualmctx.policies.action_weights import RegularizedRule
from dualmctx.policies.base import PuctSearch
from dualmctx.policies.option_groups import Backup, Puct
from dualmctx.search.minimax import MINIMAX, MinimaxMix
from dualmctx.search.node import Rule, RuleFn
from dualmctx.search.rave import RAVE, RaveMix
from dualmctx.search.select import CompletedMeans, ExploringRule, Means, PuctRule, QValues
from dualmctx.search.simulate import SearchSpec
from dualmctx.search.statistics import Statistic
from dualmctx.types import EvaluateFn


def with_window_exploration(backup: Backup, rule: RuleFn) -> RuleFn:
    """Wraps a rule in the epsilon-greedy exploration outside a window.

    Without a window the rule is returned unchanged. A variant must apply this wrapper last.
    """
    if backup.window is None:
        return rule
    return ExploringRule(rule, backup.explore_fraction, backup.explore_decay, backup.window)


def make_qvalues(options: Puct, qvalues: QValues) -> QValues:
    """Returns Q: means, mixed with minimax values and RAVE if set."""
    if options.minimax_mix:
        qvalues = MinimaxMix(options.minimax_mix, qvalues)
    if options.rave_visits is not None:
        qvalues = RaveMix(options.rave_visits, qvalues)
    return qvalues


def make_rule(options: Puct) -> Rule:
    """Returns the selection rule, without the exploration outside a window."""
    if "search" in options.regularized:
        return RegularizedRule(options.c_puct, make_qvalues(options, CompletedMeans()))
    return PuctRule(options.c_puct, make_qvalues(options, Means()))


def make_statistics(options: Puct) -> tuple[Statistic, ...]:
    """Returns the statistics that the functions of `make_qvalues` read."""
    minimax = (MINIMAX,) if options.minimax_mix else ()
    rave = (RAVE,) if options.rave_visits is not None else ()
    return (*minimax, *rave)


def make_search_spec(
    options: PuctSearch, evaluate_fn: EvaluateFn, *, num_simulations: int, tree_index: int = 0
) -> SearchSpec:
    """Returns the specification of the simulations of one tree."""
    puct, execution = options.puct, options.execution
    return SearchSpec(
        evaluate_fn=evaluate_fn,
        rule=with_window_exploration(options.backup, make_rule(puct)),
        max_depth=execution.max_depth or num_simulations,
        window=options.backup.window,
        tree_index=tree_index,
        leaves_per_step=execution.leaves_per_step,
        statistics=make_statistics(puct),
        virtual_loss=execution.virtual_loss,
        speculation=execution.speculation,
        kernels=execution.kernels,
    )
