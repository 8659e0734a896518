"""The networks that come with the package play as the document says."""

import jax
import numpy as np
import pytest

import games
from dualmctx.model import mask_illegal
from dualmctx.trained import load_trained, trained_names

NAMES = trained_names()


def test_every_solved_preset_has_one() -> None:
    assert {"connect2", "hsr", "nim", "tic-tac-toe"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_record_names_its_preset(name: str) -> None:
    assert load_trained(name).record["preset"] == name


@pytest.mark.parametrize("name", ["connect2", "hsr", "nim", "tic-tac-toe"])
def test_the_network_alone_plays_optimally_wherever_optimal_play_leads(name: str) -> None:
    trained = load_trained(name)
    solution = games.solve(trained.env)
    here = solution.on_optimal_path
    states = games.replay(trained.env, solution.histories[here])
    output = jax.jit(trained.network.apply)(trained.params, states.observation)[-1]
    action = np.argmax(mask_illegal(output.logits, states.legal_action_mask), axis=-1)
    assert solution.optimal_actions[here][np.arange(len(action)), action].all()
