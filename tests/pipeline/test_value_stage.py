"""The value stage: the loss, the positions, exact values, resuming."""

import dataclasses
import functools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
from dualmctx.datasets import batch_feed, load_dataset, read_shard
from dualmctx.datasets.shards import shard_paths
from dualmctx.experiment.stage import Stage
from dualmctx.pipeline.config import ValueConfig
from dualmctx.pipeline.options import ValueOptions
from dualmctx.pipeline.parts import (
    POLICY,
    ROLLOUT,
    VALUE,
    alphago_network,
    get_part,
    initial_params,
    make_value_fn,
)
from dualmctx.pipeline.stage import Inputs
from dualmctx.pipeline.value import GAMES_FOLDER, make_stage
from dualmctx.pipeline.value_games import Policies, make_value_games
from dualmctx.runs.saved_network import Trained
from dualmctx.training.config import NetworkOptions
from fake_stage import assert_reports_fit

ENV = games.make("tic_tac_toe")
NETWORK = alphago_network(ENV, NetworkOptions(trunk="mlp", width=32, num_blocks=1))
# The place of a cell's state, in base 3, in a table of all positions.
CELLS = 3 ** np.arange(9)


@functools.cache
def start() -> Any:
    return initial_params(NETWORK, ENV, jax.random.PRNGKey(5))


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


PERFECT = ValueOptions(
    **{"num_games": 2000, "max_opening_plies": 7, "games_per_batch": 2000, "max_plies": 9},
    **{"test_share": 0.2, "num_iterations": 2, "num_updates": 150, "batch_size": 128},
    **{"learning_rate": 5e-3, "eval_every": 0},
)


