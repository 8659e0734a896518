"""Each option of each variant changes the search or is refused, unless documents say otherwise."""

import dataclasses
import functools
import re
from typing import Any

import jax
import jax.numpy as jnp
import mctx
import pytest

from documents import read, table
from dualmctx import MPV, AlphaGo, AlphaZero, Chain, Contempt, Dual, with_options
from dualmctx.errors import UserError
from dualmctx.policies import REGISTRY, named_options
from dualmctx.policies.dual import in_rounds
from dualmctx.search.node import Rule
from dualmctx.search.rules import Minimax
from dualmctx.search.select import argmax

B, A = 2, 5
# For each option, another value than the default of any variant.
OTHER: dict[str, Any] = {
    **{"num_simulations": None, "num_rounds": 2, "schedule": "small_first", "head": 0},
    **{"root_head": 0, "root_mix": 0.75},
    **{"value_mix": 0.5, "prior_mix": 0.5, "action_weights": "all_visits"},
    **{"frozen_visit_limit": -2, "frozen_temperature": 0.5},
    **{"rollout_mix": 0.25, "rollout_policy": "uniform", "rollout_length": 3},
    **{"max_num_considered_actions": 2, "gumbel_scale": 0.5, "pb_c_init": 2.0, "pb_c_base": 9.0},
    "qtransform": functools.partial(mctx.qtransform_by_min_max, min_value=-1, max_value=1),
    **{"c_puct": 2.0, "regularized": ("act",), "minimax_mix": 0.4, "rave_visits": 9.0},
    **{"dirichlet_fraction": 0.5, "dirichlet_alpha": 2.0, "temperature": 0.5},
    **{"visit_weights": "smoothed", "window": 2, "explore_fraction": 0.5, "explore_decay": 0.25},
    **{"max_depth": 3, "max_children": 3, "leaves_per_step": 2, "virtual_loss": 2},
    "speculation": 3,
    **{"kernels": "off", "reuse_capacity": 4},
}
# The option on which another one depends, and a value with which that has an effect.
NEEDS = {
    "explore_fraction": {"window": 2},
    "explore_decay": {"window": 2},
    "virtual_loss": {"leaves_per_step": 2},
    "root_mix": {"root_head": 0},
}
# Variants whose search is that of Dual.
AS_DUAL = ("chain", "mpv")
# Options of PUCT that a variant's own rule has to pass on.
PASSED_ON = {"c_puct", "regularized", "minimax_mix", "rave_visits"}
EVERYWHERE = {"num_simulations", "max_depth"}
# Options whose effect on a variant follows from other tests: AlphaZero has them from the same
# base class; or whole trees equal those of the twin (tests/search/test_twin.py), or of mctx
# (tests/search/test_mctx.py), with several values.
ELSEWHERE: dict[str, set[str]] = {
    "contempt": {*named_options(AlphaZero())} - PASSED_ON,
    "alphago": {*named_options(AlphaZero())},
    "dual": EVERYWHERE
    | {"num_rounds", "max_children", "window", "explore_fraction", "explore_decay"}
    | {"value_mix", "prior_mix", "action_weights"},
    "gumbel": EVERYWHERE | {"qtransform", "max_num_considered_actions", "gumbel_scale"},
    "muzero": EVERYWHERE
    | {"qtransform", "pb_c_init", "pb_c_base"}
    | {"dirichlet_fraction", "dirichlet_alpha", "temperature"},
}
# Options without an effect on the result of any search.
NO_EFFECT = {"kernels"}
SIMULATIONS: dict[str, Any] = dict.fromkeys(("dual", "chain", "mpv"), (6, 4))


def base_of(variant: str) -> Any:
    cls: Any = REGISTRY[variant].policy
    rounds = {"num_rounds": 3} if variant in ("dual", "chain") else {}
    return cls(num_simulations=SIMULATIONS.get(variant, 8), **rounds)


