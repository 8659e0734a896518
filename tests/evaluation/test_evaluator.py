"""Evaluations of positions: read from the trees by hand, and independent of batches."""

import dataclasses
import functools
import hashlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dualmctx
import games
from dualmctx import (
    AlphaGo,
    AlphaZero,
    Backup,
    Chain,
    Evaluations,
    Evaluator,
    Execution,
    export_trained,
    load_evaluator,
    make_evaluator,
)
from dualmctx.evaluation import factory
from dualmctx.evaluation.answers import answer
from dualmctx.evaluation.evaluations import (
    by_search,
    digest,
    fill_batches,
    join,
    make_evaluate_batch,
    position_keys,
)
from dualmctx.game_files.questions import Question
from dualmctx.runs.folder import to_dict
from dualmctx.runs.saved_network import Trained
from oracle import plain_rules as plain
from separate_process import EIGHT_DEVICES, call_with_flags
from untrained import random_params

KEY = jax.random.PRNGKey(3)
POLICIES = {
    # The last tree does not visit all actions that the first one selects.
    "chain": Chain((8, 6, 1), 1),
    # Its root differs: updates instead of visits, slots instead of actions.
    "alphazero": AlphaZero(20, backup=Backup(window=1), execution=Execution(max_children=2)),
}
NUM_TREES = {"chain": 3, "alphazero": 1}


class Positions(NamedTuple):
    """All `[S]` histories of connect2, padded with -1, and facts about their final positions."""

    env: Any
    histories: list[tuple[int, ...]]
    states: Any
    boards: list[Any]


