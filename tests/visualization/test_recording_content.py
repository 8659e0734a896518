"""The content of recordings: nodes, costs, comparison, errors, and policies of a user."""

import dataclasses
import json
import re
from typing import Any

import jax
import numpy as np
import pytest

import games
from documents import read
from dualmctx.models.costs import evaluation_blocks, move_cost
from dualmctx.policies import AlphaGo, AlphaZero, Dual
from dualmctx.search.node import Rule
from dualmctx.search.select import argmax
from dualmctx.visualization import record_search, record_trained
from dualmctx.visualization.programs import Explanation
from dualmctx.visualization.recording import alphazero_of_equal_cost
from dualmctx.visualization.step_records import MAX_CANDIDATES, describe_choice
from recorded import DUAL, candidates_of, dual_recording
from recorded import connect2 as load_connect2


@pytest.fixture
def connect2() -> Any:
    return load_connect2()


@pytest.fixture
def recording() -> dict[str, Any]:
    return dual_recording()


def refinements(recording: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for step in recording["steps"] if step["kind"] == "refinement"]


@pytest.mark.slow
def test_recording_is_json_and_names_its_search(recording: dict[str, Any]) -> None:
    assert json.loads(json.dumps(recording, allow_nan=False)) == recording
    expected = {
        "format": "dualmctx-recording",
        "version": 1,
        "game": "connect2",
        "moves": ["3"],
        "variant": "dual",
        "network": "connect2",
        "trees": ["small", "large"],
        "heads": ["intermediate", "final"],
        "tree_heads": [0, -1],
        "simulations": [12, 8],
        "players": ["x (black)", "o (white)"],
    }
    assert expected.items() <= recording.items()


@pytest.mark.slow
def test_nodes_have_the_states_of_the_game(connect2: Any, recording: dict[str, Any]) -> None:
    env, nodes = connect2.env, recording["nodes"]
    solution = games.solve(env)
    for node in nodes:
        actions, each = list[int](), node
        while each["parent"] >= 0:
            actions.insert(0, each["action"])
            each = nodes[each["parent"]]
        history = [2, *actions]
        padded = np.array([history + [-1] * (4 - len(history))])
        state = jax.tree.map(lambda x: np.asarray(x)[0], games.replay(env, padded))
        assert node["side"] == len(history) % 2
        assert node["is_terminal"] == bool(state.terminated)
        legal = [] if state.terminated else np.flatnonzero(state.legal_action_mask).tolist()
        assert node["legal"] == legal
        assert node["names"] == [games.format_action(env, state, action) for action in legal]
        assert node["picture"]["rows"] == [list(row) for row in state.picture().rows]
        assert node["picture"]["marked"] == [[0, history[-1]]]
        assert node["exact"] == solution.code_values[int(solution.code_fn(state))]
        if actions:
            assert node["move"] == games.format_moves(env, None, history)[-1]


@pytest.mark.slow
def test_refinement_mixes_the_heads(recording: dict[str, Any]) -> None:
    assert refinements(recording)
    for step in refinements(recording):
        assert step["num_waiting"] >= len(step["nodes"])
        passes = [x["passes"] for x in step["candidates"]]
        assert passes == sorted(passes, reverse=True)
        chosen = [x["node"] for x in step["candidates"] if x["chosen"]]
        assert chosen == [x["node"] for x in step["nodes"]]
        for node in step["nodes"]:
            before, head, after = (node[name] for name in ("before", "head", "after"))
            if not recording["nodes"][node["node"]]["is_terminal"]:
                mixed = 0.25 * before["value"] + 0.75 * head["value"]
                assert after["value"] == pytest.approx(mixed, abs=1e-6)
                prior = 0.25 * np.array(before["prior"]) + 0.75 * np.array(head["prior"])
                np.testing.assert_allclose(after["prior"], prior, atol=1e-6)
                gaps = np.abs(np.array(before["prior"]) - head["prior"])
                assert node["distance"] == pytest.approx(gaps.sum() / 2, abs=1e-6)

        corrected = [x for x in step["changes"] if x["tree"] == 0]
        assert all(x["visits"][0] == x["visits"][1] for x in corrected)
        revalued = {x["node"] for x in step["changes"] if "raw_value" in x}
        assert revalued <= {x["node"] for x in step["nodes"]}