def program_of(policy: Any) -> tuple[Any, ...]:
    """Returns everything by which a search can differ: heads, traits and the traced program.

    Its network has only zeros, because a larger one would take longer to trace.
    """

    def refine_fn(params: Any, rng_key: Any, embedding: Any) -> Any:
        return jnp.zeros((*embedding.shape, A)), jnp.zeros(embedding.shape)

    def recurrent_fn(params: Any, rng_key: Any, action: Any, embedding: Any) -> Any:
        logits, value = refine_fn(params, rng_key, embedding)
        output = mctx.RecurrentFnOutput(
            reward=value, discount=value, prior_logits=logits, value=value
        )
        return output, embedding

    def rollout_fn(params: Any, rng_key: Any, embedding: Any) -> Any:
        return jnp.zeros(embedding.shape)

    def search(key: Any) -> Any:
        logits, zeros = jnp.zeros((B, A)), jnp.zeros(B)
        root = mctx.RootFnOutput(prior_logits=logits, value=zeros, embedding=zeros)
        refine = refine_fn if len(policy.heads) > 1 else None
        rollouts = {"rollout_fn": rollout_fn} if policy.traits.rollouts else {}
        return policy((), key, root, recurrent_fn, refine, **rollouts)

    text = str(jax.make_jaxpr(search)(jax.random.key(0)))
    return policy.heads, policy.traits, re.sub(r"0x[0-9a-f]+", "", text)


@functools.cache
def base_program(variant: str, needed: tuple[tuple[str, Any], ...] = ()) -> tuple[Any, ...]:
    return program_of(with_options(base_of(variant), **dict(needed)))


def other_value(variant: str, option: str) -> Any:
    if option != "num_simulations":
        return OTHER[option]
    budget = base_of(variant).num_simulations
    return (*budget[:-1], budget[-1] + 1) if isinstance(budget, tuple) else budget + 1


def test_the_table_has_all_options() -> None:
    assert {x for row in REGISTRY.values() for x in named_options(row.policy())} == OTHER.keys()


def allowed() -> dict[str, dict[str, str]]:
    """Returns the table of allowed combinations: by option, `yes` or `no` for each variant."""
    rows = table("docs/variants.md", "option | alphazero")
    return {row.pop("option").strip("`"): row for row in rows}


@pytest.mark.parametrize("variant", REGISTRY)
def test_an_option_that_the_documents_exclude_is_refused(variant: str) -> None:
    base = base_of(variant)
    refused = {option for option, row in allowed().items() if row[variant] == "no"}
    for option in refused & named_options(base).keys():
        changes = {**NEEDS.get(option, {}), option: OTHER[option]}
        with pytest.raises(UserError, match=rf"^({'|'.join(changes)}) is "):
            with_options(base, **changes)


@pytest.mark.parametrize("variant", [name for name in REGISTRY if name not in AS_DUAL])
def test_an_option_changes_the_search(variant: str) -> None:
    base, table = base_of(variant), allowed()
    assert ELSEWHERE.get(variant, set()) <= named_options(base).keys()
    excluded = {option for option, row in table.items() if row[variant] == "no"}
    for option in named_options(base).keys() - excluded - ELSEWHERE.get(variant, set()):
        needed, changes = NEEDS.get(option, {}), {option: other_value(variant, option)}
        policy = with_options(base, **needed, **changes)
        expected = base_program(variant, tuple(needed.items()))
        assert (program_of(policy) == expected) == (option in NO_EFFECT), option


