"""The training command: its files, the input it refuses, and how a run is stopped and resumed."""

import contextlib
import io
import json
import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import matplotlib.image
import numpy as np
import pytest

import games
from dualmctx.commands import train
from dualmctx.experiment import assemble, runner, selfplay
from dualmctx.experiment.assemble import record_of
from dualmctx.experiment.runner import resume_command
from dualmctx.models.network import SeparateTrunks
from dualmctx.policies import REGISTRY
from dualmctx.runs.checkpoint import open_checkpoints
from dualmctx.runs.folder import RunFolder
from dualmctx.runs.metrics_file import Row, read_metrics
from dualmctx.runs.saved_network import build_network
from refusals import refusal
from untrained import make_fake_trainer, parse_train

SMALL = [
    "connect2",
    *("--network.width", "8", "--network.num-blocks", "2", "--selfplay.num-games", "8"),
    *("--learner.num-updates", "2", "--evals.num-games", "4"),
]
ALPHAZERO = [*SMALL, "--search.variant", "alphazero", "--search.num-simulations", "2"]
# The last iterations come after a regular checkpoint.
ON_THE_WAY = [*ALPHAZERO, "--evals.every", "2", "--checkpoint-every", "3", "--keep", "1"]
NUM_ITERATIONS = 7


def run_here(arguments: list[str], out: Path, num_iterations: int) -> int:
    return train.main([*arguments, "--num-iterations", str(num_iterations), "--out", str(out)])


def read_json(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text())


def metrics_of(out: Path) -> list[Row]:
    return read_metrics(RunFolder(out).metrics)


class Finished(NamedTuple):
    """A finished run with evals during training, and its output."""

    out: Path
    rows: list[dict[str, Any]]
    said: str


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    out, said, errors = tmp_path_factory.mktemp("runs") / "whole", io.StringIO(), io.StringIO()
    redirected = contextlib.redirect_stdout(said), contextlib.redirect_stderr(errors)
    with pytest.MonkeyPatch.context() as patch, redirected[0], redirected[1]:
        skip_memory_check(patch)
        assert run_here(ON_THE_WAY, out, NUM_ITERATIONS) == 0
    assert errors.getvalue() == ""
    return Finished(out, metrics_of(out), said.getvalue())


def test_a_run_writes_its_files(finished):
    out, rows, said = finished
    files = {"config.json", "metrics.jsonl", "summary.json", "curve.png"}
    assert {x.name for x in out.iterdir()} == files | {"checkpoints", "tensorboard"}
    config = read_json(out / "config.json")
    assert (config["preset"], config["num_iterations"]) == ("connect2", NUM_ITERATIONS)
    assert config["search"]["num_simulations"] == 2
    assert config["search"]["variant"] == "alphazero"
    assert [row["iteration"] for row in rows] == list(range(1, NUM_ITERATIONS + 1))
    assert {row["positions"] for row in rows} == {64}
    assert ["exact/search_optimal" in row for row in rows] == [
        i % 2 == 0 for i in range(1, NUM_ITERATIONS + 1)
    ]
    spent = sum(row["selfplay_seconds"] + row["learn_seconds"] for row in rows)
    assert rows[-1]["seconds"] == pytest.approx(spent)
    # Only the newest checkpoint is kept.
    assert [x.name for x in (out / "checkpoints").iterdir()] == [str(NUM_ITERATIONS)]
    assert matplotlib.image.imread(out / "curve.png").size
    for words in ("connect2: AlphaZero with 2 simulations", "network alone", str(out)):
        assert words in said


