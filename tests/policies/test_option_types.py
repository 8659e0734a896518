"""Options of every class take numbers of Python, NumPy and JAX, and refuse what is no number."""

import dataclasses
import fractions
import functools
import json
import types
import typing
from typing import Any

import jax
import jax.numpy as jnp
import mctx
import numpy as np
import pytest

from dualmctx import AlphaZero, Backup, Execution, Gumbel, MuZero, Puct, Root, with_options
from dualmctx.errors import UserError
from dualmctx.pipeline.options import (
    GamesOptions,
    PlayerOptions,
    ReinforceOptions,
    SupervisedOptions,
    ValueOptions,
)
from dualmctx.policies import REGISTRY
from dualmctx.runs.folder import to_dict
from dualmctx.training.config import Config
from dualmctx.training.learner import Learner
from dualmctx.training.selfplay import SelfPlay

CLASSES = [Puct, Root, Backup, Execution, SelfPlay, Learner, Config]
CLASSES += [GamesOptions, SupervisedOptions, ReinforceOptions, ValueOptions, PlayerOptions]
CLASSES += [row.policy for row in REGISTRY.values()]
# A valid number of each option whose default is none.
NUMBERS = {
    "rave_visits": 50.0,
    "resign_below": -0.5,
    "checkpoint_minutes": 2.0,
    "memory_limit": 2.0,
    "schedule_iterations": 4,
    "devices": 1,
    "window": 3,
    "max_depth": 5,
    "max_children": 4,
    "rollout_length": 9,
    "root_head": 0,
    "random_share": 0.25,
    "max_opening_plies": 5,
}
# Options that fit the small numbers of this test.
SMALL = {ValueOptions: {"batch_size": 64}}
# Checked together with the address of the first process.
OTHERS = {"num_processes", "process_id"}


def numeric_options() -> list[tuple[type, str, bool]]:
    """Returns class and name of each option that is a number, and whether it may be none."""
    found = []
    for cls in CLASSES:
        for name, hint in typing.get_type_hints(cls).items():
            is_union = typing.get_origin(hint) is types.UnionType
            kinds = typing.get_args(hint) if is_union else (hint,)
            if {int, float} & set(kinds) and name not in OTHERS:
                found.append((cls, name, type(None) in kinds))
    return found


OPTIONS = numeric_options()


def build(cls: type, name: str, value: Any) -> Any:
    return getattr(make(cls, name, value), name)


def make(cls: type, name: str, value: Any) -> Any:
    return cls(**SMALL.get(cls, {}) | {name: value})


def valid_number(cls: type, name: str) -> Any:
    value = NUMBERS.get(name)
    return getattr(cls(), name) if value is None else value


def test_the_table_has_the_options_of_all_groups() -> None:
    assert len(OPTIONS) > 60
    named = {name for _, name, _ in OPTIONS}
    assert {"c_puct", "window", "num_rounds", "gumbel_scale", "learning_rate", "keep"} <= named


def forms_of(value: Any) -> list[Any]:
    """Returns a number as NumPy's and JAX's, with and without an array around it."""
    if isinstance(value, float):
        return [np.float32(value), np.float64(value), np.array(value), jnp.asarray(value)]
    return [np.int8(value), np.int32(value), np.int64(value), np.array(value), jnp.asarray(value)]


def check_forms(cls: type, name: str) -> None:
    """Checks that numbers of NumPy and JAX become Python's, with the same hash."""
    number = valid_number(cls, name)
    if abs(number) > 127:
        number = type(number)(100)
    for given in forms_of(number):
        found = build(cls, name, given)
        assert type(found) is type(number), given
        assert found == np.asarray(given)
    plain, other = (make(cls, name, x) for x in (number, np.asarray(number)))
    assert plain == other
    json.dumps(to_dict(other))
    if cls is not Config:  # Its dictionaries have no hash.
        assert hash(plain) == hash(other)


NO_NUMBERS = [True, np.True_, "1", b"1", float("nan"), 1j, [1], (1, 2), {}]
NO_NUMBERS += [np.array([1, 2]), jnp.ones(1), np.array("1"), object(), int, jax.random.key(0)]


def check_no_numbers(cls: type, name: str, may_be_none: bool) -> None:
    """Checks that a value of another type is refused by name."""
    for value in [*NO_NUMBERS, *([] if may_be_none else [None])]:
        with pytest.raises(UserError, match=rf"^(evals\.)?{name} is .*; it must be ") as info:
            build(cls, name, value)
        assert "\n" not in str(info.value), value
    # A traced number has no value that an option could have.
    with pytest.raises(
        UserError, match=rf"^{name} is an array of \S+ with the shape \[\]; it must "
    ):
        jax.eval_shape(lambda x: build(cls, name, x), jnp.float32(1))


