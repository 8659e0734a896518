"""The search of a run, made again from its record, and with other budgets."""

import dataclasses
from typing import Any

from dualmctx.checks import check_count, is_whole
from dualmctx.policies import REGISTRY
from dualmctx.policies.budgets import split
from dualmctx.policies.mpv import in_rounds
from dualmctx.runs.folder import to_dict
from dualmctx.types import Policy


def build_policy(
    record: dict[str, Any],
    variant: str | None = None,
    simulations: int | tuple[int, ...] | None = None,
) -> Policy:
    """Makes the search of a run from its `config.json`, or another one.

    Args:
      record: the run's; functions among its options must be the defaults.
      variant: of the registry, with its defaults; the run's own search if `None`.
      simulations: a move, see `with_simulations`; as they are if `None`.

    Raises:
      ValueError: when the record or an option is wrong, in one line.
    """
    if variant is not None:
        _check_variant(variant)
        policy = REGISTRY[variant].policy()
    else:
        policy = _saved_policy(record)
    return policy if simulations is None else with_simulations(policy, simulations)


def with_simulations(policy: Any, simulations: int | tuple[int, ...]) -> Policy:
    """Returns a policy with other simulations a move, and fewer rounds where it must have fewer.

    A schedule that says each slot becomes one of as many rounds, as even as can be.

    Args:
      policy: the search.
      simulations: one for each tree; or one number, which several trees share in the proportion of
        the budgets that they have.

    Raises:
      ValueError: when the policy does not take such simulations, in one line.
    """
    shape = policy.num_simulations
    given = tuple(simulations) if isinstance(simulations, tuple | list) else (simulations,)
    # Plain numbers, as JSON can hold them.
    budgets = tuple(int(x) if is_whole(x) else x for x in given)
    if len(budgets) == 1:
        [total] = budgets
        check_count("num_simulations", total, 1)
        if not isinstance(shape, tuple):
            return dataclasses.replace(policy, num_simulations=total)
        budgets = split(total, shape)
    changes: dict[str, Any] = {"num_simulations": budgets}
    most, fields = max((1, *budgets[1:])), {field.name for field in dataclasses.fields(policy)}
    if "num_rounds" in fields:
        changes["num_rounds"] = min(policy.num_rounds, most)
    elif not isinstance(getattr(policy, "schedule", ""), str):
        # First by a schedule that fits all budgets, which are checked so.
        rounds = min(policy.num_rounds, most)
        policy = dataclasses.replace(policy, num_simulations=budgets, schedule="interleaved")
        changes["schedule"] = in_rounds(policy.num_simulations, rounds)
    return dataclasses.replace(policy, **changes)


def _check_variant(variant: Any) -> None:
    if variant not in REGISTRY:
        raise ValueError(f"variant is {variant}; it must be one of {', '.join(REGISTRY)}")


def _saved_policy(record: dict[str, Any]) -> Policy:
    try:
        saved = dict(record["search"])
        variant = saved.pop("variant", None)
        if variant is None:
            raise ValueError("the run's config.json does not name its search; choose a --variant")
        _check_variant(variant)
        return _with_saved(REGISTRY[variant].policy(), saved)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the record's search cannot be read: {error!r}") from error


def _with_saved(options: Any, saved: dict[str, Any]) -> Any:
    """Changes default options to what JSON holds of them."""
    changed, defaults = {}, to_dict(options)
    for name, value in saved.items():
        old = getattr(options, name)
        if dataclasses.is_dataclass(old):
            changed[name] = _with_saved(old, value)
        elif callable(old):
            _check_function(name, value, defaults[name])
        else:
            changed[name] = tuple(value) if isinstance(value, list) else value
    return dataclasses.replace(options, **changed)


def _check_function(name: str, saved: Any, default: Any) -> None:
    """Refuses a function that is not the default: JSON holds its name, not what it does."""
    if saved != default:
        raise ValueError(
            f"{name} is {saved} in the run's config.json, which can only name a function; it must "
            f"be {default} to be read back: make the policy in Python, or choose a --variant"
        )
