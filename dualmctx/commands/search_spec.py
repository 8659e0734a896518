"""Builds searches from their specification on the command line, such as `dual:num_rounds=10`."""

from collections.abc import Iterable
from typing import Any

from dualmctx.errors import UserError
from dualmctx.evaluation.tasks import can_deepen, total_simulations
from dualmctx.matches.player_spec import OWN, PlayerSpec, parse_search
from dualmctx.policies import REGISTRY, named_options, paper_setting, with_options
from dualmctx.runs.saved_policy import build_policy, with_simulations
from dualmctx.typed_values import decode_text
from dualmctx.types import Policy

_CONTINUED = "alphazero"
ABOUT_CONTINUED = (
    "also with options, as in dual:num_rounds=10, or in the setting of the paper, dual:paper. By "
    "default own, the search that the network was "
    "trained with; if that one begins anew for each budget, as gumbel does, alphazero with as many "
    "simulations."
)
"""The default of `build_continued_search`, for `--help`."""


def build_search(
    record: dict[str, Any],
    variant: str | None = None,
    simulations: int | tuple[int, ...] | None = None,
) -> Policy:
    """Builds the search of a run, or another one, with options.

    Args:
      record: the run's configuration, as in `build_policy`.
      variant: `SEARCH[:paper][:OPTION=VALUE ...]` with the name of a variant of the registry, or
        `own` for the search of the run's training; `None` is `own`.
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
    policy = base_search(record, spec)
    budget = simulations if spec.simulations is None else spec.simulations
    policy = policy if budget is None else with_simulations(policy, budget)
    try:
        return set_options(policy, spec.search, spec.options)
    except UserError as error:
        raise UserError(f"variant {variant!r}: {error}") from None


def build_continued_search(
    record: dict[str, Any],
    variant: str | None = None,
    simulations: int | tuple[int, ...] | None = None,
) -> Policy:
    """Builds a search, without noise, for games and analyses that go on in its trees.

    If no variant is named, and the search of the training cannot continue from its trees, it is
    AlphaZero's with as many simulations. Arguments and errors are those of `build_search`.
    """
    policy = build_search(record, variant, simulations)
    if variant is None and not can_deepen(policy):
        policy = with_simulations(build_search(record, _CONTINUED), total_simulations(policy))
    return policy.for_evaluation()


def base_search(record: dict[str, Any], spec: PlayerSpec) -> Policy:
    """Returns the search that a specification names, before its simulations and options.

    Args:
      record: the run's configuration, as in `build_policy`.
      spec: the specification.

    Raises:
      ValueError: if there is no such search, or the record's search cannot be read.
    """
    if spec.paper:
        return paper_setting(spec.search)
    return build_policy(record, None if spec.search == OWN else spec.search)


def set_options(policy: Policy, search: str, options: Iterable[tuple[str, str]]) -> Policy:
    """Sets options of a policy, by their short names, to values given as text.

    Args:
      policy: the search.
      search: its name, for error messages.
      options: names and values; a value with commas is a tuple, and `none` is `None`.

    Raises:
      ValueError: if there is no such option, or the value is invalid.
    """
    hints = {
        name: option.hint
        for name, option in named_options(policy).items()
        if name != "num_simulations" and not callable(option.value)
    }
    return with_options(policy, **read_options(search, options, hints, "simulations"))


def read_options(
    search: str, options: Iterable[tuple[str, str]], hints: dict[str, Any], *others: str
) -> dict[str, Any]:
    """Converts the options of a search or a player, given as text, to their types.

    Args:
      search: its name, for error messages.
      options: names and values.
      hints: the types of the options, by name.
      *others: options that are read elsewhere, for error messages.

    Raises:
      UserError: if there is no such option, or its value is of another type.
    """
    values: dict[str, Any] = {}
    for name, text in options:
        if name not in hints:
            known = ", ".join((*others, *hints))
            raise UserError(f"{search} has no option {name}; it has {known}")
        values[name] = decode_text(name, text, hints[name])
    return values