def all_histories(rules: Any) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Enumerates all histories of a small game by its plain rules, including finished games."""

    def play(history: tuple[int, ...], position: Any) -> Iterator[Any]:
        yield history, position
        if rules.result(position) is None:
            for action, after in rules.moves(position).items():
                yield from play((*history, action), after)

    yield from play((), rules.start())


def replay(env: Any, histories: list[tuple[int, ...]]) -> Any:
    longest = max(map(len, histories))
    return games.replay(env, [[*x, *[-1] * (longest - len(x))] for x in histories])


@pytest.fixture(scope="module")
def connect2() -> Positions:
    env = games.make("connect2")
    histories, boards = zip(*all_histories(plain.CONNECT2), strict=True)
    states = jax.device_get(replay(env, list(histories)))
    return Positions(env, list(histories), states, list(boards))


def make_net(env: Any, num_heads: int = 2) -> Any:
    blocks = max(2, num_heads)
    return dualmctx.make_network(
        env.num_actions,
        env.observation_shape,
        width=4,
        head_depths=tuple(range(1, blocks + 1))[-num_heads:],
        num_blocks=blocks,
    )


class Told(NamedTuple):
    """Evaluations of all positions of connect2 by a variant, and the trees of the search."""

    said: Evaluations
    action: np.ndarray
    action_weights: np.ndarray
    tree: Any


@pytest.fixture(scope="module", params=POLICIES)
def told(request: pytest.FixtureRequest, connect2: Positions) -> tuple[str, Any, Told]:
    name, env = request.param, connect2.env
    policy = POLICIES[name].for_evaluation()
    network = make_net(env, num_heads=len(policy.heads))
    params = random_params(network, env.observation_shape)
    search_fn = dualmctx.make_search_fn(env, network, policy)

    @jax.jit
    def tell(params: Any, digests: Any, states: Any) -> tuple:
        outputs = []

        def overheard(*arguments: Any) -> Any:
            outputs.append(search_fn(*arguments))
            return outputs[0]

        evaluate_batch = make_evaluate_batch(network, by_search(overheard))
        said = evaluate_batch(params, KEY, digests, states)
        [output] = outputs
        return said, output.action, output.action_weights, output.search_tree

    digests = digest(range(len(connect2.histories)))
    found = Told(*jax.device_get(tell(params, digests, connect2.states)))
    return name, (network, params), found


def slots(tree: Any, element: int, node: int) -> list[int]:
    """Returns the actions of the slots of a node."""
    actions = tree.embeddings.actions
    number = tree.children_index.shape[-1]
    return list(range(number)) if actions is None else actions[element, node].tolist()


def plain_line(tree: Any, element: int, action: int, length: int) -> list[int]:
    """Follows the most visited line of the last tree that visited the action, in plain Python."""
    node, slot, line = 0, slots(tree, element, 0).index(action), []
    stats = [x.children_visits[element] for x in tree.stats]
    visits, index = stats[-1], tree.children_index[element]
    for each in stats:
        if each[0, slot] > 0:
            visits = each
    while len(line) < length:
        line.append(slots(tree, element, node)[slot])
        if visits[node, slot] == 0:
            break
        node = index[node, slot]
        counts = visits[node].tolist()
        if max(counts) == 0:
            break
        slot = counts.index(max(counts))
    return line


@pytest.mark.slow
def test_root_readout_matches_the_trees(told: tuple, connect2: Positions) -> None:
    name, _, (said, action, action_weights, tree) = told
    stats = tree.stats[-1]
    going_on = [s for s, x in enumerate(connect2.boards) if plain.CONNECT2.result(x) is None]
    if name == "chain":
        # Some positions have to be read from an earlier tree.
        assert (stats.children_visits[going_on, 0, action[going_on]] == 0).any()
    for s in going_on:
        assert said.action[s] == action[s]
        np.testing.assert_array_equal(said.action_weights[s], action_weights[s])
        assert said.value[s] == stats.node_values[s, 0]
        roots = [x.node_values[s, 0] for x in tree.stats]
        np.testing.assert_array_equal(said.tree_values[s], roots)
        visits, qvalues = [0] * 4, [np.nan] * 4
        for slot, of in enumerate(slots(tree, s, 0)):
            visits[of] = stats.children_visits[s, 0, slot]
            for each in tree.stats:
                if each.children_visits[s, 0, slot]:
                    qvalues[of] = each.children_qvalues[s, 0, slot]
        np.testing.assert_array_equal(said.visits[s], visits)
        np.testing.assert_array_equal(said.qvalues[s], qvalues)
        legal = plain.CONNECT2.moves(connect2.boards[s])
        assert np.flatnonzero(said.legal_action_mask[s]).tolist() == list(legal)
        assert said.visits[s].sum() == said.visits[s][list(legal)].sum() > 0
        # The test of `principal_variation` has other trees.
        line = plain_line(tree, s, action[s], said.principal_variation.shape[1])
        assert said.principal_variation[s, : len(line)].tolist() == line
    assert said.tree_values.shape[1] == NUM_TREES[name]


def test_finished_game_has_only_its_result(told: tuple, connect2: Positions) -> None:
    said, results = told[2].said, []
    for s, board in enumerate(connect2.boards):
        result = plain.CONNECT2.result(board)
        if result is None:
            continue
        for_mover = result if plain.CONNECT2.mover(board) == 0 else -result
        results.append(for_mover)
        assert said.value[s] == for_mover
        assert (said.tree_values[s] == for_mover).all()
        assert said.action[s] == -1
        for nothing in (said.legal_action_mask, said.action_weights, said.visits):
            assert not nothing[s].any()
        for nothing in (said.principal_variation, said.network_action):
            assert (nothing[s] == -1).all()
        for unknown in (said.qvalues, said.network_value, said.heads_distance):
            assert np.isnan(unknown[s]).all()
        assert said.heads_agree[s]
    assert set(results) == {-1, 0}


def test_heads_are_reported_separately(told: tuple, connect2: Positions) -> None:
    _, (network, params), (said, *_) = told
    outputs = network.apply(params, connect2.states.observation)
    agreed, num_heads = set(), len(outputs)
    assert said.network_value.shape == (len(connect2.boards), num_heads)
    for s, board in enumerate(connect2.boards):
        if plain.CONNECT2.result(board) is not None:
            continue
        legal, policies = list(plain.CONNECT2.moves(board)), []
        for head, output in enumerate(outputs):
            odds = {a: np.exp(np.float64(output.logits[s, a])) for a in legal}
            policy = [odds.get(a, 0) / sum(odds.values()) for a in range(4)]
            np.testing.assert_allclose(said.network_policy[s, head], policy, atol=1e-6)
            np.testing.assert_allclose(said.network_value[s, head], output.value[s], atol=1e-6)
            assert said.network_action[s, head] == np.argmax(policy)
            policies.append(policy)
        distances = [sum(abs(np.subtract(x, policies[-1]))) / 2 for x in policies[:-1]]
        expected = max(distances, default=np.nan)
        np.testing.assert_allclose(said.heads_distance[s], expected, atol=1e-6)
        assert said.heads_agree[s] == (len(set(said.network_action[s].tolist())) == 1)
        agreed.add(bool(said.heads_agree[s]))
    # A single head always agrees.
    assert agreed == ({True} if num_heads == 1 else {True, False})


# Values of rollouts are random, so they identify the key of the position.
ROLLOUTS = AlphaGo(6, rollout_mix=1.0, rollout_policy="uniform")
Evaluators = Callable[[int], Evaluator]


@pytest.fixture(scope="module")
def evaluators(connect2: Positions) -> Evaluators:
    """Returns a function from a batch size to an evaluator."""
    env, network = connect2.env, make_net(connect2.env)
    params = random_params(network, env.observation_shape)
    return functools.cache(
        lambda size: make_evaluator(env, network, params, ROLLOUTS, batch_size=size, seed=5)
    )


def assert_same(one: Evaluations, other: Evaluations) -> None:
    """Asserts equality up to the rounding of the network's products."""
    for name, x, y in zip(Evaluations._fields, one, other, strict=True):
        if np.issubdtype(x.dtype, np.floating):
            np.testing.assert_allclose(x, y, rtol=1e-5, atol=2e-6, err_msg=name)
        else:
            np.testing.assert_array_equal(x, y, err_msg=name)


