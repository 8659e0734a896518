"""The options that search variants share, in groups, and options by their short names.

A policy has a field for each group that applies to it, with the name of the group in lower case. A
group checks the ranges of its own options; `dualmctx.policies.conflicts` checks for conflicts. A
short name, such as `window` for `policy.backup.window`, identifies one option, because the fields
of a policy and those of its groups have different names.
"""

import dataclasses
import math
from typing import Any, Literal, NamedTuple, Self, TypeVar, cast, get_args, get_type_hints

from dualmctx.checks import (
    check,
    check_choice,
    check_count,
    check_not_negative,
    check_positive,
    check_share,
    describe,
    is_whole,
    normalize_options,
    show,
)
from dualmctx.errors import UserError
from dualmctx.types import Kernels

P = TypeVar("P")


@dataclasses.dataclass(frozen=True)
class Puct:
    """Options of the selection rule PUCT.

    Raises:
      ValueError: if an option is out of range.

    Source: Silver et al. 2017 (arXiv 1712.01815). c is a constant, as in AlphaGo Zero.
    """

    c_puct: float = 1.25
    """Weight c of exploration; positive."""
    regularized: tuple[Literal["act", "search", "learn"], ...] = ()
    """Where the regularised policy of Grill et al. replaces visit counts. act: moves are sampled
    from it. search: it replaces PUCT, and actions are sampled from it at each node. learn:
    it is the training target. Needs a variant with one tree."""
    minimax_mix: float = 0.0
    """Weight of the implicit minimax value in Q, in [0, 1]; 0 uses the mean alone, 0.4 is the
    published value. Needs a variant with one tree."""
    rave_visits: float | None = None
    """For RAVE, the number of visits of a node at which the mean of an action and its
    all-moves-as-first mean have equal weight; positive; 1000 is the published value; none turns
    RAVE off. Needs a variant with one tree."""

    def __post_init__(self) -> None:
        """Checks the options."""
        normalize_options(self)
        check_positive(self, "c_puct")
        check_share(self, "minimax_mix")
        check_positive(self, "rave_visits", none_means="for no RAVE")
        uses, known = self.regularized, ("act", "search", "learn")
        is_valid = isinstance(uses, tuple) and all(use in known for use in uses)
        is_valid = is_valid and len(set(uses)) == len(uses)
        remedy = "a tuple of some of act, search and learn, each at most once, or empty"
        check(is_valid, "regularized", show(uses), remedy)


@dataclasses.dataclass(frozen=True)
class Root:
    """Options of the root: noise in its prior, and how its visits become an action and a target.

    Raises:
      ValueError: if an option is out of range.

    Source: Silver et al. 2017 (AlphaGo Zero), "Self-play".
    """

    dirichlet_fraction: float = 0.25
    """Weight of the noise in the root's prior, in [0, 1]; 0 for evaluation."""
    dirichlet_alpha: float = 0.3
    """Concentration of that noise; positive, about 10 / (number of legal moves)."""
    temperature: float = 1.0
    """The action is sampled in proportion to weights^(1/temperature); at least 0 and finite; 0
    takes the action with the largest weight. Self-play and evals do not use this action: self-play
    samples with its own temperatures, and evals take the largest weight."""
    visit_weights: Literal["plain", "smoothed"] = "plain"
    """How visits N become weights. plain: N(a) / ΣN. smoothed: (1 + N(a)) / (n + ΣN), where n is
    the number of legal actions. Needs a variant with PUCT and one tree."""

    def __post_init__(self) -> None:
        """Checks the options."""
        normalize_options(self)
        check_share(self, "dirichlet_fraction")
        check_positive(self, "dirichlet_alpha")
        check_not_negative(self, "temperature")
        check_choice("visit_weights", self.visit_weights, ("plain", "smoothed"))

    def for_evaluation(self) -> Self:
        """Returns the options for evaluation: no noise, and the action with the largest weight."""
        return dataclasses.replace(self, dirichlet_fraction=0.0, temperature=0.0)


@dataclasses.dataclass(frozen=True)
class Backup:
    """Which edges of a path a backup updates, and the exploration that goes with a window.

    The sliding window and its epsilon-greedy exploration apply to any tree search.

    Raises:
      ValueError: if an option is out of range.

    Source: Kadam, Xu, Lieberherr 2021, section 3.
    """

    window: int | None = None
    """Number of edges that a backup updates, counted from the leaf, at least 1; none for all."""
    explore_fraction: float = 0.05
    """Probability, in [0, 1], of a uniformly random legal action at the root once the tree is
    higher than the window; not used without a window."""
    explore_decay: float = 0.5
    """Factor by which that probability falls per ply, in [0, 1]; not used without a window."""

    def __post_init__(self) -> None:
        """Checks the options."""
        normalize_options(self)
        check_count("window", self.window, 1, "for full backups")
        check_share(self, "explore_fraction", "explore_decay")


