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
from dualmctx.datasets import load_dataset, read_manifest
from dualmctx.errors import UserError
from dualmctx.experiment import assemble
from dualmctx.experiment.assemble import build_trainer, record_of
from dualmctx.experiment.from_games import make_held_out_eval, open_games
from dualmctx.runs.checkpoint import open_checkpoints
from dualmctx.runs.folder import create_run
from dualmctx.runs.metrics_file import read_metrics
from dualmctx.runs.saved_network import load_trained
from dualmctx.training import memory_budget
from dualmctx.training.batch import as_rows
from dualmctx.training.config import Config
from dualmctx.training.learner import Learner
from dualmctx.training.selfplay import SelfPlay
from dualmctx.training.trainer import make_trainer
from made_data_sets import build, make, play_randomly, write_games
from refusals import refused
from untrained import parse_train, random_params

GAME = "nim"
ENV = make(GAME)
NETWORK = make_network(ENV.num_actions, ENV.observation_shape, width=8, num_blocks=2)
SMALL = (
    *("nim", "--network.width", "8", "--network.num-blocks", "2"),
    *("--search.variant", "alphazero", "--search.num-simulations", "2"),
    *("--selfplay.num-games", "8", "--selfplay.num-steps", "5", "--learner.num-updates", "2"),
    *("--learner.batch-size", "16", "--learner.capacity", "80", "--evals.num-games", "2"),
    *("--evals.every", "2", "--evals.max-positions", "20", "--checkpoint-every", "2"),
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of random games, a few of which have no result and some a random move."""
    folder = tmp_path_factory.mktemp("games")
    played: list[Any] = play_randomly(GAME, 60)
    played[:6] = [{"moves": moves[:4], "is_over": False} for moves in played[:6]]
    played[6:12] = [{"moves": moves, "random": [2]} for moves in played[6:12]]
    file = write_games(folder / "games.jsonl", played)
    build(folder / "set", GAME, [file], unknown_results="keep", validation=0.3)
    return folder / "set"


def config_of(data: Path | None, **options: Any) -> Config:
    selfplay, learner = SelfPlay(num_games=4, num_steps=5), Learner(batch_size=16, capacity=60)
    own = {"selfplay": selfplay, "learner": learner, "num_iterations": 4} | options
    return Config(game=GAME, dataset=None if data is None else str(data), **own)


def test_an_iteration_learns_the_next_positions_as_they_are(data: Path) -> None:
    """Without a change of parameters, the values of an untrained network are 0.

    The loss is then the mean square of the known results. There is no search, whose value could be
    learned.
    """
    config = config_of(data)
    learner = Learner(batch_size=4000, num_updates=1, capacity=4000, search_value_weight=0.5)
    trainer = make_trainer(
        *(ENV, NETWORK, AlphaZero(2), config.selfplay, learner),
        optimizer=optax.sgd(0.0),
        positions=open_games(config, ENV, NETWORK).positions,
        devices=jax.devices()[:1],
    )
    state, rows = trainer.init(0), []
    games = jax.tree.map(np.array, state.games)
    iterate = trainer.compile(state)
    for _ in range(2):
        state, row = iterate(state)
        rows.append(row)
    jax.tree.map(np.testing.assert_array_equal, games, jax.tree.map(np.asarray, state.games))
    assert not any("games" in row for row in rows)
    assert [row["positions"] for row in rows] == [20, 20]
    stored = jax.tree.map(np.asarray, state.buffer_state.experience)
    known = stored.has_value[:, :10]
    expected = np.mean(stored.value[:, :10][known] ** 2)
    assert rows[1]["value_loss_1"] == pytest.approx(expected, abs=0.05)
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


def test_another_number_of_positions_is_refused(data: Path) -> None:
    positions = open_games(config_of(data), ENV, NETWORK).positions(0)
    with pytest.raises(
        UserError, match=r"^positions gave 20 positions; it must give 16, num_games"
    ):
        as_rows(positions, (4, 4), positions)


def score_slowly(network: Any, params: Any, data: Path) -> dict[str, float]:
    """Scores the positions for validation one by one."""
    scores: dict[str, list[float]] = {"top1": [], "top5": [], "loss": [], "value_loss": []}
    apply = jax.jit(network.apply)
    for batch in load_dataset(data, "validation", ENV, batch_size=1):
        x = batch.positions
        output = jax.device_get(apply(params, x.observation)[-1])
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
    params = random_params(NETWORK, ENV.observation_shape)
    found = make_held_out_eval(ENV, NETWORK, data, None)(params, jax.random.PRNGKey(0))
    assert found == pytest.approx(score_slowly(NETWORK, params, data), rel=1e-5)
    sampled = make_held_out_eval(ENV, NETWORK, data, 7)(params, jax.random.PRNGKey(0))
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
@pytest.mark.usefixtures("unpredicted")
def test_a_resumed_run_continues_with_the_positions_that_follow(
    data: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Other evals than that of the data set would compile searches.
    monkeypatch.setattr(assemble, "make_evals", lambda *_: ((), (), {}))
    number, train_rows = 4, read_manifest(data).splits["train"]["rows"]
    # A second epoch begins in the last iteration.
    size = ("--selfplay.num-steps", str(train_rows // 25), "--learner.capacity", "400")
    read = 8 * (train_rows // 25)
    assert 3 * read < train_rows < 4 * read
    schedule = ("--schedule-iterations", str(number), *size)
    assert train_here(data, tmp_path / "whole", number, *schedule) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"the games of {data}, evals by AlphaZero with 2 simulations" in said
    assert f"learning {train_rows} positions of" in said
    assert f"each {read * number / train_rows:.1f} times" in said
    assert "games/s" not in said
    assert "validation (20 positions): top-1" in said
    summary = json.loads((tmp_path / "whole" / "summary.json").read_text())
    assert summary["validation/positions"] == read_manifest(data).splits["validation"]["rows"]
    assert "games" not in summary
    assert train_here(data, tmp_path / "part", 2, *schedule) == 0
    moved, part = tmp_path / "moved", str(tmp_path / "part")
    shutil.move(data, moved)
    more = ("--num-iterations", str(number))
    said = refused(["train", "--resume", part, *more], capsys)
    assert "if it was moved, name its new folder by --dataset" in said
    other = tmp_path / "other"
    build(other, GAME, [write_games(tmp_path / "x.jsonl", play_randomly(GAME, 50, 1))])
    said = refused(["train", "--resume", part, *more, "--dataset", str(other)], capsys)
    assert "inputs" in said
    assert train.main(["--resume", part, *more, "--dataset", str(moved)]) == 0
    shutil.move(moved, data)
    assert content(tmp_path / "part") == content(tmp_path / "whole")
    # Self-play may start from its network.
    assert load_trained(tmp_path / "whole").iteration == number


@pytest.mark.slow
@pytest.mark.usefixtures("unpredicted")
def test_a_run_of_self_play_cannot_be_resumed_with_games(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create_run(tmp_path / "run", record_of(*parse_train([*SMALL])))
    resume = ["train", "--resume", str(tmp_path / "run"), "--dataset", str(data)]
    assert "dataset" in refused([*resume, "--num-iterations", "2"], capsys)


@pytest.mark.usefixtures("unpredicted")
def test_the_memory_of_a_run_has_no_search_but_that_of_the_evals(data: Path) -> None:
    memories = []
    for config in (config_of(None), config_of(data)):
        trainer = build_trainer(config, ENV, NETWORK, jax.devices()[:1])
        memories.append(memory_budget.training_memory(ENV, NETWORK, config, trainer.shapes, 1))
    played, learned = memories
    assert learned.search.total == 0 < played.search.total
    assert learned.evals == played.evals
    assert learned.state > played.state
    with pytest.raises(UserError, match=r"^the run needs .*, and --memory-limit is 0.0 MiB; use"):
        memory_budget.require_memory(learned, 1000, is_asked_for=True)


def test_data_sets_that_do_not_fit_are_refused(data: Path, tmp_path: Path) -> None:
    file = write_games(tmp_path / "games.jsonl", play_randomly(GAME, 40))
    build(tmp_path / "merged", GAME, [file], merge=True)
    shutil.copytree(data, tmp_path / "cut")
    next((tmp_path / "cut").glob("validation-*")).unlink()
    large = config_of(data, selfplay=SelfPlay(num_games=400, num_steps=5), learner=Learner())
    for config, message in (
        (config_of(tmp_path / "none"), "none is not a complete data set"),
        (config_of(tmp_path / "merged"), "merged; it must be a data set without --merge"),
        (config_of(tmp_path / "cut"), "has 0 shards in the split validation"),
        (large, r"selfplay.num_games \* selfplay.num_steps is 2000; it must be at most"),
    ):
        with pytest.raises(UserError, match=message):
            open_games(config, ENV, NETWORK)
    with pytest.raises(UserError, match="is a data set of nim, not of connect2"):
        open_games(config_of(data), make("connect2"), NETWORK)
    with pytest.raises(UserError, match="dataset is here; it must be left out with --coordinator"):
        config_of(Path("here"), coordinator="auto")