def assert_equal(one: Evaluations, other: Evaluations) -> None:
    jax.tree.map(np.testing.assert_array_equal, one, other)


def at(index: Any, tree: Any) -> Any:
    return jax.tree.map(lambda x: x[index], tree)


@pytest.mark.slow
@pytest.mark.usefixtures("unpredicted")
def test_evaluation_does_not_depend_on_batch_order_or_other_positions(
    evaluators: Evaluators, connect2: Positions
) -> None:
    evaluate, ids = evaluators(7), np.arange(len(connect2.boards))
    expected = evaluate(connect2.states, ids)
    assert_same(evaluators(64)(connect2.states, ids), expected)
    backwards = ids[::-1]
    assert_same(evaluate(at(backwards, connect2.states), backwards), at(backwards, expected))
    some = ids[3:11]
    assert_same(evaluate(at(some, connect2.states), some), at(some, expected))
    # At the same index the results are equal bit for bit.
    assert_equal(evaluate(at(ids[:3], connect2.states), ids[:3]), at(ids[:3], expected))


@pytest.mark.slow
@pytest.mark.usefixtures("unpredicted")
def test_random_numbers_depend_on_seed_and_id(evaluators: Evaluators, connect2: Positions) -> None:
    evaluate = evaluators(7)
    assert evaluate.policy == ROLLOUTS.for_evaluation() != ROLLOUTS
    same = at([1] * 21, connect2.states)
    values = evaluate(same).value
    assert len(set(values.tolist())) > 3
    np.testing.assert_array_equal(values, evaluate(same, range(21)).value)
    np.testing.assert_array_equal(values, evaluate(same, [str(x) for x in range(21)]).value)
    np.testing.assert_array_equal(values, evaluate(same, np.arange(21)).value)
    assert len(set(evaluate(same, ["a"] * 21).value.tolist())) == 1
    env, network = evaluate.env, evaluate.network
    params = random_params(network, env.observation_shape)
    other = make_evaluator(env, network, params, ROLLOUTS, batch_size=7, seed=6)
    assert (other(same).value != values).any()


def test_digests_have_known_values() -> None:
    # 8-byte BLAKE2b digests of "0", "7" and "é", as two little-endian words.
    for identity in (0, "7", "é", -(10**30)):
        whole = hashlib.blake2b(str(identity).encode(), digest_size=8).digest()
        low, high = (int.from_bytes(x, "little") for x in (whole[:4], whole[4:]))
        assert digest([identity]).tolist() == [[low, high]]
    assert digest(["\ud800"]).shape == (1, 2)
    assert digest([]).shape == (0, 2)
    keys = position_keys(KEY, digest(range(1000)))
    assert len(np.unique(np.asarray(keys), axis=0)) == 1000
    one = jax.random.fold_in(jax.random.fold_in(KEY, 2), 3)
    np.testing.assert_array_equal(position_keys(KEY, jnp.uint32([[2, 3]])), one[None])


