"""Policies and kinds of hash games that the twin's tests share; each policy compiles once."""

import functools
from typing import Any

import jax

from dualmctx import AlphaZero, Dual, with_options
from hash_model import Rules

# Most of the time is compiling; the results are the same.
fast_jit = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


def grouped(base: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    """Returns groups of options, as keyword arguments of a policy, with the named options."""
    policy = with_options(AlphaZero(**base or {}), **options)
    return {name: getattr(policy, name) for name in ("puct", "root", "backup", "execution")}


CALM = grouped(dirichlet_fraction=0.0)
WINDOWED = grouped(CALM, window=1, explore_fraction=0.0)

# Kinds of games, each the plain one with a difference.
RULES = {
    "plain": Rules(),
    "all legal": Rules(illegal=0.0),
    "one legal action": Rules(illegal=1.0, terminal=0.02),
    "ties everywhere": Rules(spread=0.0, illegal=0.0, terminal=0.05),
    "no illegal, no end": Rules(illegal=0.0, terminal=0.0),
    "single player": Rules(same_player=1.0, reward=0.5),
    "same player twice": Rules(same_player=0.4, reward=0.3),
    "often terminal": Rules(terminal=0.5),
    "tiny": Rules(terminal=0.75, same_player=0.3, reward=0.5),
}
FEW_RULES = [RULES[name] for name in ("plain", "same player twice", "often terminal", "tiny")]

ALPHAZERO = AlphaZero(40, **CALM)
ALPHAZERO_WINDOWED = AlphaZero(40, **WINDOWED)
ALPHAZERO_DEEP = AlphaZero(40, **grouped(WINDOWED, max_depth=3))
# The large tree alone, and the small tree alone under a window that reaches the root.
LARGE_ALONE = Dual((0, 40), 3, **CALM)
SMALL_ALONE = Dual((40, 0), **grouped(WINDOWED, window=40))

SEQUENTIAL = Dual((20, 15), 1, action_weights="large_visits", **CALM)
ROUNDS = Dual((23, 10), 3, action_weights="regularized", **CALM)
# More of the large tree than the small one can propose: it runs by itself all the time.
INTERLEAVED = Dual((10, 16), 16, action_weights="all_visits", **CALM)
# Leaves at the largest depth count many times before the large tree looks at them, and after.
SHALLOW = Dual((30, 9), 4, action_weights="small_visits", **grouped(CALM, max_depth=2))
DUAL_WINDOWED = Dual((23, 13), 2, action_weights="small_visits", **WINDOWED)

POLICIES = {
    "sequential": SEQUENTIAL,
    "rounds": ROUNDS,
    "interleaved": INTERLEAVED,
    "shallow": SHALLOW,
}
