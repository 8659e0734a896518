"""The parts of AlphaGo's network, and positions with exact values on which they are measured."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
from dualmctx import AlphaZero, Network
from dualmctx.matches.players import search_player
from dualmctx.models.network import SeparateTrunks
from dualmctx.pipeline.exact import (
    exact_positions,
    keeping_share,
    label_connect_four,
    search_keeping,
    value_error,
)
from dualmctx.pipeline.parts import (
    POLICY,
    ROLLOUT,
    VALUE,
    alphago_network,
    alphago_options,
    check_parts,
    get_part,
    make_logits_fn,
    make_value_fn,
    with_part,
)
from dualmctx.training.config import NetworkOptions
from untrained import random_params

ENV = games.make("connect2")
NETWORK = alphago_network(ENV, NetworkOptions(trunk="mlp", width=8, num_blocks=1, value_blocks=2))
OBSERVATION = jax.random.bernoulli(jax.random.key(0), 0.5, (5, *ENV.observation_shape))
PARAMS = random_params(NETWORK, ENV.observation_shape)
DEPTHS = {ROLLOUT: 0, POLICY: 1, VALUE: 2}


@pytest.mark.slow
def test_each_part_is_a_network_of_its_own() -> None:
    rollout, final = NETWORK.apply(PARAMS, OBSERVATION)
    alone = {}
    for part, depth in DEPTHS.items():
        network = Network(ENV.num_actions, "mlp", 8, depth, (depth,))
        alone[part] = network.apply(get_part(PARAMS, part), OBSERVATION)[0]
    equal = np.testing.assert_array_equal
    equal(rollout.logits, alone[ROLLOUT].logits)
    equal(rollout.value, alone[ROLLOUT].value)
    equal(final.logits, alone[POLICY].logits)
    equal(final.value, alone[VALUE].value)
    assert (final.value != alone[POLICY].value).all()
    for part, expected in ((ROLLOUT, rollout), (POLICY, final)):
        logits = make_logits_fn(NETWORK, part)(get_part(PARAMS, part), OBSERVATION)
        equal(logits, expected.logits)
    equal(make_value_fn(NETWORK)(get_part(PARAMS, VALUE), OBSERVATION), final.value)


@pytest.mark.parametrize("part", DEPTHS)
def test_a_part_is_replaced_without_the_others(part: str) -> None:
    before = jax.tree.map(np.array, PARAMS)
    zeros = jax.tree.map(jnp.zeros_like, get_part(PARAMS, part))
    changed = with_part(PARAMS, part, zeros)
    assert jax.tree.structure(changed) == jax.tree.structure(PARAMS)
    for name in DEPTHS:
        expected = zeros if name == part else get_part(PARAMS, name)
        jax.tree.map(np.testing.assert_array_equal, get_part(changed, name), expected)
    jax.tree.map(np.testing.assert_array_equal, PARAMS, before)


def test_the_default_network_has_a_rollout_policy_without_blocks() -> None:
    env = games.make("tic_tac_toe")
    network = alphago_network(env, NetworkOptions(width=8, num_blocks=3))
    assert network == SeparateTrunks(9, "conv", 8, (0, 3), value_depth=3)
    options = NetworkOptions(trunk="mlp", head_depths=(1, 2), value_blocks=4, dtype="bfloat16")
    assert alphago_network(env, options) == SeparateTrunks(9, "mlp", 64, (1, 2), "bfloat16", 4)
    complete = alphago_options(options)
    assert alphago_options(complete) == complete


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"separate_trunks": False}, "network.separate_trunks is False; it must be True, or left"),
        ({"head_depths": (1, 2, 3)}, "network.head_depths is 1 2 3; it must be two numbers"),
        ({"value_blocks": 0}, "value_blocks is 0; it must be at least 1"),
        ({"factory": "own:make"}, "network is own:make; it must be left out"),
    ],
)
def test_options_of_other_networks_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words) as error:
        alphago_network(games.make("tic_tac_toe"), NetworkOptions(**options))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "network",
    [
        Network(6),
        SeparateTrunks(6, "mlp", 8, (1, 2)),
        SeparateTrunks(6, "mlp", 8, (1, 2, 3), value_depth=2),
    ],
)
def test_networks_without_the_parts_are_refused(network: Any) -> None:
    with pytest.raises(ValueError, match="the pipeline needs a rollout policy, a policy network"):
        check_parts(network)


@pytest.fixture(scope="module")
def every():
    """All positions of the game."""
    return exact_positions(ENV)


def test_a_small_game_gives_all_its_positions_with_the_values_of_its_solution(every):
    solution = games.solve(ENV)
    assert len(every.values) == len(solution.values)
    for row in range(len(every.values)):
        state = jax.tree.map(lambda x, row=row: x[row], every.states)
        exact = games.exact_values(ENV, state)
        assert every.values[row] == exact.value
        keeping = [move for move, value in exact.moves.items() if value == exact.value]
        assert np.flatnonzero(every.keeping[row]).tolist() == keeping
        assert every.is_contested[row] == (len(keeping) < len(exact.moves))


def test_the_seed_decides_the_positions_and_the_number_counts_contested_ones():
    few = exact_positions(ENV, number=3, seed=5)
    assert few.is_contested.sum() == 3
    assert few.is_contested[-1]
    assert exact_positions(ENV, number=3, seed=5) is few
    observations = {exact_positions(ENV, 3, seed).states.observation.tobytes() for seed in range(9)}
    assert len(observations) > 1
    assert exact_positions(games.make("othello")) is None
    with pytest.raises(ValueError, match="number is 0; it must be at least 1"):
        exact_positions(ENV, number=0)


@pytest.mark.slow
@pytest.mark.parametrize("part", [POLICY, ROLLOUT])
def test_the_share_counts_the_most_likely_legal_moves_of_contested_positions(every, part):
    logits_fn = make_logits_fn(NETWORK, part)
    logits = np.asarray(logits_fn(get_part(PARAMS, part), every.states.observation))
    kept, by_chance = [], []
    for row in np.flatnonzero(every.is_contested):
        legal = np.flatnonzero(every.states.legal_action_mask[row])
        best = max(legal, key=lambda action, row=row: logits[row, action])
        kept.append(every.keeping[row, best])
        by_chance.append(every.keeping[row, legal].mean())
    shares = keeping_share(NETWORK, PARAMS, every, part)
    assert shares.keys() == {f"exact/{part}_keeping", "exact/chance_keeping"}
    assert shares[f"exact/{part}_keeping"] == pytest.approx(np.mean(kept))
    assert shares["exact/chance_keeping"] == pytest.approx(np.mean(by_chance))
    assert 0 < shares[f"exact/{part}_keeping"] < 1


@pytest.mark.slow
def test_the_error_of_the_value_is_that_of_all_positions(every):
    values = make_value_fn(NETWORK)(get_part(PARAMS, VALUE), every.states.observation)
    errors = value_error(NETWORK, PARAMS, every)
    assert errors["exact/value_loss"] == pytest.approx(np.mean((values - every.values) ** 2))
    constant = min(np.mean((x - every.values) ** 2) for x in np.linspace(-1, 1, 2001))
    assert errors["exact/constant_loss"] == pytest.approx(constant, abs=1e-3)


@pytest.mark.slow
def test_a_search_of_a_small_game_keeps_the_value(every):
    zeros = jax.tree.map(np.zeros_like, PARAMS)
    player = search_player("search", ENV, NETWORK, zeros, AlphaZero(40).for_evaluation())
    number = int(every.is_contested.sum())
    assert search_keeping(player, every, number - 1) == 1.0
    # A move that fails keeps nothing, also where the last action does.
    nan = jax.tree.map(lambda x: x + np.nan, zeros)
    assert search_keeping(dataclasses.replace(player, params=nan), every, number - 1) == 0


@pytest.mark.slow
def test_connect_four_has_the_labels_of_the_benchmarks():
    pytest.importorskip("bitbully")
    pytest.importorskip("bitbully_databases")
    from benchmarks import connect_four

    env = games.make("connect_four")
    expected = connect_four.random_positions(20, seed=3)
    found = label_connect_four(games.replay(env, expected.histories))
    np.testing.assert_array_equal(found.keeping, expected.keeping)
    np.testing.assert_array_equal(found.values, expected.values)
    drawn = exact_positions(env, number=5)
    assert drawn.is_contested.sum() == 5
    assert len({x.tobytes() for x in drawn.states.observation}) == len(drawn.values)
    assert not (drawn.states.terminated | drawn.states.truncated).any()
    plies = (drawn.states.observation.sum(axis=(1, 2, 3))).astype(int)
    assert plies.min() >= 8
    assert plies.max() <= 36