@pytest.fixture(scope="module")
def perfect_games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a stage with games of random moves that perfect players continue."""
    folder, table = tmp_path_factory.mktemp("perfect"), perfect_table()
    policies = Policies(table_logits, jnp.zeros_like(table), table)
    config = ValueConfig(game="tic_tac_toe", value=PERFECT)
    make_value_games(ENV, policies, config, folder / GAMES_FOLDER, print)
    return folder


def make(
    folder: Path,
    options: ValueOptions,
    *,
    is_nan: tuple[bool, bool] = (False, False),
    **changes: Any,
) -> Stage:
    """Makes a stage; `is_nan` says whether the supervised and the reinforced policy are NaN."""
    config = ValueConfig(game="tic_tac_toe", value=dataclasses.replace(options, **changes))
    supervised, reinforced = (
        Trained(ENV, NETWORK, jax.tree.map(lambda x, y=y: x + y, start()), 1, {})
        for y in (np.nan if is_nan[0] else 0, np.nan if is_nan[1] else 0.1)
    )
    inputs = Inputs(init_from=reinforced, supervised=supervised)
    return make_stage(ENV, NETWORK, config, inputs, folder)


@pytest.mark.slow
def test_the_value_network_learns_exact_values_from_perfect_players(perfect_games: Path) -> None:
    stage = make(perfect_games, PERFECT)
    state = stage.init()
    untrained = stage.evaluate(state)
    for _ in range(PERFECT.num_iterations):
        state, _ = stage.iterate(state)
    found = stage.evaluate(state)
    assert found["test/value_loss"] < 0.5 * found["test/constant_loss"]
    assert found["exact/value_loss"] < 0.6 * found["exact/constant_loss"]
    assert found["train/value_loss"] < found["test/value_loss"] < untrained["test/value_loss"]


def errors_by_hand(folder: Path, mean: float, split: str, only_first: bool) -> dict[str, float]:
    """Returns the errors of the untrained network and of a constant."""
    value_fn = jax.jit(make_value_fn(NETWORK))
    one: Any = "first" if only_first else False
    options = {"batch_size": 10_000, "shuffle": False, "one_per_game": one}
    [batch] = load_dataset(folder, split, ENV, **options)
    results = np.asarray(batch.positions.value)
    values = value_fn(get_part(start(), VALUE), batch.positions.observation)
    return {
        "value": float(np.mean((results - values) ** 2)),
        "constant": float(np.mean((results - mean) ** 2)),
    }


@pytest.mark.slow
def test_errors_are_means_over_positions_of_different_games(perfect_games: Path) -> None:
    data = perfect_games / GAMES_FOLDER
    shards = {x: [read_shard(y) for y in shard_paths(data, x)] for x in ("train", "test")}
    games_of = {x: {k for shard in y for k in shard.game_keys.tolist()} for x, y in shards.items()}
    assert not games_of["train"] & games_of["test"]
    for positions, only_first in (("one", True), ("all", False)):
        stage = make(perfect_games, PERFECT, positions=positions)
        found = stage.evaluate(stage.init()._replace(params=start()))
        learned = [
            x.values[np.unique(x.games, return_index=True)[1]] if only_first else x.values
            for x in shards["train"]
        ]
        learned = np.concatenate(learned)
        assert found["train/positions"] == len(learned)
        for scope, split, first in (
            ("train", "train", only_first),
            ("test", "test", True),
            ("test_games", "test", False),
        ):
            expected = errors_by_hand(data, float(learned.mean()), split, first)
            for name, x in expected.items():
                assert found[f"{scope}/{name}_loss"] == pytest.approx(x, rel=1e-4)
        assert 0 <= found["test_unseen/positions"] < found["test/positions"]


SMALL = ValueOptions(
    **{"num_games": 300, "num_iterations": 4, "num_updates": 5, "batch_size": 32},
    **{"games_per_batch": 256, "max_plies": 9, "eval_every": 2, "augment": False},
)


@pytest.mark.slow
def test_a_resumed_stage_gives_the_same_numbers(tmp_path: Path) -> None:
    stage, said = make(tmp_path, SMALL), []
    stage.prepare(said.append)
    assert any("over before it" in line for line in said)
    state, rows = stage.init(), []
    first = jax.tree.map(np.array, state.params)
    for iteration in range(1, 5):
        if iteration == 3:
            # Another process has only the checkpoint and the games.
            stage = make(tmp_path, SMALL)
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
    # Only the value network is trained; the rest is that of the supervised stage.
    for part in (POLICY, ROLLOUT, VALUE):
        same = jax.tree.map(np.array_equal, get_part(first, part), get_part(state.params, part))
        assert jax.tree.all(same) == (part != VALUE)

    rows[-1] |= stage.evaluate(state)
    assert 0 < rows[-1]["exact/value_loss"] < 4
    summary = assert_reports_fit(stage, state, rows, tmp_path)
    assert summary["games"] == 300 == summary["games_used"] + summary["games_over_early"]


@pytest.mark.slow
def test_games_end_with_the_reinforced_policy(tmp_path: Path) -> None:
    """If the first move is the random one, the supervised policy plays none."""
    one = make(tmp_path / "one", SMALL, is_nan=(True, False), max_opening_plies=1)
    one.prepare(lambda line: None)
    with pytest.raises(ValueError, match="is NaN or infinite"):
        make(tmp_path / "other", SMALL, is_nan=(False, True)).prepare(lambda line: None)


@pytest.mark.slow
def test_the_options_choose_positions_and_symmetries(
    perfect_games: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Any] = []
    load = lambda *given, **options: found.append((*given[:2], options))  # noqa: E731
    monkeypatch.setattr(batch_feed, "load_dataset", load)
    for options in ({"positions": "one"}, {"positions": "all", "augment": False}):
        stage = make(perfect_games, PERFECT, **options)
        with pytest.raises(TypeError):
            stage.iterate(stage.init())
    assert {x[:2] for x in found} == {(perfect_games / GAMES_FOLDER, "train")}
    chosen = [(x["one_per_game"], x["augment"]) for *_, x in found]
    assert chosen == [("first", True)] * (len(found) // 2) + [(False, False)] * (len(found) // 2)


def test_options_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    env = games.make("nim")
    network = alphago_network(env, NetworkOptions(trunk="mlp", width=8, num_blocks=1))
    trained = Trained(env, network, initial_params(network, env, jax.random.PRNGKey(0)), 1, {})
    config = ValueConfig(game="nim", value=ValueOptions(augment=True))
    inputs = Inputs(init_from=trained, supervised=trained)
    with pytest.raises(ValueError, match=r"value\.augment is True; it must be left out, because"):
        make_stage(env, network, config, inputs, tmp_path)
