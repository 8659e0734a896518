"""The options of a run are checked when they are made."""

from typing import Any

import pytest

from dualmctx.policies import AlphaZero, Dual
from dualmctx.training.config import Config, EvalConfig, NetworkOptions
from dualmctx.training.learner import Learner
from dualmctx.training.selfplay import SelfPlay

NAN = float("nan")
TWO = {"coordinator": "a:1", "num_processes": 2}


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        (Config, {"num_iterations": 1.5}, "num_iterations is 1.5; it must be a whole number"),
        (Config, {"schedule_iterations": 0}, "schedule_iterations is 0"),
        (Config, {"checkpoint_every": 0}, "checkpoint_every is 0; it must be at least 1"),
        (Config, {"checkpoint_minutes": NAN}, "checkpoint_minutes is nan"),
        (Config, {"seed": 10**30}, f"seed is {10**30}"),
        (Config, {"memory_limit": 0.0}, "memory_limit is 0.0"),
        (Config, {"search": Dual((8, 0))}, "num_simulations is 8 0; each tree needs at least 1"),
        (Config, {"game_parameters": {"komi": NAN}}, "game_parameters.komi is nan; it must be"),
        (
            Config,
            {"network": NetworkOptions(factory="a:b", options={"a": NAN})},
            "options.a is nan; it",
        ),
        (Config, {"devices": 0}, "devices is 0; it must be at least 1"),
        (Config, {"coordinator": "here"}, "coordinator is here; it must be HOST:PORT or auto"),
        (Config, {"num_processes": 2}, "num_processes is 2; it must be left out without"),
        (Config, {"coordinator": "auto", "process_id": 0}, "process_id is 0; it must be left out"),
        (Config, {"coordinator": "a:1"}, "num_processes is None; it must be at least 1"),
        (Config, TWO, "process_id is None; it must be from 0 to 1"),
        (Config, TWO | {"process_id": 2}, "process_id is 2; it must be from 0 to 1 with --num-pro"),
        (EvalConfig, {"every": -1}, "every is -1"),
        (EvalConfig, {"batch_size": 0}, "batch_size is 0"),
        (EvalConfig, {"num_games": 0}, "num_games is 0; it must be even and at least 2"),
        (EvalConfig, {"every": 0, "stop_when_solved": 2}, "is 2; it must be 0 with every 0"),
        (Learner, {"learning_rate": NAN}, "^learning_rate is nan; it must be positive and finite$"),
        (Learner, {"max_gradient_norm": -1.0}, "must be positive$"),
        (Learner, {"batch_size": 0}, "batch_size is 0; it must be at least 1$"),
        (Learner, {"warmup_steps": 2.5}, "must be a whole number, at least 0$"),
        (Learner, {"weight_decay": -0.1}, "must be at least 0 and finite$"),
        (Learner, {"search_value_weight": 1.1}, "must be between 0 and 1$"),
        (SelfPlay, {"num_steps": 0}, "num_steps is 0; it must be at least 1"),
        (SelfPlay, {"random_plies": 10**11}, r"a whole number from 0 to 2\*\*31 - 2"),
        (SelfPlay, {"temperature": float("inf")}, "is inf; it must be from 0 to 1,000,000"),
        (SelfPlay, {"resign_below": -1.0}, "must be above -1 and below 0"),
        (SelfPlay, {"play_on_fraction": 1.5}, "must be between 0 and 1"),
    ],
    ids=str,
)
def test_bad_options_are_refused(kind: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        kind(**options)


def test_good_options_are_accepted() -> None:
    Config(search=AlphaZero(1), seed=2**32 - 1, checkpoint_minutes=1e-9, devices=1)
