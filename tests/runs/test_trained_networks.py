"""The packaged networks play as docs/evaluate.md states."""

import dataclasses
import re

import jax
import numpy as np
import pytest

import games
from documents import read
from dualmctx.experiment.assemble import record_of
from dualmctx.models.game_model import mask_illegal
from dualmctx.policies import variant_of
from dualmctx.runs.folder import to_dict
from dualmctx.runs.saved_network import load_record, load_trained, trained_names
from dualmctx.runs.saved_policy import build_policy
from dualmctx.training.presets import GPU_PRESETS, PRESETS

NAMES = trained_names()
PAGE = read("docs/evaluate.md")


def test_every_preset_for_cpus_except_chess_has_a_network() -> None:
    assert set(NAMES) == set(PRESETS) - set(GPU_PRESETS) - {"chess"}


def test_the_page_names_the_networks() -> None:
    [listed] = re.findall(
        r"The pretrained networks that come with dualmctx are (.*?): ", PAGE, re.DOTALL
    )
    assert set(re.findall("`(.*?)`", listed)) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_record_has_the_entries_of_a_new_run(name: str) -> None:
    record = load_record(name)
    assert record["preset"] == name
    policy = build_policy(record)
    assert type(policy) is type(PRESETS[name].search)
    assert record["search"] == {"variant": variant_of(policy)} | to_dict(policy)
    new = record_of(name, dataclasses.replace(PRESETS[name], search=policy))
    entries = {group: sorted(x) for group, x in new.items() if isinstance(x, dict)}
    assert {group: sorted(record[group]) for group in entries} == entries
    # A network that learned a data set has a digest of it.
    learned = set() if record["dataset"] is None else {"inputs"}
    assert record.keys() == new.keys() | {"architecture"} | learned


@pytest.mark.slow
@pytest.mark.parametrize("name", ["connect2", "tic-tac-toe"])
def test_network_plays_optimally_on_optimal_path(name: str) -> None:
    trained = load_trained(name)
    solution = games.solve(trained.env)
    here = solution.on_optimal_path
    states = games.replay(trained.env, solution.histories[here])
    output = jax.jit(trained.network.apply)(trained.params, states.observation)[-1]
    action = np.argmax(mask_illegal(output.logits, states.legal_action_mask), axis=-1)
    assert solution.optimal_actions[here][np.arange(len(action)), action].all()


@pytest.mark.slow
def test_connect_four_network_knows_openings() -> None:
    """Its strength is measured by `python -m benchmarks.strength connect-four alphazero`."""
    trained = load_trained("connect-four")
    # The only first move that wins, and four in a row or column of either player.
    right = {"": {3}, "414141": {3}, "41414": {3}, "334455": {1, 5}}
    for moves, columns in right.items():
        history = games.parse_moves(trained.env, moves)
        states = games.replay(trained.env, np.array([[*history, -1]], np.int32))
        output = trained.network.apply(trained.params, states.observation)[-1]
        masked = mask_illegal(output.logits, states.legal_action_mask)[0]
        assert int(masked.argmax()) in columns, moves