def test_blocks_are_those_of_the_evaluations(connect2: Any, recording: dict[str, Any]) -> None:
    blocks = evaluation_blocks(DUAL, connect2.network)
    assert blocks is not None
    first, later = blocks
    spent = 0
    for step in recording["steps"]:
        if step["kind"] == "refinement":
            spent += later * len(step["nodes"])
        elif step["leaf"]["is_new"]:
            spent += first + (later if step["tree"] == 1 else 0)
        assert step["blocks"] == spent


def test_alphazero_of_equal_cost_has_the_closest_number_of_simulations(connect2: Any) -> None:
    network = connect2.network
    rival = alphazero_of_equal_cost(Dual((50, 35)), network)
    blocks = move_cost(Dual((50, 35)), network).blocks
    depth = network.head_depths[-1]
    assert rival is not None
    assert blocks is not None
    assert abs(rival.num_simulations * depth - blocks) <= depth / 2
    assert alphazero_of_equal_cost(AlphaZero(10), network) is None


class StoppedError(Exception):
    """Raised by a callback."""


def test_progress_counts_simulations_and_may_stop_the_search(connect2: Any) -> None:
    seen: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        seen.append((done, total))
        if done >= 5:
            raise StoppedError

    with pytest.raises(StoppedError):
        record_trained(connect2, [2], policy=DUAL, progress=progress)
    assert [total for _, total in seen] == [20] * len(seen)
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})


def test_bad_requests_name_the_problem(connect2: Any) -> None:
    with pytest.raises(ValueError, match=r"2,001 simulations; .* at most 2,000"):
        record_trained(connect2, policy=AlphaZero(2001))
    with pytest.raises(ValueError, match=r"the comparison with AlphaZero has .* at most 2,000"):
        record_trained(connect2, policy=AlphaGo(10, rollout_length=400), compare=True)
    with pytest.raises(ValueError, match=r"reuse_capacity is 2,001; in a recording .* at most"):
        record_trained(connect2, policy=AlphaZero(5, reuse_capacity=2001))
    with pytest.raises(ValueError, match="the game is over"):
        record_trained(connect2, [0, 2, 1], policy=DUAL)
    with pytest.raises(ValueError, match="move 2, '1', is illegal"):
        record_trained(connect2, [0, 0], policy=DUAL)
    states = games.replay(connect2.env, np.full((3, 1), -1))
    with pytest.raises(ValueError, match=r"batch axis of shape \(3,\)"):
        record_search(connect2.env, connect2.network, connect2.params, DUAL, states)

    broken = connect2._replace(params=jax.tree.map(lambda x: x * np.nan, connect2.params))
    with pytest.raises(ValueError, match="the network's outputs are not finite"):
        record_trained(broken, [2], policy=DUAL)


@dataclasses.dataclass(frozen=True)
class LargestPrior(Rule):
    """Chooses the action with the largest prior; a rule without reasons."""

    def __call__(self, rng_key: Any, node: Any) -> Any:
        return argmax(node.prior)


@dataclasses.dataclass(frozen=True)
class MostLikely(AlphaZero):
    """A policy of a user."""

    def make_rule(self) -> Any:
        return LargestPrior()


