"""The value stage: the loss, the positions, exact values, resuming."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import games
from dualmctx.console import Console
from dualmctx.datasets import read_manifest, read_shard
from dualmctx.datasets.shards import shard_paths
from dualmctx.experiment.stage import Stage
from dualmctx.pipeline.config import ValueConfig, ValueOptions
from dualmctx.pipeline.exact import exact_positions, value_error
from dualmctx.pipeline.parts import (
    POLICY,
    ROLLOUT,
    VALUE,
    alphago_network,
    get_part,
    initial_params,
    make_value_fn,
    with_part,
)
from dualmctx.pipeline.stage import Inputs
from dualmctx.pipeline.value import stage as value_stage
from dualmctx.pipeline.value.games import Policies, make_value_games
from dualmctx.pipeline.value.positions import (
    ALL,
    ONE,
    ValueData,
    load_value_data,
    make_learn,
    measure_errors,
)
from dualmctx.pipeline.value.report import summarize
from dualmctx.pipeline.value.stage import make_stage
from dualmctx.runs.saved_network import Trained
from dualmctx.training.config import NetworkOptions

ENV = games.make("tic_tac_toe")
NETWORK = alphago_network(ENV, NetworkOptions(trunk="mlp", width=32, num_blocks=1))
START = initial_params(NETWORK, ENV, jax.random.PRNGKey(5))
# The place of a cell's state, in base 3, in a table of all positions.
CELLS = 3 ** np.arange(9)


def linear(part: jax.Array, observation: jax.Array) -> jax.Array:
    """A value network with one parameter per entry of the observation."""
    return jnp.tanh(observation.reshape(len(observation), -1) @ part)


def test_updates_are_those_of_gradient_descent_by_hand() -> None:
    """All positions are equal, so that the sampled batch does not matter."""
    rng = np.random.default_rng(1)
    x, part = rng.normal(size=6), rng.normal(size=6)
    learn = make_learn(linear, optax.sgd(0.1), num_updates=4, batch_size=3)
    positions = jnp.asarray(np.tile(x, (5, 1)), jnp.float32), jnp.full(5, -1.0)
    start = jnp.asarray(part, jnp.float32)
    state = optax.sgd(0.1).init(start)
    found, _, mean_loss = learn(start, state, jax.random.PRNGKey(0), positions)
    losses = []
    for _ in range(4):
        v = np.tanh(x @ part)
        losses.append((-1 - v) ** 2)
        part = part - 0.1 * -2 * (-1 - v) * (1 - v**2) * x
    np.testing.assert_allclose(found, part, rtol=1e-4)
    np.testing.assert_allclose(mean_loss, np.mean(losses), rtol=1e-4)


def test_symmetries_are_applied_to_the_observation() -> None:
    """With both permutations of two entries, a value that differs between them is not learned."""
    x, z = jnp.array([[1.0, 0.0]]), jnp.array([1.0])
    start, moved = jnp.zeros(2), {}
    tables = {"plain": None, "mirrored": [[1, 0]], "both": [[0, 1], [1, 0]]}
    for name, table in tables.items():
        symmetries = None if table is None else np.array(table)
        learn = make_learn(linear, optax.sgd(0.1), 20, 16, symmetries)
        state = optax.sgd(0.1).init(start)
        moved[name] = learn(start, state, jax.random.PRNGKey(0), (x, z))[0]
    assert moved["plain"][0] > 0.5 > moved["plain"][1] == 0
    np.testing.assert_array_equal(moved["mirrored"], moved["plain"][::-1])
    assert 0.3 < moved["both"][0] / moved["both"][1] < 3


def perfect_table() -> jax.Array:
    """Returns `[3^9, 9]` logits of moves that keep the value, by the number of the position."""
    solution = games.solve(ENV)
    states = games.replay(ENV, solution.histories)
    table = np.zeros((3**9, 9), np.float32)
    table[np.asarray(number_of(states.observation))] = np.where(solution.optimal_actions, 0, -1e9)
    return jnp.asarray(table)


def number_of(observation: jax.Array) -> jax.Array:
    cells = observation.reshape(len(observation), 9, 2).astype(jnp.int32)
    return (cells[..., 0] + 2 * cells[..., 1]) @ CELLS


def table_logits(params: jax.Array, observation: jax.Array) -> jax.Array:
    return params[number_of(observation)]


@pytest.fixture(scope="module")
def perfect_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of games of random moves that perfect players continue."""
    folder, table = tmp_path_factory.mktemp("perfect") / "games", perfect_table()
    options = ValueOptions(
        num_games=2000, max_opening_plies=7, games_per_batch=256, max_plies=9, test_share=0.2
    )
    policies = Policies(table_logits, jnp.zeros_like(table), table)
    config = ValueConfig(game="tic_tac_toe", value=options)
    make_value_games(ENV, policies, config, folder, {})
    return folder


