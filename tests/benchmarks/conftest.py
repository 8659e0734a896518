"""Fixtures of the benchmarks that train."""

import functools
from collections.abc import Callable
from typing import Any

import pytest

import games
from benchmarks import paper, two_heads_training
from dualmctx.experiment import assemble


@pytest.fixture
def shared_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """All runs of an algorithm have the same programs, because compiling takes most of the time."""

    def once(function: Callable[..., Any], key: Callable[..., Any]) -> Callable[..., Any]:
        known: dict[Any, Any] = {}

        def run(*arguments: Any, **options: Any) -> Any:
            if key(*arguments) not in known:
                known[key(*arguments)] = function(*arguments, **options)
            return known[key(*arguments)]

        return run

    compile_step = once(paper.compile_step, lambda run: run.name)
    for module in (paper, two_heads_training):
        monkeypatch.setattr(module, "compile_step", compile_step)
    build = once(assemble.build_trainer, lambda config, *_: config.search)
    check = once(assemble.check_memory, lambda env, network, config, *_: config.search)
    monkeypatch.setattr(assemble, "build_trainer", build)
    monkeypatch.setattr(assemble, "check_memory", check)
    monkeypatch.setattr("games.make", functools.cache(games.make))