@pytest.mark.slow
def test_calls_do_not_compile(
    evaluators: Evaluators, connect2: Positions, caplog: pytest.LogCaptureFixture
) -> None:
    def compiled() -> int:
        return sum("Compiling" in record.getMessage() for record in caplog.records)

    number = len(connect2.boards)
    evaluators(7)(connect2.states)
    with caplog.at_level(logging.WARNING), jax.log_compiles():
        for some in (1, 6, 7, 8, 20, number):
            found = evaluators(7)(at(slice(some), connect2.states))
            assert all(len(x) == some for x in found)
        assert compiled() == 0
        # A compilation is detected.
        jax.jit(lambda x: x + 41)(jnp.ones(3))
        assert compiled() > 0
    none = evaluators(7)(at(slice(0), connect2.states))
    assert [x.shape[0] for x in none] == [0] * len(Evaluations._fields)
    assert none.visits.shape == (0, 4)


def test_next_batch_starts_before_the_previous_is_fetched(
    evaluators: Evaluators,
    connect2: Positions,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
) -> None:
    """Without a progress bar, unless one is asked for."""
    evaluate, get, events = evaluators(7), jax.device_get, list[str]()

    def run(*batch: Any) -> Any:
        events.append("start")
        return evaluate.run(*batch)

    monkeypatch.setattr(jax, "device_get", lambda x: (events.append("fetch"), get(x))[1])
    told = dataclasses.replace(evaluate, run=run)
    expected = told(at(slice(20), connect2.states))
    assert events[:6] == ["start", "start", "fetch", "start", "fetch", "fetch"]
    assert capsys.readouterr() == ("", "")
    assert_equal(told(at(slice(20), connect2.states), progress=True), expected)
    out, shown = capsys.readouterr()
    assert out == ""
    assert "evaluating" in shown
    assert "3/3" in shown


def test_last_batch_is_padded_by_repetition() -> None:
    batches = list(fill_batches((np.arange(5), np.arange(10).reshape(5, 2)), 3))
    assert [x.tolist() for x, _ in batches] == [[0, 1, 2], [3, 4, 0]]
    assert batches[1][1].tolist() == [[6, 7], [8, 9], [0, 1]]
    assert join([x for x, _ in batches], 5).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.slow