@pytest.fixture(scope="module")
def perfect_data(perfect_folder: Path) -> ValueData:
    """Positions after random moves, with the results of perfect players."""
    return load_value_data(ENV, perfect_folder, ONE, 500, seed=0)


@pytest.mark.slow
def test_value_network_learns_exact_values_from_perfect_players(perfect_data: ValueData) -> None:
    one, value_fn, optimizer = perfect_data.train, make_value_fn(NETWORK), optax.adam(5e-3)
    shuffled = one._replace(value=np.random.default_rng(0).permutation(one.value))
    learn = make_learn(value_fn, optimizer, 800, 64, games.symmetries(ENV).observation)
    exact = exact_positions(ENV)
    assert exact is not None
    errors, found = [], []
    for positions in (one, shuffled):
        arrays = jnp.asarray(positions.observation), jnp.asarray(positions.value)
        part = get_part(START, VALUE)
        part, *_ = learn(part, optimizer.init(part), jax.random.PRNGKey(1), arrays)
        errors.append(measure_errors(value_fn, part, perfect_data, 500))
        params = with_part(START, VALUE, part)
        found.append(value_error(NETWORK, params, exact)["exact/value_error"])
    chance, constant = errors[0]["constant/test_mse"], float(np.var(exact.values))
    # The ratio is 0.20 with JAX 0.10 and 0.32 with JAX 0.12, whose rounding differs.
    assert errors[0]["value/test_mse"] < 0.5 * chance
    assert found[0] < 0.6 * constant
    # The same positions with shuffled results say nothing about the values.
    assert errors[1]["value/test_mse"] > 0.8 * chance
    assert found[1] > 0.8 * constant


@pytest.mark.slow
def test_training_and_held_out_positions_are_of_different_games(
    perfect_folder: Path, perfect_data: ValueData
) -> None:
    one, test = perfect_data.train, perfect_data.test
    splits = read_manifest(perfect_folder).splits
    assert len(one.value) == len(one.keys) == one.num_games == splits["train"]["games"]
    assert test[ONE].num_games == splits["test"]["games"] < 500
    # As many positions of fewer games can be learned.
    every = load_value_data(ENV, perfect_folder, ALL, 500, seed=0).train
    assert len(every.value) == len(one.value)
    assert every.num_games < one.num_games
    played = np.asarray(one.observation).sum(axis=(1, 2, 3))
    assert played.min() == 1
    assert 5 < played.max() < 9
    assert set(np.unique(one.value)) == {-1.0, 0.0, 1.0}
    known = set(one.keys.tolist())
    assert perfect_data.is_unseen.tolist() == [x not in known for x in test[ONE].keys.tolist()]
    keys = {}
    for split, loaded in (("train", [one, every]), ("test", test.values())):
        shards = [read_shard(path) for path in shard_paths(perfect_folder, split)]
        positions = {int(key) for shard in shards for key in shard.keys}
        assert {int(key) for x in loaded for key in x.keys} <= positions
        keys[split] = {int(key) for shard in shards for key in shard.game_keys}
    assert not keys["train"] & keys["test"]


@pytest.mark.slow
def test_errors_are_means_over_positions(perfect_data: ValueData) -> None:
    """A linear network has errors that a few lines of NumPy give."""
    part = np.linspace(-0.2, 0.3, 18, dtype=np.float32)
    found = measure_errors(linear, part, perfect_data, 10_000)
    one, mean = perfect_data.test[ONE], perfect_data.train.value.mean()
    entries = {"train": perfect_data.train, "test": one, "test_games": perfect_data.test[ALL]}
    if perfect_data.is_unseen.sum() >= 30:
        rows = {x: getattr(one, x)[perfect_data.is_unseen] for x in ("observation", "value")}
        entries["test_unseen"] = one._replace(**rows)
    for entry, x in entries.items():
        predicted = np.tanh(x.observation.reshape(len(x.value), -1) @ part)
        for name, prediction in (("value", predicted), ("constant", mean)):
            expected = np.mean((x.value - prediction) ** 2)
            assert found.pop(f"{name}/{entry}_mse") == pytest.approx(expected, rel=1e-4)
    assert found == {}


SMALL = ValueOptions(
    **{"num_games": 300, "num_iterations": 4, "num_updates": 5, "batch_size": 32},
    **{"games_per_batch": 256, "max_plies": 9, "eval_every": 2, "augment": False},
)


