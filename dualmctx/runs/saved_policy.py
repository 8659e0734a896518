"""The record of a search, and the search of a record, optionally with another budget."""

import contextlib
from typing import Any

from dualmctx.checks import are_counts, check_count, is_whole
from dualmctx.errors import UserError
from dualmctx.models.costs import split
from dualmctx.policies import REGISTRY, variant_of, with_options
from dualmctx.policies.several_trees import SeveralTrees
from dualmctx.runs.folder import to_dict
from dualmctx.search.simulate import even_rounds
from dualmctx.typed_values import OtherFunctionError, show_json, with_values
from dualmctx.types import Policy, tree_budgets


def search_record(policy: Policy) -> dict[str, Any]:
    """Returns the record of a search as JSON values: its variant and its options."""
    return {"variant": variant_of(policy)} | to_dict(policy)


def build_policy(
    record: dict[str, Any],
    variant: str | None = None,
    simulations: int | tuple[int, ...] | None = None,
) -> Policy:
    """Builds the search of a run from its `config.json`, or another search.

    Args:
      record: the run's configuration; functions among the search's options must be the defaults.
      variant: a name of the registry, for that variant's defaults; `None` for the run's own search.
      simulations: simulations per move, see `with_simulations`; `None` for no change.

    Raises:
      ValueError: if the record or an option is wrong.
    """
    if variant is not None:
        _check_variant(variant)
        policy = REGISTRY[variant].policy()
    else:
        policy = _saved_policy(record)
    return policy if simulations is None else with_simulations(policy, simulations)


def with_simulations(policy: Policy, simulations: int | tuple[int, ...]) -> Policy:
    """Returns a policy with other simulations per move, and fewer rounds where necessary.

    A schedule given as a tuple is replaced by one with as many rounds, as even as possible.

    Args:
      policy: the search.
      simulations: a number for each tree; or one number, which several trees share in proportion to
        their current budgets.

    Raises:
      ValueError: if the policy does not allow these simulations.
    """
    current = tree_budgets(policy)
    budgets = tuple(simulations) if isinstance(simulations, tuple | list) else (simulations,)
    # NumPy integers become Python integers, which JSON can hold.
    budgets = tuple(int(x) if is_whole(x) else x for x in budgets)
    if len(budgets) == 1:
        [total] = budgets
        check_count("num_simulations", total, 1)
        if len(current) == 1:
            return with_options(policy, num_simulations=total)
        budgets = split(total, current)
    if isinstance(policy, SeveralTrees) and are_counts(budgets):
        number = min(policy.traits.num_rounds, max((1, *budgets[1:])))
        return policy.with_rounds(even_rounds(budgets, number))
    return with_options(policy, num_simulations=budgets)


class OtherSearchError(UserError):
    """The search of a record is not one that a file can hold; another one must be named."""


def check_search(record: dict[str, Any]) -> None:
    """Checks the search of a record.

    Accepted is also one that a file cannot hold, without a name or with a function that is not the
    default: `build_policy` then needs a variant.

    Raises:
      UserError: if an option of the search is unknown or wrong.
    """
    with contextlib.suppress(OtherSearchError):
        _saved_policy(record)


def _check_variant(variant: Any) -> None:
    if not isinstance(variant, str) or variant not in REGISTRY:
        raise UserError(f"variant is {variant}; it must be one of {', '.join(REGISTRY)}")


def _saved_policy(record: dict[str, Any]) -> Policy:
    saved = record.get("search")
    if not isinstance(saved, dict):
        raise UserError(f"the record's search cannot be read: it is {show_json(saved)}")
    variant = saved.get("variant")
    if variant is None:
        raise OtherSearchError("the run's config.json does not name its search; choose a --variant")
    _check_variant(variant)
    options = {name: value for name, value in saved.items() if name != "variant"}
    try:
        return with_values(REGISTRY[variant].policy(), options)
    except OtherFunctionError as error:
        remedy = "build the policy in Python, or choose a --variant"
        raise OtherSearchError(f"{error}; {remedy}") from error
    except UserError as error:
        raise UserError(f"the record's search cannot be read: {error}") from error