def test_network_only_evaluation() -> None:
    """The positions include finished games that the player to move has won."""
    env, rules = games.make("hsr", k=2, q=3, n=5), plain.HSR(2, 3, 5)
    histories, positions = zip(*all_histories(rules), strict=True)
    network = make_net(env)
    found = dualmctx.evaluate(
        replay(env, list(histories)),
        None,
        random_params(network, env.observation_shape),
        env=env,
        network=network,
        batch_size=64,
    )
    results = set()
    for s, position in enumerate(positions):
        result = rules.result(position)
        if result is None:
            assert found.action[s] == found.network_action[s, -1] in rules.moves(position)
            assert found.value[s] == found.network_value[s, -1]
            np.testing.assert_array_equal(found.action_weights[s], found.network_policy[s, -1])
            assert found.principal_variation[s].tolist() == [found.action[s]]
        else:
            results.add(result if rules.mover(position) == 0 else -result)
            assert found.value[s] == (result if rules.mover(position) == 0 else -result)
            assert (found.action[s], found.principal_variation[s].tolist()) == (-1, [-1])
    assert results == {-1, 1}
    assert not found.visits.any()
    assert np.isnan(found.qvalues).all()
    assert found.tree_values.shape == (len(positions), 0)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An exported network."""
    env = games.make("nim", pile=6)
    network = make_net(env, num_heads=2)
    options = {"trunk": "mlp", "width": 4, "num_blocks": 2, "num_heads": 2, "head_depths": [1, 2]}
    record = {
        "game": "nim",
        "game_parameters": {"pile": 6},
        "search": {"variant": "alphazero"} | to_dict(AlphaZero(3)),
        "network": options | {"separate_trunks": False, "compact_states": True},
    }
    path = tmp_path_factory.mktemp("exported") / "nim.safetensors"
    export_trained(
        Trained(env, network, random_params(network, env.observation_shape), 3, record), path
    )
    return path


@pytest.mark.slow
@pytest.mark.usefixtures("unpredicted")
def test_the_search_of_the_checkpoint_is_the_default(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate = load_evaluator(file, batch_size=8)
    assert evaluate.policy == AlphaZero(3).for_evaluation()
    assert (evaluate.game, evaluate.num_heads, evaluate.batch_size) == ("nim", 2, 8)
    assert evaluate.env.observation_shape == (7,)
    found = evaluate(replay(evaluate.env, [(), (0,), (0, 1), (2, 2)]))
    assert found.visits.sum(axis=1).tolist() == [3, 3, 3, 0]
    assert found.value[3] == -1
    # The choice of another search needs no compilation.
    monkeypatch.setattr(factory, "build_evaluator", lambda trained, policy, **_: policy)
    other = load_evaluator(file, variant="dual", simulations=(5, 2), iteration=3)
    assert (type(other), other.num_simulations) == (dualmctx.Dual, (5, 2))
    assert load_evaluator(file, network_only=True) is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"batch_size": 0}, r"batch_size is 0; it must be at least 1"),
        ({"seed": -1}, r"seed is -1; it must be from 0 to 4294967295"),
        ({"devices": 99}, r"devices is 99; it must be from 1 to \d+, the devices of process 0"),
        ({"variant": "chess"}, r"variant is chess; it must be one of dual, .*"),
        ({"variant": "chain"}, r"head_depths is 1 2; it must name at least 3 depths, .*"),
        ({"simulations": 0}, r"num_simulations is 0; it must be at least 1"),
        ({"iteration": 4}, r"iteration is 4; .*nim.safetensors holds that of iteration 3"),
    ],
)
def test_invalid_options_raise_one_line(file: Path, options: Any, words: str) -> None:
    with pytest.raises(ValueError, match=rf"\A{words}\Z"):
        load_evaluator(file, **options)


def test_invalid_states_raise_one_line(evaluators: Evaluators, connect2: Positions) -> None:
    evaluate, states = evaluators(7), connect2.states
    what = "the states are not a batch of states of connect2"
    nim = games.make("nim").init(KEY)
    bad = {
        rf"{what}, but State; create them with the environment of the game": nim,
        rf"{what}: \.current_player is int32 \[\], not int32 \[S\]": at(0, states),
        rf"{what}: \.observation is float32 \[53, 8\], not bool \[S, 8\]": states.replace(
            observation=states.observation.astype(np.float32)
        ),
        rf"{what}: \.rewards is float32 \[2, 2\], not float32 \[S, 2\]": states.replace(
            rewards=states.rewards[:2]
        ),
    }
    for words, given in bad.items():
        with pytest.raises(ValueError, match=rf"\A{words}\Z"):
            evaluate(given)
    for ids, words in (
        ([1], "there are 1 ids for 2 states; pass one per state"),
        ([True, 2], "an id is True; it must be a string or an integer"),
        ([None, 2], "an id is None; it must be a string or an integer"),
    ):
        with pytest.raises(ValueError, match=rf"\A{words}\Z"):
            evaluate(at(slice(2), states), ids)


@pytest.mark.slow
def test_batch_larger_than_memory_raises(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(factory, "free_memory", lambda: 2**16)
    for network_only, also in ((False, ", or fewer --simulations"), (True, "")):
        words = (
            r"\Aa batch of 4,096 positions needs [\d.]+ MiB of a device, and 0\.1 MiB are free; "
            rf"use a smaller --batch, such as \d+{also}\Z"
        )
        with pytest.raises(ValueError, match=words):
            load_evaluator(file, batch_size=4096, network_only=network_only)


def check_devices() -> None:
    """Runs in a process with 8 devices; compares one device with all of them."""
    env = games.make("connect2")
    network = make_net(env)
    states = replay(env, [history for history, _ in all_histories(plain.CONNECT2)])
    one, eight = (
        make_evaluator(
            env,
            network,
            random_params(network, env.observation_shape),
            ROLLOUTS,
            batch_size=16,
            devices=n,
        )
        for n in (1, None)
    )
    said = eight.run(np.zeros((16, 2), np.uint32), at(slice(16), jax.device_get(states)))
    assert len(said.value.addressable_shards) == 8
    assert {shard.data.shape for shard in said.visits.addressable_shards} == {(2, 4)}
    assert_same(one(states), eight(states))
    # The states of requested positions are made on one device.
    asked = [[Question(i, i, [0, 1, 2][:i]) for i in range(4)]]
    [first], [second] = answer(one, asked), answer(eight, asked)
    assert [row["action"] for row in first.rows] == [row["action"] for row in second.rows]
    with pytest.raises(ValueError, match=r"^batch_size is 12; .* 8 devices: use 16, or fewer"):
        make_evaluator(env, network, None, ROLLOUTS, batch_size=12)


@pytest.mark.slow
def test_eight_devices_match_one_device() -> None:
    call_with_flags(check_devices, EIGHT_DEVICES)