def make(folder: Path, *, is_nan: tuple[bool, bool] = (False, False), **changes: Any) -> Stage:
    """Makes a stage; `is_nan` says whether the supervised and the reinforced policy are NaN."""
    config = ValueConfig(game="tic_tac_toe", value=dataclasses.replace(SMALL, **changes))
    supervised, reinforced = (
        Trained(ENV, NETWORK, jax.tree.map(lambda x, y=y: x + y, START), 1, {})
        for y in (np.nan if is_nan[0] else 0, np.nan if is_nan[1] else 0.1)
    )
    inputs = Inputs(init_from=reinforced, supervised=supervised)
    return make_stage(ENV, NETWORK, config, inputs, folder)


@pytest.mark.slow
def test_a_resumed_stage_gives_the_same_numbers(tmp_path: Path) -> None:
    stage, said = make(tmp_path), []
    stage.prepare(said.append)
    assert any("over before it" in line for line in said)
    state, rows = stage.init(), []
    first = state.params
    for iteration in range(1, 5):
        if iteration == 3:
            # Another process has only the checkpoint and the games.
            stage = make(tmp_path)
            stage.prepare(said.append)
            state = jax.tree.map(jnp.array, jax.tree.map(np.array, state))
        state, row = stage.iterate(state)
        rows.append({"iteration": iteration, **row})
        assert row.keys() == {"value_loss"}
    again = stage.init()
    for row in rows:
        again, entries = stage.iterate(again)
        assert entries == {x: row[x] for x in entries}
    jax.tree.map(np.testing.assert_array_equal, state, again)
    assert int(state.iteration) == 4
    # Only the value network is trained; the rest is that of the supervised stage.
    for part in (POLICY, ROLLOUT, VALUE):
        same = jax.tree.map(np.array_equal, get_part(first, part), get_part(state.params, part))
        assert jax.tree.all(same) == (part != VALUE)

    rows[-1] |= stage.evaluate(state)
    assert 0 < rows[-1]["exact/value_error"] < 4
    assert max(len(stage.describe(row).lines[0]) for row in rows) <= 43
    summary = stage.summarize(state, rows)
    assert summary["games"] == 300 == summary["games_used"] + summary["games_over_early"]
    json.dumps(summary, allow_nan=False)
    console = Console(width=80, record=True, file=None, quiet=True)
    console.print(stage.table(summary))
    stage.plot(rows, "tic_tac_toe, value", tmp_path / "curve.png")
    assert (tmp_path / "curve.png").stat().st_size > 1000


@pytest.mark.slow
def test_games_end_with_the_reinforced_policy(tmp_path: Path) -> None:
    """If the first move is the random one, the supervised policy plays none."""
    make(tmp_path / "one", is_nan=(True, False), max_opening_plies=1).prepare(lambda line: None)
    with pytest.raises(ValueError, match="is NaN or infinite"):
        make(tmp_path / "other", is_nan=(False, True)).prepare(lambda line: None)


@pytest.mark.parametrize(("which", "held_out"), [("one", "test_mse"), ("all", "test_games_mse")])
def test_the_gap_is_between_positions_of_one_kind(
    which: str, held_out: str, perfect_folder: Path
) -> None:
    data = load_value_data(ENV, perfect_folder, which, 500, seed=0)
    row = {"value/train_mse": 0.25, "value/test_mse": 0.5, "value/test_games_mse": 1.0}
    found = summarize([row], read_manifest(perfect_folder), data, which)
    assert found["value/gap"] == row[f"value/{held_out}"] - 0.25
    assert (found["learned"], found["games_trained"]) == (which, data.train.num_games)


@pytest.mark.parametrize(("augment", "number"), [(None, 8), (True, 8), (False, 0)])
def test_symmetries_of_the_game_are_used_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, augment: bool | None, number: int
) -> None:
    found = []
    monkeypatch.setattr(value_stage, "make_learn", lambda *arguments: found.append(arguments[-1]))
    make(tmp_path, augment=augment)
    assert [0 if table is None else len(table) for table in found] == [number]


def test_options_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    env = games.make("nim")
    network = alphago_network(env, NetworkOptions(trunk="mlp", width=8, num_blocks=1))
    trained = Trained(env, network, initial_params(network, env, jax.random.PRNGKey(0)), 1, {})
    config = ValueConfig(game="nim", value=ValueOptions(augment=True))
    inputs = Inputs(init_from=trained, supervised=trained)
    with pytest.raises(ValueError, match=r"has no symmetries; leave value\.augment out"):
        make_stage(env, network, config, inputs, tmp_path)
    wrong: dict[str, Any] = {"num_games": 0, "max_opening_plies": 0, "test_share": 1.0}
    for name, value in wrong.items():
        with pytest.raises(ValueError, match=name):
            ValueOptions(**{name: value})
