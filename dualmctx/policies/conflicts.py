"""Options that exclude each other: a `ValueError` has the option, its value and the remedy."""

from dualmctx.checks import check, show
from dualmctx.policies.base import PuctSearch, SearchPolicy


def refuse(policy: SearchPolicy, reason: str | None, *names: str) -> None:
    """Checks that options of groups have their defaults, if there is a reason for it.

    Args:
      policy: the policy; options that it does not have are ignored.
      reason: the end of the message; `None` for no check.
      *names: short names of the options.
    """
    groups = [getattr(policy, x, None) for x in ("puct", "root", "execution")]
    for name in names if reason else ():
        for group in (x for x in groups if hasattr(x, name)):
            value, default = getattr(group, name), getattr(type(group), name)
            word = {None: "none", (): "empty"}.get(default, default)
            check(value == default, name, show(value), f"{word} {reason}")


def check_single_tree(policy: PuctSearch) -> None:
    """Checks the options of a policy with PUCT and one tree."""
    uses, limit = set(policy.puct.regularized), policy.execution.max_children
    refuse(policy, _parallel_conflict(policy), "leaves_per_step")
    refuse(policy, _speculation_conflict(policy), "speculation")
    reason = "with max_children, as the slot of an action differs between nodes"
    refuse(policy, None if limit is None else reason, "rave_visits")
    reason = "with regularized act and learn, which do not use visits"
    refuse(policy, reason if uses >= {"act", "learn"} else None, "visit_weights")


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
    name = f"in {type(policy).__name__}"
    reason = f"{name}, which evaluates leaves in rounds"
    refuse(policy, reason, "leaves_per_step", "virtual_loss", "speculation")
    reason = f"{name}, whose action_weights set the policy that it acts by and learns"
    refuse(policy, reason, "regularized", "visit_weights")
    refuse(policy, f"{name}, whose trees correct each other's means", "minimax_mix")
    refuse(policy, f"{name}, which backs up the leaves of a round together", "rave_visits")


def check_without_puct(policy: SearchPolicy) -> None:
    """Checks the options of a policy that uses mctx's rules in place of PUCT."""
    names = "max_children", "leaves_per_step", "virtual_loss", "speculation", "visit_weights"
    refuse(policy, f"in {type(policy).__name__}, which uses mctx's rules", *names)
