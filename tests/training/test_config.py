"""The options of a run are checked when they are made."""

import dataclasses
from typing import Any

import pytest

from dualmctx.policies import AlphaZero, Dual
from dualmctx.training.config import Config, EvalConfig, NetworkOptions


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_iterations": 0}, "num_iterations is 0; it must be at least 1"),
        ({"num_iterations": 1.5}, "num_iterations is 1.5; it must be a whole number"),
        ({"schedule_iterations": 0}, "schedule_iterations is 0"),
        ({"checkpoint_every": 0}, "checkpoint_every is 0"),
        ({"checkpoint_minutes": 0.0}, "checkpoint_minutes is 0.0"),
        ({"checkpoint_minutes": float("nan")}, "checkpoint_minutes is nan"),
        ({"keep": 0}, "keep is 0"),
        ({"seed": 10**30}, f"seed is {10**30}"),
        ({"memory_limit": 0.0}, "memory_limit is 0.0"),
        ({"search": Dual((8, 0))}, "search.num_simulations is 8 0; each tree needs at least 1"),
        ({"game_parameters": {"komi": float("nan")}}, "game_parameters.komi is nan; it must be"),
        (
            {"network": NetworkOptions(factory="a:b", options={"a": float("nan")})},
            "options.a is nan; it",
        ),
        ({"devices": 0}, "devices is 0; it must be at least 1"),
        ({"coordinator": "here"}, "coordinator is here; it must be HOST:PORT or auto"),
        ({"num_processes": 2}, "num_processes is 2; it must be left out without"),
        ({"coordinator": "auto", "process_id": 0}, "process_id is 0; it must be left out without"),
        ({"coordinator": "a:1"}, "num_processes is None; it must be at least 1"),
        ({"coordinator": "a:1", "num_processes": 2}, "process_id is None; it must be from 0 to 1"),
        (
            {"coordinator": "a:1", "num_processes": 2, "process_id": 2},
            "process_id is 2; it must be from 0 to 1 with --num-processes 2",
        ),
    ],
    ids=str,
)
def test_bad_options_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Config(**options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"every": -1}, "every is -1"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"max_positions": 0}, "max_positions is 0"),
        ({"num_games": 0}, "num_games is 0; it must be even and at least 2"),
        ({"every": 0, "stop_when_solved": 2}, "stop_when_solved is 2; it must be 0 with every 0"),
    ],
)
def test_bad_options_of_evals_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        EvalConfig(**options)


def test_good_options_are_accepted() -> None:
    config = Config(search=AlphaZero(1), seed=2**32 - 1, checkpoint_minutes=1e-9, devices=1)
    assert dataclasses.replace(config, keep=9).keep == 9
