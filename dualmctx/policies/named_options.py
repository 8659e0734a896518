"""Options of a policy by short names, such as `window` for `policy.backup.window`.

A short name identifies one option, because the fields of a policy and those of its option groups
have different names.
"""

import dataclasses
from typing import Any, NamedTuple, TypeVar, cast, get_type_hints

from dualmctx.checks import check, describe
from dualmctx.errors import UserError

P = TypeVar("P")


class NamedOption(NamedTuple):
    """One option of a policy.

    Attributes:
      path: field names from the policy to the option, such as `("backup", "window")`.
      value: the option's value.
      hint: the option's type.
    """

    path: tuple[str, ...]
    value: Any
    hint: Any


def named_options(policy: Any) -> dict[str, NamedOption]:
    """Returns the options of a policy and of its groups by their short names.

    Args:
      policy: a frozen dataclass; fields that hold dataclasses are groups.
    """
    found: dict[str, NamedOption] = {}
    hints = get_type_hints(cast(Any, type(policy)))
    for field in dataclasses.fields(policy):
        value = getattr(policy, field.name)
        if dataclasses.is_dataclass(value):
            inner = named_options(value)
            found |= {
                x: option._replace(path=(field.name, *option.path)) for x, option in inner.items()
            }
        else:
            found[field.name] = NamedOption((field.name,), value, hints[field.name])
    return found


def with_options(policy: P, **options: Any) -> P:
    """Returns a copy of a policy with new values of the named options.

    Example: `with_options(AlphaZero(), num_simulations=64, window=3, temperature=0.0)`.

    Args:
      policy: a frozen dataclass of options.
      **options: values by short name, see `named_options`; or a whole group by the name of its
        field.

    Raises:
      ValueError: if the policy has no such option, or if a value or combination is invalid.
    """
    if isinstance(policy, type) or not dataclasses.is_dataclass(policy):
        remedy = f"{policy.__name__}()" if isinstance(policy, type) else "one, such as AlphaZero()"
        raise UserError(f"policy is {describe(policy)}; pass {remedy}")
    known = named_options(policy)
    own = {field.name for field in dataclasses.fields(cast(Any, policy))}
    # First the fields of the policy: an option of a group changes the group that is given.
    changes = {name: value for name, value in options.items() if name in own}
    groups: dict[str, dict[str, Any]] = {}
    for name, value in options.items():
        if name in own:
            continue
        if name not in known:
            kind, names = type(policy).__name__, ", ".join(known)
            raise UserError(f"{kind} has no option {name}; it has {names}")
        group, inner = known[name].path
        groups.setdefault(group, {})[inner] = value
    # The options of a group may be valid only together.
    for group, values in groups.items():
        own_group = getattr(policy, group)
        old = changes.get(group, own_group)
        kind = type(own_group).__name__
        check(isinstance(old, type(own_group)), group, describe(old), f"of the type {kind}")
        changes[group] = dataclasses.replace(old, **values)
    return cast(P, dataclasses.replace(cast(Any, policy), **changes))