@pytest.mark.slow
def test_the_options_change_other_searches_with_two_trees_as_they_change_dual() -> None:
    """Tracing them for each option would take most of this file's time."""
    budgets, num_rounds = other_value("dual", "num_simulations"), OTHER["num_rounds"]
    refused = {option for option, row in allowed().items() if row["dual"] == "no"}
    options = named_options(Dual()).keys() - {"num_simulations", "num_rounds", *refused}
    changes = {option: OTHER[option] for option in options}
    heads, traits, program = program_of(with_options(Dual(budgets, num_rounds), **changes))
    chain = with_options(Chain(budgets, num_rounds), **changes)
    assert program_of(chain) == (heads, traits, program)
    mpv = with_options(MPV(budgets, in_rounds(budgets, num_rounds)), **changes)
    assert program_of(mpv) == (heads, dataclasses.replace(traits, separate_trunks=True), program)
    for variant in AS_DUAL:
        own = named_options(base_of(variant)).keys() - {*changes, *refused}
        assert own <= {"num_simulations", "num_rounds", "schedule"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variant", "off", "option"),
    [
        ("alphazero", {}, "explore_fraction"),
        ("alphazero", {}, "explore_decay"),
        ("alphazero", {}, "virtual_loss"),
        ("alphazero", {"dirichlet_fraction": 0.0}, "dirichlet_alpha"),
        ("contempt", {"frozen_visit_limit": None}, "frozen_temperature"),
        ("alphago", {"rollout_mix": 0.0}, "rollout_policy"),
        ("alphago", {"rollout_mix": 0.0}, "rollout_length"),
        ("dual", {"num_simulations": (6, 0)}, "num_rounds"),
        ("dual", {"num_simulations": (6, 0)}, "value_mix"),
        ("dual", {"num_simulations": (0, 6)}, "prior_mix"),
    ],
)
def test_documents_name_options_that_others_switch_off(
    variant: str, off: dict[str, Any], option: str
) -> None:
    base = with_options(base_of(variant), **off)
    *_, expected = program_of(base)
    *_, program = program_of(with_options(base, **{option: OTHER[option]}))
    assert program == expected
    [sentence] = re.findall(r"- Without effect:.*?\n(?=-|\n)", read("docs/variants.md"), re.DOTALL)
    assert f"`{option}`" in sentence


@dataclasses.dataclass(frozen=True)
class MostLikely(Rule):
    def __call__(self, rng_key: Any, node: Any) -> Any:
        return argmax(node.prior)


class OwnRule(AlphaZero):
    """A variant with a rule of its own."""

    def make_rule(self) -> Any:
        return MostLikely()


def test_a_function_is_no_rule() -> None:
    class Function(AlphaZero):
        def make_rule(self) -> Any:
            return lambda _, node: argmax(node.prior)

    with pytest.raises(UserError, match=r"rule is .*Rule"):
        program_of(Function(4))


def test_statistics_need_one_leaf_per_step() -> None:
    class Counting(AlphaZero):
        def make_statistics(self) -> Any:
            return (Minimax(),)

    program_of(Counting(4))
    with pytest.raises(UserError, match="statistics is minimax; it must be none where several"):
        program_of(with_options(Counting(4), leaves_per_step=2))


def test_guesses_need_a_rule_without_samples() -> None:
    policy = with_options(OwnRule(4), speculation=3)
    with pytest.raises(UserError, match="speculation is 3; it must be 1 with the rule MostLikely"):
        program_of(policy)


def test_a_rule_of_its_own_has_the_policy_of_the_root() -> None:
    plain, learned = OwnRule(4), with_options(OwnRule(4), regularized=("act", "learn"))
    assert program_of(plain) != program_of(learned)


@pytest.mark.parametrize(
    "options",
    [
        {"head": 0, "root_head": -1, "reuse_capacity": 3, "max_children": 3},
        {"leaves_per_step": 4, "virtual_loss": 3, "regularized": ("act",)},
    ],
)
@pytest.mark.parametrize("variant", [Contempt, AlphaGo])
def test_a_variant_without_its_own_option_is_alphazero(
    variant: Any, options: dict[str, Any]
) -> None:
    expected = with_options(AlphaZero(8), **options)
    shared = {x.name: getattr(expected, x.name) for x in dataclasses.fields(expected)}
    own = {Contempt: {"frozen_visit_limit": None}, AlphaGo: {"rollout_mix": 0.0}}
    assert program_of(variant(**shared, **own[variant])) == program_of(expected)
