"""Options that exclude each other: a `ValueError` has the option, its value and the remedy."""

from typing import Any

from dualmctx.checks import check, show
from dualmctx.policies.base import PuctSearch
from dualmctx.policies.options import Execution


def check_single_tree(policy: PuctSearch) -> None:
    """Checks the options of a policy with PUCT and one tree."""
    puct, execution = policy.puct, policy.execution
    leaves, rave = execution.leaves_per_step, puct.rave_visits
    if leaves > 1:
        _check_equal("leaves_per_step", leaves, 1, _parallel_conflict(policy))
    if execution.speculation > 1:
        reason = _speculation_conflict(policy)
        _check_equal("speculation", execution.speculation, 1, reason)
    remedy = "none with max_children, as the slot of an action differs between nodes"
    check(rave is None or execution.max_children is None, "rave_visits", rave, remedy)
    visits = policy.root.visit_weights
    is_used = visits == "plain" or not {"act", "learn"} <= set(puct.regularized)
    remedy = "plain with regularized act and learn, which do not use visits"
    check(is_used, "visit_weights", visits, remedy)


def _parallel_conflict(policy: PuctSearch) -> str | None:
    """Returns why several leaves per step are impossible, as the end of a message, or `None`."""
    if policy.backup.window is not None:
        return "with a window"
    if policy.puct.minimax_mix or policy.puct.rave_visits is not None:
        return "with minimax_mix or rave_visits, which are updated after each simulation"
    if "search" in policy.puct.regularized:
        return "with regularized search, which ignores pending leaves"
    return None


def _speculation_conflict(policy: PuctSearch) -> str | None:
    """Returns why speculation is impossible, as the end of a message, or `None`."""
    if policy.execution.leaves_per_step > 1:
        return "with several leaves per step, which are another search"
    if policy.backup.window is not None and policy.backup.explore_fraction > 0:
        return "with a window, unless explore_fraction is 0, as guesses need a rule without samples"
    if "search" in policy.puct.regularized:
        return "with regularized search, as guesses need a rule without samples"
    return None


def check_several_trees(policy: PuctSearch) -> None:
    """Checks the options of a policy with several trees, which does not support some of them."""
    name, puct, execution = type(policy).__name__, policy.puct, policy.execution
    rounds = f"in {name}, which evaluates leaves in rounds"
    _check_equal("leaves_per_step", execution.leaves_per_step, 1, rounds)
    _check_equal("virtual_loss", execution.virtual_loss, 0, rounds)
    _check_equal("speculation", execution.speculation, 1, rounds)
    replaced = f"in {name}, whose action_weights set the policy that it acts by and learns"
    _check_equal("regularized", puct.regularized, (), replaced)
    _check_equal("visit_weights", policy.root.visit_weights, "plain", replaced)
    reason = f"in {name}, whose trees correct each other's means"
    _check_equal("minimax_mix", puct.minimax_mix, 0, reason)
    reason = f"in {name}, which backs up the leaves of a round together"
    _check_equal("rave_visits", puct.rave_visits, None, reason)


def check_frozen_visits(policy: PuctSearch, limit: int | None) -> None:
    """Checks the options of search-contempt, which allows one leaf per step if it has a limit."""
    if limit is not None:
        reason = "with a frozen_visit_limit, as visits freeze between two simulations"
        _check_equal("leaves_per_step", policy.execution.leaves_per_step, 1, reason)
        reason = "with a frozen_visit_limit, which allows one leaf per step only"
        _check_equal("virtual_loss", policy.execution.virtual_loss, 0, reason)


def check_no_speculation(policy: PuctSearch, reason: str) -> None:
    """Checks the options of a policy whose leaves cannot be guessed; the reason ends a message."""
    reason = f"in {type(policy).__name__}, {reason}"
    _check_equal("speculation", policy.execution.speculation, 1, reason)


def check_without_puct(name: str, execution: Execution, visit_weights: str = "plain") -> None:
    """Checks the options of a policy that uses mctx's rules in place of PUCT."""
    reason = f"in {name}, which uses mctx's rules"
    _check_equal("max_children", execution.max_children, None, reason)
    _check_equal("leaves_per_step", execution.leaves_per_step, 1, reason)
    _check_equal("virtual_loss", execution.virtual_loss, 0, reason)
    _check_equal("speculation", execution.speculation, 1, reason)
    _check_equal("visit_weights", visit_weights, "plain", reason)


def _check_equal(name: str, value: Any, wanted: Any, reason: str | None) -> None:
    """Checks that an option has the wanted value, if there is a reason for it."""
    if reason is not None:
        word = {None: "none", (): "empty"}.get(wanted, wanted)
        check(value == wanted, name, show(value), f"{word} {reason}")
