"""Builds searches from their specification on the command line, such as `dual:num_rounds=10`."""

from collections.abc import Iterable
from typing import Any

from dualmctx.commands.flags import HELP_HINT, parse_flags
from dualmctx.errors import UserError
from dualmctx.matches.player_spec import OWN, parse_search
from dualmctx.policies import REGISTRY, named_options
from dualmctx.runs.saved_policy import build_policy, with_simulations
from dualmctx.types import Policy


def build_search(
    record: dict[str, Any],
    variant: str | None = None,
    simulations: int | tuple[int, ...] | None = None,
) -> Policy:
    """Builds the search of a run, or another one, with options.

    Args:
      record: the run's configuration, as in `build_policy`.
      variant: `SEARCH[:OPTION=VALUE ...]` with the name of a variant of the registry, or `own` for
        the search of the run's training; `None` is `own`.
      simulations: simulations per move, as in `build_policy`.

    Raises:
      ValueError: if the specification is wrong, the simulations are given twice, or an option is
        invalid.
    """
    spec = parse_search(OWN if variant is None else variant)
    if spec.search != OWN and spec.search not in REGISTRY:
        known = ", ".join((*REGISTRY, OWN))
        raise UserError(f"variant is {spec.search}; it must be one of {known}")
    if spec.simulations is not None and simulations is not None:
        raise UserError(
            f"the simulations are given twice: {spec.simulations} in the variant, and {simulations}"
        )
    policy = build_policy(record, None if spec.search == OWN else spec.search)
    budget = simulations if spec.simulations is None else spec.simulations
    policy = policy if budget is None else with_simulations(policy, budget)
    try:
        return set_options(policy, spec.search, spec.options)
    except ValueError as error:
        reason = str(error).removesuffix(HELP_HINT)
        raise UserError(f"variant {variant!r}: {reason}") from None


def set_options(policy: Policy, search: str, options: Iterable[tuple[str, str]]) -> Policy:
    """Sets options of a policy, by their short names, to values given as text.

    Args:
      policy: the search.
      search: its name, for error messages.
      options: names and values; a value with commas is a tuple, and `none` is `None`.

    Raises:
      ValueError: if there is no such option, or the value is invalid.
    """
    flags: list[str] = []
    known = _list_flags(policy)
    for name, value in options:
        if name not in known:
            raise UserError(
                f"{search} has no option {name}; it has simulations, {', '.join(known)}"
            )
        parts = ["None" if x == "none" else x for x in value.split(",")]
        # A part must not act as a flag: specifications also come in messages to a server.
        if any(x.startswith("-") and not _is_number(x) for x in parts):
            raise UserError(f"{name} is {value}; a value cannot begin with - unless it is a number")
        flags += [known[name], *parts]
    return parse_flags(policy, flags, search, "") if flags else policy


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _list_flags(policy: Any) -> dict[str, str]:
    """Returns the flag of each option of a policy by its short name, except the simulations."""
    return {
        name: "--" + ".".join(option.path).replace("_", "-")
        for name, option in named_options(policy).items()
        if name != "num_simulations" and not callable(option.value)
    }
