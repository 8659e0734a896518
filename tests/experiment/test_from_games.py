"""Training from the games of a data set: what is learned, what is scored, resuming, refusals."""

import json
import shutil
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax
import pytest

from dualmctx import AlphaZero, make_network
from dualmctx.commands import train
from dualmctx.datasets import load_dataset
from dualmctx.errors import UserError
from dualmctx.experiment.from_games import make_held_out_eval, make_positions
from dualmctx.runs.checkpoint import open_checkpoints
from dualmctx.runs.metrics_file import read_metrics
from dualmctx.training.config import Config
from dualmctx.training.learner import Learner
from dualmctx.training.selfplay import SelfPlay
from dualmctx.training.trainer import make_trainer
from made_data_sets import build, make, play_randomly, write_games

ENV = make("tic_tac_toe")
SMALL = (
    *("tic-tac-toe", "--network.width", "8", "--network.num-blocks", "2"),
    *("--search.variant", "alphazero", "--search.num-simulations", "2"),
    *("--selfplay.num-games", "4", "--selfplay.num-steps", "5", "--learner.num-updates", "2"),
    *("--learner.batch-size", "16", "--learner.capacity", "60", "--evals.num-games", "2"),
    *("--evals.every", "2", "--evals.max-positions", "20", "--checkpoint-every", "2"),
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of random games, a few of which have no result and some a random move."""
    folder = tmp_path_factory.mktemp("games")
    played: list[Any] = play_randomly("tic_tac_toe", 60)
    played[:6] = [{"moves": moves[:4], "is_over": False} for moves in played[:6]]
    played[6:12] = [{"moves": moves, "random": [2]} for moves in played[6:12]]
    file = write_games(folder / "games.jsonl", played)
    build(folder / "set", "tic_tac_toe", [file], unknown_results="keep", validation=0.3)
    return folder / "set"


def config_of(data: Path | None, **options: Any) -> Config:
    selfplay, learner = SelfPlay(num_games=4, num_steps=5), Learner(batch_size=16, capacity=60)
    own = {"selfplay": selfplay, "learner": learner, "num_iterations": 4} | options
    return Config(game="tic_tac_toe", dataset=None if data is None else str(data), **own)


def test_an_iteration_learns_the_next_positions_as_they_are(data: Path) -> None:
    config = config_of(data)
    positions = make_positions(config, ENV)
    assert positions is not None
    network = make_network(9, (3, 3, 2), width=8, num_blocks=2, trunk="mlp")
    # The positions have no search, whose value must not be learned.
    learner = Learner(batch_size=16, num_updates=1, capacity=60, search_value_weight=0.5)
    trainer = make_trainer(
        *(ENV, network, AlphaZero(2), config.selfplay, learner),
        optimizer=optax.sgd(0.0),
        positions=positions,
        devices=jax.devices()[:1],
    )
    state = trainer.init(0)
    games = jax.tree.map(np.array, state.games)
    iterate = trainer.compile(state)
    rows = []
    for _ in range(2):
        state, row = iterate(state)
        rows.append(row)
    jax.tree.map(np.testing.assert_array_equal, games, jax.tree.map(np.asarray, state.games))
    assert [row["games"] for row in rows] == [0, 0]
    assert [row["positions"] for row in rows] == [20, 20]
    stored = jax.tree.map(np.asarray, state.buffer_state.experience)
    first = load_dataset(data, "train", ENV, batch_size=20, seed=0, epoch=0)
    for iteration, batch in zip(range(2), first, strict=False):
        wanted = jax.tree.map(np.asarray, batch.positions)
        found = jax.tree.map(lambda x, n=iteration: x[:, 5 * n : 5 * n + 5], stored)
        for name in ("observation", "legal_action_mask", "policy"):
            one, other = getattr(found, name), getattr(wanted, name)
            np.testing.assert_array_equal(one.reshape(other.shape), other)
        known = wanted.has_value
        assert 0 < known.sum() < len(known)
        np.testing.assert_array_equal(found.has_value.reshape(-1), known)
        np.testing.assert_array_equal(found.value.reshape(-1)[known], wanted.value[known])
        target, is_known = found.value_target(0.0)
        np.testing.assert_array_equal(is_known.reshape(-1), known)
        np.testing.assert_array_equal(target.reshape(-1)[known], wanted.value[known])


def test_value_losses_are_those_of_known_results(data: Path) -> None:
    # With one position for each place of the buffer and no change of parameters, the loss of an
    # untrained network, whose values are 0, is the mean square of the known results.
    positions = make_positions(config_of(data), ENV)
    assert positions is not None
    network = make_network(9, (3, 3, 2), width=8, num_blocks=2, trunk="mlp")
    learner = Learner(batch_size=4000, num_updates=1, capacity=4000, search_value_weight=0.5)
    trainer = make_trainer(
        *(ENV, network, AlphaZero(2), SelfPlay(num_games=4, num_steps=5), learner),
        optimizer=optax.sgd(0.0),
        positions=positions,
        devices=jax.devices()[:1],
    )
    state, row = trainer.compile(trainer.shapes)(trainer.init(0))
    stored = jax.tree.map(lambda x: np.asarray(x)[:, :5], state.buffer_state.experience)
    expected = np.mean(stored.value[stored.has_value] ** 2)
    assert row["value_loss_1"] == pytest.approx(expected, abs=0.03)


def score_slowly(network: Any, params: Any, data: Path) -> dict[str, float]:
    """Scores the positions for validation one by one."""
    scores: dict[str, list[float]] = {"top1": [], "top5": [], "loss": [], "value_loss": []}
    for batch in load_dataset(data, "validation", ENV, batch_size=1):
        x = batch.positions
        output = network.apply(params, x.observation)[-1]
        logits = np.where(x.legal_action_mask, output.logits, -np.inf)[0]
        move = int(np.argmax(x.policy))
        rank = int(np.sum(logits > logits[move]) + np.sum(logits[:move] == logits[move]))
        scores["top1"].append(rank < 1)
        scores["top5"].append(rank < 5)
        scores["loss"].append(float(np.log(np.exp(logits).sum()) - logits[move]))
        if x.has_value[0]:
            scores["value_loss"].append(float(x.value[0] - output.value[0]) ** 2)
    means = {f"validation/network_{name}": float(np.mean(x)) for name, x in scores.items()}
    return means | {"validation/positions": len(scores["top1"])}


def test_held_out_scores_equal_those_of_single_positions(data: Path) -> None:
    network = make_network(9, (3, 3, 2), width=8, num_blocks=2, trunk="mlp")
    params = network.init(jax.random.PRNGKey(0), np.zeros((1, 3, 3, 2), np.float32))
    keys = iter(jax.random.split(jax.random.PRNGKey(1), 100))
    params = jax.tree.map(lambda x: x + 0.5 * jax.random.normal(next(keys), x.shape), params)
    found = make_held_out_eval(ENV, network, data, None)(params, jax.random.PRNGKey(0))
    assert found == pytest.approx(score_slowly(network, params, data), rel=1e-5)
    sampled = make_held_out_eval(ENV, network, data, 7)(params, jax.random.PRNGKey(0))
    assert sampled["validation/positions"] == 7


def train_here(data: Path, out: Path, number: int, *more: str) -> int:
    flags = ("--dataset", str(data), "--num-iterations", str(number), "--out", str(out))
    return train.main([*SMALL, *flags, *more])


def content(out: Path) -> tuple[list[Any], list[Any]]:
    rows = [
        {name: x for name, x in row.items() if "second" not in name}
        for row in read_metrics(out / "metrics.jsonl")
    ]
    state = open_checkpoints(out / "checkpoints").load().state
    return rows, [np.asarray(x).tolist() for x in jax.tree.leaves(state)]


@pytest.mark.slow
def test_a_resumed_run_continues_with_the_same_positions(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schedule = ("--schedule-iterations", "5")
    assert train_here(data, tmp_path / "whole", 5, *schedule) == 0
    said = capsys.readouterr().out
    assert f"learning the games of {data}" in " ".join(said.split())
    assert "games/s" not in said
    assert "validation: top-1" in said
    summary = json.loads((tmp_path / "whole" / "summary.json").read_text())
    assert summary["validation/positions"] > 20
    assert train_here(data, tmp_path / "part", 3, *schedule) == 0
    # The data set may be moved, with its new folder as a flag.
    moved = tmp_path / "moved"
    shutil.copytree(data, moved)
    resume = ["--resume", str(tmp_path / "part"), "--num-iterations", "5", "--dataset", str(moved)]
    assert train.main(resume) == 0
    assert content(tmp_path / "part") == content(tmp_path / "whole")


def test_a_run_of_self_play_has_no_positions() -> None:
    assert make_positions(config_of(None), ENV) is None


def test_data_sets_that_do_not_fit_are_refused(data: Path, tmp_path: Path) -> None:
    file = write_games(tmp_path / "games.jsonl", play_randomly("tic_tac_toe", 40))
    build(tmp_path / "merged", "tic_tac_toe", [file], merge=True)
    build(tmp_path / "unheld", "tic_tac_toe", [file], validation=0.0)
    large = config_of(data, selfplay=SelfPlay(num_games=400, num_steps=5), learner=Learner())
    for config, message in (
        (config_of(tmp_path / "none"), "none is not a complete data set"),
        (config_of(tmp_path / "merged"), "merged; it must be a data set without --merge"),
        (config_of(tmp_path / "unheld"), "with positions for validation"),
        (large, r"selfplay.num_games \* selfplay.num_steps is 2000; it must be at most"),
    ):
        with pytest.raises(UserError, match=message):
            make_positions(config, ENV)
    with pytest.raises(UserError, match="tic_tac_toe"):
        make_positions(config_of(data), make("connect2"))
    with pytest.raises(UserError, match="dataset is here; it must be left out with --coordinator"):
        config_of(Path("here"), coordinator="auto")
