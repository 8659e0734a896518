"""The engine against its slow twin: whole trees of every variant on the hash game.

The rows are pairwise covering arrays: every two values of any two factors occur together, as far as
the policies allow them together. The rows of a test share one compiled search.
"""

import collections
import dataclasses
import itertools
import random
from typing import Any

import numpy as np
import pytest

from dualmctx import MPV, AlphaZero, Chain, Contempt, Dual, Gumbel, MuZero, with_options
from dualmctx.errors import UserError
from dualmctx.policies import named_options
from oracle import options
from oracle.alphago import HashAlphaGo
from oracle.cases import CALM, RULES
from oracle.compare import assert_twin_agrees
from pairwise import Row, cover, name_of, product, quick_first

INVALID = np.eye(4, dtype=bool)
INVALID[3] = [True, False, True, True]


def shuffled(small: int, large: int, seed: int) -> tuple[int, ...]:
    slots = [0] * small + [1] * large
    random.Random(seed).shuffle(slots)
    return tuple(slots)


POLICIES: dict[str, Any] = {
    "alphazero": AlphaZero(40, **CALM),
    "contempt": Contempt(40, 3, **CALM),
    "alphago": HashAlphaGo(40, **CALM),
    "dual": Dual((23, 10), 3, **CALM),
    # More of the large tree than the small one can propose: it runs by itself all the time.
    "dual starved": Dual((10, 16), 16, **CALM),
    "chain": Chain((14, 9, 8), 4, **CALM),
    # Later trees run out of nodes to evaluate and find nodes that earlier trees lack.
    "chain starved": Chain((5, 9, 12), 12, **CALM),
    "mpv": MPV((17, 11), **CALM),
    "mpv starved": MPV((9, 14), shuffled(9, 14, 2), **CALM),
    "muzero": with_options(MuZero(40), dirichlet_fraction=0.0),
    "gumbel": Gumbel(40, gumbel_scale=0.0),
}
# The options that a value of a factor stands for.
CHANGES: dict[str, dict[str, Any]] = {
    "minimax": {"minimax_mix": 0.4},
    "minimax and rave": {"minimax_mix": 0.3, "rave_visits": 20.0},
    "smoothed": {"visit_weights": "smoothed"},
    **{x: {"action_weights": x} for x in ("small_visits", "all_visits", "large_visits")},
    "regularized": {"action_weights": "regularized"},
    "depth": {"max_depth": 3},
    "children": {"max_children": 3},
    "leaves": {"leaves_per_step": 8},
    # The budget of 40 shortens the last step, unless collisions already did.
    "lost leaves": {"leaves_per_step": 3, "virtual_loss": 3},
    **{f"window {n}": {"window": n, "explore_fraction": 0.0} for n in (1, 60)},
    "explores": {"window": 2, "explore_fraction": 0.6, "explore_decay": 0.8},
    "explores at once": {"window": 1, "explore_fraction": 1.0, "explore_decay": 0.25},
    **{f"mixes {a} {b}": {"value_mix": a, "prior_mix": b} for a, b in ((1, 0), (0, 1), (0.3, 0.6))},
    "limit 1": {"frozen_visit_limit": 1},
    "limit -3": {"frozen_visit_limit": -3, "frozen_temperature": 0.5},
    "limit 10": {"frozen_visit_limit": 10, "frozen_temperature": 50.0},
    "c 0.3": {"c_puct": 0.3},
    "c 4": {"c_puct": 4.0},
}
EXECUTION = {"depth": ("", "depth"), "children": ("", "children")}
WINDOWS = ("window 1", "window 60", "explores", "explores at once")
# Functions of the statistics at the root, which need no pairs with other options.
READOUTS = ("weights",)
# The families of variants. Each combination of the first factors takes a compilation; the values of
# the others are traced, and so are windows, apart from there being one.
FAMILIES: dict[str, tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]] = {
    "one tree": (
        {
            "policy": ("alphazero", "contempt", "alphago"),
            "values": ("", "minimax", "minimax and rave"),
            "rule": ("", "search"),
            "weights": ("", "smoothed", "act", "learn"),
            "leaves": ("", "leaves", "lost leaves"),
            **EXECUTION,
        },
        {"numbers": ("", "limit 1", "limit -3", "limit 10", "c 0.3", "c 4")},
    ),
    "several trees": (
        {
            "policy": ("dual", "chain", "mpv"),
            "budgets": ("", "starved"),
            "weights": ("small_visits", "all_visits", "large_visits", "regularized"),
            **EXECUTION,
        },
        {"numbers": ("", "mixes 1 0", "mixes 0 1", "mixes 0.3 0.6")},
    ),
    "mctx": ({"policy": ("muzero", "gumbel"), "depth": ("", "depth")}, {}),
}


