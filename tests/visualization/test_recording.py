"""Recordings of searches: exact, complete, and with scores that explain the choices."""

import functools
import importlib.metadata
import itertools
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest

from dualmctx.visualization import recording as recordings
from recorded import (
    POLICIES,
    candidates_of,
    choices,
    ordinary_output,
    position,
    record,
    replay_changes,
    search_of,
)

PRESETS = ("connect2", "nim", "hsr")
CASES = dict(zip(POLICIES, itertools.cycle(PRESETS), strict=False))
# Parallel leaves, several trees, and a rule for the root.
EXACT = ("several leaves", "dual", "gumbel")
OTHERS = [name for name in POLICIES if name not in EXACT]


# XLA rounds products and sums of a step as in the ordinary search only with its default options;
# conftest.py sets others, which save time.
_DEFAULTS: dict[str, Any] = {"xla_backend_optimization_level": 3}
if importlib.metadata.version("jaxlib").startswith("0.10."):
    _DEFAULTS["xla_cpu_use_fusion_emitters"] = True


@pytest.fixture
def default_rounding(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Compiles as users do."""
    monkeypatch.setattr("jax.jit", functools.partial(jax.jit, compiler_options=_DEFAULTS))
    search_of.cache_clear()
    recordings._programs.cache_clear()
    yield
    search_of.cache_clear()
    recordings._programs.cache_clear()


def check_trees(recording: dict[str, Any], output: Any, tolerance: float = 0) -> None:
    """Checks that the changes lead to the trees and the result of the ordinary search."""
    tree = output.search_tree
    visits, values = replay_changes(recording)
    nodes = recording["nodes"]
    slots = [node["slot"] for node in nodes]
    others = np.setdiff1d(np.arange(tree.edges.shape[1]), slots)
    for i, stats in enumerate(tree.stats):
        np.testing.assert_array_equal(visits[i], np.asarray(stats.node_visits)[0, slots])
        expected = np.asarray(stats.node_values)[0, slots]
        np.testing.assert_allclose(values[i], expected, rtol=0, atol=tolerance)
        assert not np.asarray(stats.node_visits)[0, others].any()
    parents = [-1 if node["parent"] < 0 else slots[node["parent"]] for node in nodes]
    np.testing.assert_array_equal(parents, np.asarray(tree.parents)[0, slots])
    assert recording["result"]["action"] == output.action[0]
    weights = output.action_weights[0, nodes[0]["legal"]]
    np.testing.assert_allclose(recording["result"]["weights"], weights, rtol=0, atol=tolerance)


def check_scores(recording: dict[str, Any]) -> None:
    """Checks that the largest score is the choice, and that the addends sum to the scores."""
    for choice in choices(recording):
        scores = [-np.inf if x["score"] is None else x["score"] for x in candidates_of(choice)]
        if choice["reason"] in ("rule", "root"):
            assert choice["candidates"]["action"][int(np.argmax(scores))] == choice["chosen"]
        for candidate, score in zip(candidates_of(choice), scores, strict=True):
            if np.isfinite(score):
                assert sum(candidate["addends"]) == pytest.approx(score, rel=3e-6, abs=3e-6)
        if "required_visits" in choice:
            # The rule of Gumbel's root considers the moves with these visits.
            assert choice["reason"] == "root"
            due = [x["visits"] == choice["required_visits"] for x in candidates_of(choice)]
            assert all(is_due or x == -np.inf for is_due, x in zip(due, scores, strict=True))
        assert choice["parts"]
        assert all(len(x["addends"]) == len(choice["parts"]) for x in candidates_of(choice))


def check_steps(recording: dict[str, Any]) -> None:
    """Checks that each simulation and each node occurs once, in order."""
    steps, simulations = recording["steps"], recording["simulations"]
    numbers: list[list[int]] = [[] for _ in simulations]
    for step in steps:
        length = 1 if step["kind"] == "simulation" else len(step["nodes"])
        numbers[step["tree"]] += range(step["number"], step["number"] + length)
    assert numbers == [list(range(number)) for number in simulations]
    costs = [step["blocks"] for step in steps]
    assert None in costs or costs == sorted(costs)
    for node in recording["nodes"][1:]:
        leaf = steps[node["step"]]["leaf"]
        assert leaf == {"node": node["index"], "is_new": True, "is_terminal": node["is_terminal"]}
        assert node["depth"] == recording["nodes"][node["parent"]]["depth"] + 1
    for step in steps:
        for choice in step.get("path", []):
            legal = recording["nodes"][choice["node"]]["legal"]
            assert set(choice["candidates"]["action"]) <= set(legal)
            assert choice["chosen"] in choice["candidates"]["action"]


def check_recordings(name: str, tolerance: float) -> None:
    """Records a search in two positions, and checks the recordings."""
    preset = CASES[name]
    for seed in (0, 2):
        recording = record(preset, POLICIES[name], seed)
        output = ordinary_output(preset, name, position(preset, seed), seed)
        check_trees(recording, output, tolerance)
        check_scores(recording)
        check_steps(recording)
        if name == "gumbel":
            assert all(x["path"][0]["reason"] == "root" for x in recording["steps"])


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_recording_has_the_visits_and_scores_of_the_ordinary_search(name: str) -> None:
    check_recordings(name, tolerance=1e-5)


@pytest.mark.slow
@pytest.mark.usefixtures("default_rounding")
@pytest.mark.parametrize("name", EXACT)
def test_recording_equals_the_ordinary_search_bit_for_bit(name: str) -> None:
    check_recordings(name, tolerance=0)