def check_large_numbers(cls: type, name: str) -> None:
    """Checks that numbers that float32 cannot hold are refused."""
    if name in ("head", "root_head"):  # The heads of the network limit them.
        return
    if name == "max_gradient_norm":
        assert build(cls, name, float("inf")) == float("inf")
        return
    for value in (float("inf"), -float("inf"), 1e39, 10**400, fractions.Fraction(10**60)):
        with pytest.raises(UserError, match=f"^{name} is "):
            build(cls, name, value)


@pytest.mark.parametrize("cls", CLASSES)
def test_options_take_numbers_and_nothing_else(cls: type) -> None:
    for _, name, may_be_none in (x for x in OPTIONS if x[0] is cls):
        check_forms(cls, name)
        check_no_numbers(cls, name, may_be_none)
        check_large_numbers(cls, name)


def test_options_of_policies_that_are_no_numbers_refuse_other_types() -> None:
    numeric = {(cls, name) for cls, name, _ in OPTIONS} | {
        (REGISTRY[x].policy, "num_simulations") for x in SEVERAL
    }
    others = [
        (cls, field.name)
        for cls in (Puct, Root, Backup, Execution, *(row.policy for row in REGISTRY.values()))
        for field in dataclasses.fields(cls)
        if (cls, field.name) not in numeric
    ]
    assert {"schedule", "qtransform", "kernels", "puct", "action_weights"} <= {x for _, x in others}
    for cls, name in others:
        for value in [*NO_NUMBERS, None, 1, (None,), (["act"],)]:
            if name == "qtransform" and callable(value):
                continue
            with pytest.raises(UserError, match=rf"^{name} is [^\n]*; it must be [^\n]*$"):
                build(cls, name, value)


SEVERAL = ("dual", "chain", "mpv")
BUDGETS = [np.array([50, 35]), "50 35", None, (True, 3), (50, "35"), (np.array([1, 2]), 3)]


@pytest.mark.parametrize("name", SEVERAL)
def test_budgets_of_several_trees_are_whole_numbers(name: str) -> None:
    cls: Any = REGISTRY[name].policy
    for given in ([9, 3], (np.array(9), jnp.asarray(3)), [9, np.int8(3)]):
        found = cls(num_simulations=given, **({} if name == "mpv" else {"num_rounds": 3}))
        assert found.num_simulations == (9, 3)
        assert [type(x) for x in found.num_simulations] == [int, int]
        assert hash(found)
    for given in BUDGETS:
        with pytest.raises(UserError, match=r"^num_simulations is .*; it must be two numbers"):
            cls(num_simulations=given)


@pytest.mark.parametrize(
    ("cls", "options", "sentence"),
    [
        (Puct, {"rave_visits": "9"}, "a number, positive and finite, or none for no RAVE"),
        (Puct, {"c_puct": 1e39}, "c_puct is 1e\\+39; it must be at most 3.4e\\+38"),
        (Puct, {"regularized": np.array(["act"])}, "regularized is an array of"),
        (Execution, {"kernels": True}, "kernels is True; it must be one of auto, on"),
        (Gumbel, {"qtransform": "completed"}, "qtransform is 'completed'; it must be a function"),
        (AlphaZero, {"puct": 3}, "puct is 3; it must be of the type Puct, such as Puct\\(\\)"),
        (AlphaZero, {"backup": Backup}, "backup is the class Backup; it must be of the type Back"),
        (Config, {"network": "mlp"}, "network is 'mlp'; it must be of the type NetworkOptions"),
    ],
)
def test_other_values_are_refused_with_a_remedy(cls: Any, options: dict, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        cls(**options)


def test_options_are_those_of_a_policy() -> None:
    policy: Any = AlphaZero
    with pytest.raises(UserError, match=r"^policy is the class AlphaZero; pass AlphaZero\(\)"):
        with_options(policy, window=3)
    with pytest.raises(UserError, match=r"^policy is None; pass one, such as"):
        with_options(None, window=3)
    assert with_options(AlphaZero(), window=np.int64(3)).backup == Backup(window=3)


def test_config_stores_qtransform_by_name() -> None:
    """Runs store their options as JSON, which cannot hold functions."""
    scaled = functools.partial(mctx.qtransform_by_min_max, min_value=-1.0, max_value=1.0)
    assert to_dict(MuZero())["qtransform"] == "qtransform_by_parent_and_siblings"
    expected = {"function": "qtransform_by_min_max", "min_value": -1.0, "max_value": 1.0}
    assert to_dict(Gumbel(qtransform=scaled))["qtransform"] == expected