def test_summary_agrees_with_metrics_and_solution(finished):
    summary, rows = read_json(finished.out / "summary.json"), finished.rows
    assert summary["title"] == f"connect2 after {NUM_ITERATIONS} iterations"
    assert (summary["iterations"], summary["positions"]) == (NUM_ITERATIONS, 64 * NUM_ITERATIONS)
    assert summary["games"] == sum(row["games"] for row in rows)
    assert summary["seconds"] == rows[-1]["seconds"]
    solution = games.solve(games.make("connect2"))
    assert summary["exact_positions"] == len(solution.values)
    assert summary["path_positions"] == solution.on_optimal_path.sum()
    for place in ("exact", "path"):
        for name in ("search_optimal", "network_optimal", "search_value", "network_value"):
            assert 0 <= summary[f"{place}/{name}"] <= 1
    for side in ("first", "second"):
        assert sum(summary[f"perfect/{side}_{x}"] for x in ("wins", "draws", "losses")) == 2
    # The first player wins under perfect play.
    assert summary["perfect/second_losses"] == 2
    optimal = (summary[f"path/{who}_optimal"] == 1 for who in ("network", "search"))
    assert summary["solved"] == all(optimal)
    share = f"{summary['exact/search_optimal']:.2%}"
    assert share in finished.said


@pytest.mark.slow
@pytest.mark.parametrize("variant", REGISTRY)
def test_the_record_determines_the_network(variant):
    arguments = ["hsr", "--search.variant", variant, "--network.num-blocks", "4"]
    config = parse_train(arguments)[1]
    record = json.loads(json.dumps(record_of("hsr", config)))
    assert record["search"]["variant"] == variant
    env = games.make("hsr")
    network = build_network(record, env)
    assert len(network.head_depths) == max(2, len(config.search.heads))
    assert record["network"]["separate_trunks"] == (variant == "mpv")


def test_flags_choose_separate_policy_and_value_networks():
    flags = ["--network.separate-trunks", "True", "--network.head-depths", "0", "1"]
    flags += ["--network.width", "8", "--network.value-blocks", "2"]
    flags += ["--network.kept-activations", "bfloat16"]
    name, config = parse_train(["connect2", "--search.variant", "alphago", *flags])
    network = build_network(record_of(name, config), games.make("connect2"))
    assert network == SeparateTrunks(4, "mlp", 8, (0, 1), value_depth=2)
    expected = {"activations_dtype": "bfloat16", "compact_states": False}
    assert config.network.model_kwargs() == expected


def test_a_row_has_the_rates_of_its_iteration():
    """With a fake iteration of 2 + 3 seconds, and searches of 4 + 2 simulations."""
    flags = ["--search.num-simulations", "4", "2", "--search.num-rounds", "1"]
    took = {"positions": 64, "games": 7, "selfplay_seconds": 2.0, "learn_seconds": 3.0}
    rates = {"positions_per_second": 32.0, "simulations_per_second": 192.0}
    expected = took | {"seconds": 5.0, "games_per_second": 3.5} | rates
    assert selfplay.with_rates(took, parse_train([*SMALL, *flags])[1]) == expected


BY_ONE = ["--search.variant", "alphazero"]