def test_comparison_is_a_recording_of_alphazero_with_exact_candidates(
    connect2: Any, recording: dict[str, Any]
) -> None:
    """Numbers that are rounded to float32 are those of the tree."""
    other = recording["comparison"]
    rival = alphazero_of_equal_cost(DUAL, connect2.network)
    assert rival is not None
    assert (other["variant"], other["simulations"]) == ("alphazero", [rival.num_simulations])
    assert "comparison" not in other
    values = [0.0] * len(other["nodes"])
    known = {(node["parent"], node["action"]): node for node in other["nodes"]}
    compared = 0
    for step in other["steps"]:
        for choice in step["path"]:
            for row in candidates_of(choice):
                child = known.get((choice["node"], row["action"]))
                if row["visits"] and not child["is_terminal"]:
                    assert np.float32(row["q"]) == -values[child["index"]]
                    compared += 1
        for change in step["changes"]:
            values[change["node"]] = change["value"][1]
    assert compared > 10
    root = other["steps"][0]["path"][0]["candidates"]["prior"]
    assert np.float32(root).tolist() == other["root"]["noisy_prior"]


@pytest.mark.slow
def test_rule_of_a_user_has_candidates_without_addends(connect2: Any) -> None:
    recording = record_trained(connect2, [2], policy=MostLikely(4))
    assert recording["variant"] == "MostLikely"
    for step in recording["steps"]:
        for choice in step["path"]:
            assert choice["parts"] == []
            best = max(candidates_of(choice), key=lambda x: x["prior"])
            assert best["action"] == choice["chosen"]
            assert all(x["score"] is None and not x["addends"] for x in candidates_of(choice))


def test_candidates_are_limited_in_large_games() -> None:
    number = 2 * MAX_CANDIDATES
    visits, prior = np.zeros(number, np.int32), np.arange(number, dtype=np.float32)
    actions, legal = np.arange(number) + 100, np.arange(number) > 0
    choice = Explanation(actions, legal, prior, visits, prior, {})
    found = describe_choice(choice, 3)
    # The chosen action is listed, and of the others those that rank first.
    assert found["candidates"]["action"] == [103, *range(100 + number - 31, 100 + number)]
    assert found["omitted"] == number - 1 - MAX_CANDIDATES
    assert found["chosen"] == 103


def numbers(text: str) -> list[float]:
    """Returns the numbers of a text that stand alone, also with a sign."""
    return [float(found) for found in re.findall(r"(?<![\w.])[+-]?\d+(?:\.\d+)?", text)]


@pytest.mark.slow
def test_the_search_of_the_document_is_the_recorded_one(connect2: Any) -> None:
    """Numbers of docs/trees.md: the priors, and of each step the scores, V, and the new root."""
    found = record_trained(connect2, variant="alphazero", simulations=(4,))
    section = read("docs/trees.md").split("## One search, step by step")[1].split("\n## ")[0]
    rows = [row.split("|") for row in section.splitlines() if re.match(r"\| \d \|", row)]
    assert len(rows) == len(found["steps"]) == 4
    priors = numbers(section.split("the moves 1 to 4:")[1])[:4]
    assert priors == pytest.approx(found["root"]["prior"], abs=6e-4)
    for (_, _, selection, move, value, root, _), step in zip(rows, found["steps"], strict=True):
        expected = []
        for choice in step["path"]:
            place = choice["candidates"]["action"].index(choice["action"])
            expected += [choice["action"] + 1]
            expected += [column[place] for column in choice["candidates"]["addends"]]
        assert numbers(selection)[: len(expected)] == pytest.approx(expected, abs=6e-4)
        leaf, top = step["changes"][0], step["changes"][-1]
        assert move.split() == [found["nodes"][c["node"]]["move"] for c in step["changes"][-2::-1]]
        assert numbers(value) == pytest.approx([leaf["value"][1]], abs=6e-4)
        assert value.split()[-1] in found["players"][found["nodes"][leaf["node"]]["side"]]
        assert numbers(root) == pytest.approx([top["value"][1], top["visits"][1]], abs=6e-4)
    assert found["result"]["visits"] == [[0, 4, 0, 0]]