KNOWN = {name: named_options(policy).keys() for name, policy in POLICIES.items()}


def build(row: Row) -> Any:
    """Returns the policy of a row, or raises a `UserError` if options exclude each other."""
    changes = dict[str, Any]()
    for value in row.values():
        changes |= CHANGES.get(value, {})
    if regularized := tuple(x for x in row.values() if x in ("act", "learn", "search")):
        changes["regularized"] = regularized
    return with_options(POLICIES[f"{row['policy']} {row.get('budgets', '')}".strip()], **changes)


def has_twin(row: Row) -> bool:
    """Returns whether the compiled part of a row has a policy, and a twin of it."""
    try:
        policy = build(row | {"windowed": "window 1" if row["windowed"] else ""})
    except UserError:
        return False
    if row["policy"] == "alphago" and options.are_used(policy):
        return False
    # Samples of actions are by slots.
    samples = row["policy"] == "contempt" or row.get("rule") == "search"
    return not (row.get("children") and samples)


def goes_with(program: Row, other: Row) -> bool:
    """Returns whether a program has the options of the traced part of a row."""
    known = KNOWN[program["policy"]]
    is_known = all(name in known for name in CHANGES.get(other.get("numbers", ""), {}))
    if program["policy"] == "mpv" and "explores" in other["window"]:
        return False  # Its twin goes slot by slot, and has no exploration.
    if program["policy"] == "muzero" and other["rules"] == "ties everywhere":
        return False  # Values are scaled by their range, which is of rounding errors there.
    return is_known and bool(program["windowed"]) == bool(other["window"])


def programs_of(family: str) -> dict[str, list[Row]]:
    """Returns the rows that share a program, by its name."""
    compiled, traced = FAMILIES[family]
    some = cover(filter(has_twin, product(**compiled, windowed=("", "windowed"))), READOUTS)
    others = product(**traced, window=("", *WINDOWS), invalid=("", "invalid"), rules=RULES)
    rows = cover(one | other for one in some for other in others if goes_with(one, other))
    return {name_of(one): [row for row in rows if one.items() <= row.items()] for one in some}


PROGRAMS = {family: programs_of(family) for family in FAMILIES}
CASES = list(itertools.chain(*(quick_first(programs, 2) for programs in PROGRAMS.values())))


@pytest.mark.parametrize("program", CASES)
def test_whole_trees_match_twin(program: str) -> None:
    [rows] = [programs[program] for programs in PROGRAMS.values() if program in programs]
    for row in rows:
        policy, rules, invalid = build(row), RULES[row["rules"]], None
        if row["invalid"]:  # The action that stays valid must be legal.
            rules, invalid = rules._replace(illegal=0.0), INVALID
        try:
            results = assert_twin_agrees(policy, rules, invalid=invalid)
        except AssertionError as error:
            error.add_note(str(row))
            raise
        counts = collections.Counter()
        for result in results:
            numbers = dataclasses.asdict(result.counters)
            counts.update({name: n for name, n in numbers.items() if isinstance(n, int)})
        assert_events(row, counts)


def assert_events(row: Row, counts: collections.Counter[str]) -> None:
    """Checks that a search did what its options are for, in games with room for it."""
    if row["rules"] in ("often terminal", "tiny", "one legal action", "single player"):
        return
    # Gumbel does not explore at the root, and few of its other nodes have a height above 2.
    is_wide = row["policy"] == "gumbel" and row["window"] == "explores"
    if row["window"].startswith("explores") and not is_wide:
        assert counts["explored"] > 0
    if row.get("children"):
        assert counts["pruned"] > 0
    if row["policy"] == "contempt" and (row["window"], row["numbers"]) != ("window 1", "limit 10"):
        assert counts["sampled"] > 0
    if row["depth"] and row["policy"] in FAMILIES["one tree"][0]["policy"]:
        assert counts["depth_hits"] > 0
    # With all four actions legal, losses send the three leaves of a step to different places.
    is_full = row["rules"] in ("all legal", "no illegal, no end", "ties everywhere")
    if row.get("leaves") == "leaves" or (row.get("leaves") and not is_full):
        assert counts["collisions"] > 0
    if row.get("budgets"):
        assert counts["fallbacks"] > 0
        assert counts["adopted"] > 0