# Arguments, and a part of the message that refuses them.
BAD = [
    (["checkers"], "there is no preset 'checkers'; name one of connect2, nim"),
    (["--seed", "3"], "there is no preset; name one of connect2, nim"),
    (["nim", "--game", "checkers"], "no game 'checkers'"),
    (["nim", "--game-parameters", "pile", "0"], "pile=0"),
    (["nim", "--game-parameters", "pile", "many"], "'pile many' is given; it must be names, each"),
    (["nim", "--selfplay.num_game=1"], "num_game=1 Perhaps you meant: --selfplay.num-games"),
    (
        ["nim", *BY_ONE, "--search.head", "0", "--network.num-blocks", "1"],
        "search.head is 0; it must be -1 for the final head, or the index of one of several heads, "
        "which --network.head-depths sets (here 1)",
    ),
    (
        ["nim", "--search.variant", "chain", "--network.head-depths", "2", "4"],
        "head_depths is (2, 4); it must name at least 3",
    ),
    (["nim", "--network.value-blocks", "2"], "--network.separate-trunks True"),
    (["nim", "--network", "x:y", "--network.options", "a", "inf"], "network.options.a is inf; it"),
    (["nim", "--evals.every", "0"], "evals: stop_when_solved is 4; it must be 0 with every 0"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("arguments", "words"), BAD, ids=[" ".join(x) for x, _ in BAD])
def test_bad_input_is_refused(arguments, words, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert words in refusal(train.main, arguments, capsys)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("module", "name", "saves", "remedy"),
    [
        # Before the folder exists, there is nothing to resume.
        (selfplay, "assemble", False, ""),
        (runner, "train", False, "; --resume starts again"),
        (runner, "train", True, "; --resume continues from the last checkpoint"),
    ],
)
def test_a_stop_at_once_says_whether_to_resume(
    module, name, saves, remedy, tmp_path, capsys, monkeypatch
):
    def stop(run: Any, state: Any, *_: Any) -> None:
        if saves:
            run.checkpoints.save(1, state)
        signal.raise_signal(signal.SIGTERM)

    replace_training(lambda *_: None, monkeypatch)
    monkeypatch.setattr(module, name, stop)
    assert run_here(ALPHAZERO, tmp_path / "run", 1) == 130
    assert capsys.readouterr().err == f"dualmctx train: stopped immediately{remedy}\n"


def skip_memory_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves out the prediction of a run's memory, which traces every program again."""
    monkeypatch.setattr(assemble, "check_memory", lambda *_: None)
    monkeypatch.setattr(selfplay, "describe_memory", lambda _: "")


def replace_training(train_fn: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces the training of a run and its programs, the prediction of its memory, its evals."""
    monkeypatch.setattr(assemble, "make_trainer", make_fake_trainer)
    monkeypatch.setattr(assemble, "check_memory", lambda *_: None)
    monkeypatch.setattr(assemble, "make_evals", lambda *_: ((), (), {}))
    monkeypatch.setattr(runner, "train", train_fn)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        ("RESOURCE_EXHAUSTED: Out of memory", "more memory or devices, --resume starts again"),
        ("INTERNAL: the device is gone", "after the cause is fixed, --resume starts again"),
    ],
)
def test_a_failing_device_ends_the_run_with_one_line(
    message, remedy, tmp_path, capsys, monkeypatch
):
    def fails(*_: Any) -> int:
        raise jax.errors.JaxRuntimeError(f"{message}\nsecond line")

    replace_training(fails, monkeypatch)
    capsys.readouterr()
    assert run_here(ALPHAZERO, tmp_path, 1) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("dualmctx train: ")
    for words in (message, remedy, "no checkpoint was saved"):
        assert words in line


def diverge_after(num_iterations: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets one parameter to NaN in all iterations after the given number."""
    iterate_once = runner.iterate_once

    def poisoned(stage: Any, state: Any, rows: list) -> Any:
        state, row = iterate_once(stage, state, rows)
        if row["iteration"] > num_iterations:
            leaves, structure = jax.tree.flatten(state.params)
            leaves[-1] = leaves[-1].at[(0,) * leaves[-1].ndim].set(jnp.nan)
            state = state._replace(params=jax.tree.unflatten(structure, leaves))
        return state, row

    monkeypatch.setattr(runner, "iterate_once", poisoned)


@pytest.mark.slow
def test_a_diverged_run_keeps_its_last_good_checkpoint(tmp_path, capsys, monkeypatch):
    diverge_after(4, monkeypatch)
    skip_memory_check(monkeypatch)
    often = [*ALPHAZERO, "--evals.every", "0", "--checkpoint-every", "1", "--keep", "2"]
    assert run_here(often, tmp_path, NUM_ITERATIONS) == 3
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    for words in (
        "failed in iteration 5: a parameter of the network is not finite",
        f"checkpoint is iteration 4 in {tmp_path / 'checkpoints'}",
        "a --learner.learning-rate below 0.002",
    ):
        assert words in said
    last = open_checkpoints(tmp_path / "checkpoints").load()
    assert last.step == 4
    assert all(np.isfinite(x).all() for x in last.state.values())
    assert not (tmp_path / "summary.json").exists()
    assert [row["iteration"] for row in metrics_of(tmp_path)] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(("solved", "expected"), [("10", 0), ("0-1-1-", 2)])
def test_consecutive_solved_evals_are_counted(solved, expected):
    """A digit stands for the row of an eval, a dash for a row without one."""
    best = {"path/search_optimal": 1.0}
    rows = [{} if x == "-" else best | {"path/network_optimal": float(x)} for x in solved]
    assert selfplay.count_solved_streak(rows) == expected


def test_help_lists_the_presets_and_their_fields(capsys, monkeypatch):
    """It is wrapped, also where the docstring of a field breaks its line."""
    monkeypatch.setenv("COLUMNS", "80")
    assert train.main([]) == 2
    assert train.main(["--help"], "train.py") == 0
    help_text = capsys.readouterr().out
    assert "`train.py PRESET --help`" in help_text
    assert all(name in help_text for name in train.PRESETS)
    with pytest.raises(SystemExit, match=r"^0$"):
        train.main(["nim", "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    help_text = " ".join(" ".join(lines).split())
    for words in ("dualmctx train nim", "--seed", "--search.backup.window", "dual (Dual MCTS"):
        assert words in help_text
    assert any("device. A run that needs more is refused" in line for line in lines)


@pytest.mark.parametrize(
    ("script", "arguments", "expected"),
    [
        ("train.py", ["nim"], "python train.py nim --resume"),
        ("train.py", ["--resume=auto", "nim"], "python train.py --resume=auto nim"),
        ("/lib/dualmctx/__main__.py", ["nim"], "python -m dualmctx nim --resume"),
        ("bin/dualmctx", ["train", "a b"], "dualmctx train 'a b' --resume"),
    ],
)
def test_the_command_that_resumes_is_short(script, arguments, expected, tmp_path, monkeypatch):
    for name in ("python", "dualmctx"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "bin")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin/python"))
    monkeypatch.setattr(sys, "argv", [script, *arguments])
    assert resume_command() == expected
    monkeypatch.setenv("PATH", "")
    assert shlex.split(resume_command())[0] in ("bin/python", "bin/dualmctx", "other/dualmctx")


def test_a_run_has_any_seed():
    seed = 2**32 - 1
    config = parse_train([*ALPHAZERO, "--seed", str(seed)])[1]
    env = games.make("connect2")
    trainer = assemble.build_trainer(config, env, build_network(record_of("", config), env))
    np.testing.assert_array_equal(
        trainer.init(config.seed).rng_key,
        jax.random.split(jnp.array([0, seed], jnp.uint32), 3)[2],
    )


@pytest.mark.slow
# The others have the options of these; tests/training/test_gpu_presets.py has those for a GPU.
@pytest.mark.parametrize("game", ["connect_four", "hex"])
def test_a_preset_is_assembled(game, tmp_path, monkeypatch):
    """A preset may be named as its game."""
    evaluated = []
    monkeypatch.setattr(assemble, "make_search_fn", lambda env, network, policy, **_: policy)
    # The prediction of memory compiles parts of every program.
    monkeypatch.setattr(assemble, "check_memory", lambda *_: None)
    monkeypatch.setattr(
        assemble, "make_evals", lambda *args: evaluated.append(args) or ((), (), {})
    )
    name, config = parse_train([game, "--out", str(tmp_path)])
    assert name in train.PRESETS
    assert config.search.for_evaluation() != config.search
    run = assemble.assemble(name, config)
    assert run.config == config
    [(_, _, policy, _)] = evaluated
    assert policy == config.search.for_evaluation()
