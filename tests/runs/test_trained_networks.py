"""The packaged networks play as docs/evaluate.md states."""

import dataclasses
import re

import jax
import numpy as np
import pytest

import games
from documents import read
from dualmctx.experiment.run_record import record_of
from dualmctx.models.game_model import mask_illegal
from dualmctx.policies.names import variant_of
from dualmctx.runs.folder import to_dict
from dualmctx.runs.saved_network import load_record, load_trained, trained_names
from dualmctx.runs.saved_policy import build_policy
from dualmctx.training.gpu_presets import GPU_PRESETS
from dualmctx.training.presets import PRESETS

NAMES = trained_names()
PAGE = read("docs/evaluate.md")


def test_every_preset_for_cpus_except_chess_has_a_network() -> None:
    assert set(NAMES) == set(PRESETS) - set(GPU_PRESETS) - {"chess"}


@pytest.mark.parametrize("name", NAMES)
def test_page_names_network(name: str) -> None:
    [listed] = re.findall(r"The networks that come with dualmctx are (.*?): ", PAGE, re.DOTALL)
    assert f"`{name}`" in listed


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NAMES)
def test_record_names_preset(name: str) -> None:
    assert load_trained(name).record["preset"] == name


@pytest.mark.parametrize("name", NAMES)
def test_record_has_the_entries_of_a_new_run(name: str) -> None:
    record = load_record(name)
    policy = build_policy(record)
    assert type(policy) is type(PRESETS[name].search)
    assert record["search"] == {"variant": variant_of(policy)} | to_dict(policy)
    new = record_of(name, dataclasses.replace(PRESETS[name], search=policy))
    entries = {group: sorted(x) for group, x in new.items() if isinstance(x, dict)}
    assert {group: sorted(record[group]) for group in entries} == entries
    assert record.keys() == new.keys() | {"architecture"}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["connect2", "hsr", "nim", "tic-tac-toe"])
def test_network_plays_optimally_on_optimal_path(name: str) -> None:
    trained = load_trained(name)
    solution = games.solve(trained.env)
    here = solution.on_optimal_path
    states = games.replay(trained.env, solution.histories[here])
    output = jax.jit(trained.network.apply)(trained.params, states.observation)[-1]
    action = np.argmax(mask_illegal(output.logits, states.legal_action_mask), axis=-1)
    assert solution.optimal_actions[here][np.arange(len(action)), action].all()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("moves", "columns"),
    [
        pytest.param("", {3}, id="the only first move that wins"),
        pytest.param("414141", {3}, id="four above each other"),
        pytest.param("41414", {3}, id="the other's four above each other"),
        pytest.param("334455", {1, 5}, id="four side by side"),
    ],
)
def test_connect_four_network_knows_openings(moves: str, columns: set[int]) -> None:
    """Its strength is measured by `python -m benchmarks.strength connect-four alphazero`."""
    trained = load_trained("connect-four")
    history = games.parse_moves(trained.env, moves)
    states = games.replay(trained.env, np.array([[*history, -1]], np.int32))
    output = trained.network.apply(trained.params, states.observation)[-1]
    assert int(mask_illegal(output.logits, states.legal_action_mask)[0].argmax()) in columns