@dataclasses.dataclass(frozen=True)
class Execution:
    """How simulations run: their depth, the children of a node, parallel leaves, and speculation.

    Raises:
      ValueError: if an option is out of range.

    Source: Liu et al. 2020 for parallel leaves; Silver et al. 2016 for the virtual loss.
    Speculation is ours.
    """

    max_depth: int | None = None
    """Largest number of edges of a simulation, at least 1; none for no limit."""
    max_children: int | None = None
    """Limit of the children of a node, at least 1: only the actions with the largest priors are
    searched; none for all. Saves memory and time in large action spaces. Exact at nodes with no
    more legal actions: chess has 4,672 actions, and 128 suffice in nearly all positions. Needs
    PUCT."""
    leaves_per_step: int = 1
    """Largest number of leaves per root and step, at least 1; 1 is the ordinary search. The leaves
    of a step are selected one after the other, each with the virtual visits of those before it, and
    evaluated in one call. A descent that reaches a leaf of the same step ends the step for its
    root, so each simulation evaluates a new position or ends where the ordinary search would. Meant
    for large budgets on few roots; a step rarely has more than 10 leaves, so 8 to 16 suffice. Needs
    a variant with PUCT and one tree."""
    virtual_loss: int = 0
    """With several leaves per step, the number of lost visits that a leaf counts as until its value
    is known, at least 0; 0 counts one visit that leaves Q unchanged; 3 is AlphaGo's value. Larger
    numbers give more leaves per step and worse moves. Needs a variant with PUCT and one tree."""
    speculation: int = 1
    """Largest number of positions per root that one call evaluates, at least 1: the leaf that the
    search asks for, and guesses of its next ones. 1 is the ordinary search. The search is the same
    for any number, up to rounding; only the number of calls falls. For a guess, a leaf has the
    value of its parent. Nodes that are guessed in vain take memory, for up to half as many nodes as
    simulations. Meant for one root or a few; 4 was the fastest of 4 and 16 on a CPU. Runs in
    XLA's loops, never in GPU kernels. Needs AlphaZero."""

    kernels: Kernels = "auto"
    """Whether simulations run in GPU kernels. auto: if JAX's default device is an NVIDIA GPU. off:
    never; XLA's loops give the same search. on: in programs for CUDA, even if a process without a
    GPU lowers them. interpret: on every platform, slowly, for tests. With a custom qtransform,
    the descent runs in XLA's loops, and the rest in kernels."""

    def __post_init__(self) -> None:
        """Checks the options."""
        normalize_options(self)
        check_choice("kernels", self.kernels, get_args(Kernels))
        check_count("max_depth", self.max_depth, 1, "for no limit")
        check_count("max_children", self.max_children, 1, "for all")
        check_count("leaves_per_step", self.leaves_per_step, 1)
        check_count("virtual_loss", self.virtual_loss, 0)
        check_count("speculation", self.speculation, 1)


# The slope is our reading: the paper gives no number.
_SLOPE, _LEAST = 0.35, 2


def window_for(num_states: int, max_depth: int) -> int:
    """Returns a window τ that grows with the logarithm of the state space.

    Formula: clip(round(0.35 · log2 |S|), 2, D). The paper says that τ grows "proportionally to the
    state space logarithmically" and gives no number; slope and bounds are our reading.

    Args:
      num_states: |S|, the number of reachable states of the game, at least 1. An estimate
        suffices, because a factor of 2 changes τ by only 0.35 edges.
      max_depth: D, the number of plies of the longest game, at least 1. A window of D edges gives
        full backups.

    Returns:
      A value for the option `window` of `Backup`, in edges, from 1 to D; below 2 only if D is 1.

    Raises:
      ValueError: if a number is out of range.

    Source: Kadam, Xu, Lieberherr 2021, section 3.
    """
    # Not `check_count`, because the number of states may exceed 32 bits.
    is_valid = is_whole(num_states) and num_states >= 1
    check(is_valid, "num_states", describe(num_states), "a whole number, at least 1")
    check_count("max_depth", max_depth, 1)
    return min(max(round(_SLOPE * math.log2(num_states)), _LEAST), max_depth)


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
