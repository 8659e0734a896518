"""The training command: its files, the input it refuses, and how a run is stopped and resumed."""

import contextlib
import errno
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import matplotlib.image
import numpy as np
import pytest

import games
from dualmctx.commands import compare, train
from dualmctx.commands.flags import parse_flags
from dualmctx.distributed import signals
from dualmctx.experiment import assemble, runner, selfplay
from dualmctx.experiment.messages import resume_command
from dualmctx.experiment.run_record import record_of
from dualmctx.models.network import SeparateTrunks
from dualmctx.policies import REGISTRY
from dualmctx.runs.checkpoint import open_checkpoints
from dualmctx.runs.display import Display
from dualmctx.runs.folder import RunFolder, create_run, reopen_run
from dualmctx.runs.metrics_file import Metrics, Row, open_metrics, read_metrics
from dualmctx.runs.saved_network import build_network, load_trained
from refusals import refusal

ROOT = Path(__file__).parents[2]
SMALL = [
    "connect2",
    *("--network.width", "8", "--network.num-blocks", "2", "--selfplay.num-games", "8"),
    *("--learner.num-updates", "2", "--evals.num-games", "4"),
]
DUAL = [*SMALL, "--search.num-simulations", "4", "2", "--search.num-rounds", "1"]
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


def untimed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Removes the entries that depend on the clock."""
    return [{k: v for k, v in row.items() if "second" not in k or "/" in k} for row in rows]


def last_checkpoint(out: Path) -> tuple[int | None, list[np.ndarray]]:
    """Reads the newest checkpoint without knowing its structure."""
    checkpoints = open_checkpoints(out / "checkpoints")
    step = checkpoints.latest()
    return step, jax.tree.leaves(checkpoints.manager.restore(step))


class Finished(NamedTuple):
    """A finished run with evals during training, and its output."""

    out: Path
    rows: list[dict[str, Any]]
    said: str


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    out, said, errors = tmp_path_factory.mktemp("runs") / "whole", io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(errors):
        assert run_here(ON_THE_WAY, out, NUM_ITERATIONS) == 0
    assert errors.getvalue() == ""
    return Finished(out, metrics_of(out), said.getvalue())


def test_a_run_writes_its_files(finished: Finished) -> None:
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


def test_summary_agrees_with_metrics_and_solution(finished: Finished) -> None:
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


def test_the_network_of_a_run_is_loaded(finished: Finished) -> None:
    trained = load_trained(finished.out)
    assert (trained.iteration, trained.record["preset"]) == (NUM_ITERATIONS, "connect2")
    state = open_checkpoints(finished.out / "checkpoints").load().state
    jax.tree.map(np.testing.assert_array_equal, trained.params, state["params"])
    observation = jnp.zeros((3, *trained.env.observation_shape))
    heads = trained.network.apply(trained.params, observation)
    assert [head.value.shape for head in heads] == [(3,), (3,)]


@pytest.mark.slow
def test_a_run_with_separate_policy_and_value_networks_resumes(tmp_path: Path) -> None:
    command = [*SMALL, "--search.variant", "alphago", "--search.num-simulations", "2"]
    command += ["--network.separate-trunks", "True", "--network.head-depths", "0", "1"]
    command += ["--network.value-blocks", "2", "--schedule-iterations", "3"]
    for out, numbers in ((tmp_path / "whole", (3,)), (tmp_path / "halves", (2, 3))):
        for number in numbers:
            resumed = ["--resume"] if number != numbers[0] else []
            assert run_here([*command, *resumed], out, number) == 0
    (step, one), (_, other) = (last_checkpoint(tmp_path / x) for x in ("whole", "halves"))
    assert step == 3
    jax.tree.map(np.testing.assert_array_equal, one, other)
    network = load_trained(tmp_path / "halves").network
    assert network == SeparateTrunks(4, "mlp", 8, (0, 1), value_depth=2)


def test_a_trunk_of_the_value_needs_separate_trunks(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    line = refusal(
        train.main,
        [*ALPHAZERO, "--network.value-blocks", "2", "--out", str(tmp_path / "x")],
        capsys,
    )
    assert "value_blocks is 2" in line
    assert "--network.separate-trunks True" in line
    assert not (tmp_path / "x").exists()


def test_loading_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no config\.json, so there is no run there$"):
        load_trained(tmp_path)
    record = record_of("nim", train.parse(["nim"])[1])
    create_run(tmp_path, record)
    with pytest.raises(ValueError, match=r"^there is no checkpoint in "):
        load_trained(tmp_path)


@pytest.mark.parametrize("variant", REGISTRY)
def test_the_record_determines_the_network(variant: str) -> None:
    arguments = ["hsr", "--search.variant", variant, "--network.num-blocks", "4"]
    config = train.parse(arguments)[1]
    record = json.loads(json.dumps(record_of("hsr", config)))
    assert record["search"]["variant"] == variant
    env = games.make("hsr")
    network = build_network(record, env)
    outputs = jax.eval_shape(
        lambda key, x: network.apply(network.init(key, x), x),
        jax.random.PRNGKey(0),
        jnp.zeros((1, *env.observation_shape)),
    )
    assert len(outputs) == max(2, len(config.search.heads))
    assert record["network"]["separate_trunks"] == (variant == "mpv")


@pytest.mark.parametrize(("given", "number"), [("31", 31), ("6.5", 6.5), ("7.0", 7.0)])
def test_game_parameters_may_be_floats(given: str, number: float) -> None:
    flags = ["--game-parameters", "komi", given]
    for parameters in (
        train.parse(["go-9x9", *flags])[1].game_parameters,
        parse_flags(compare.Options(), ["random", "perfect", *flags], "", "").game_parameters,
    ):
        assert parameters == {"komi": number}
        assert type(parameters["komi"]) is type(number)


def test_a_run_is_not_resumed_with_another_variant(tmp_path: Path) -> None:
    """Also if the options are equal: Dual is the chain of two trees."""
    budgets = ["--search.num-simulations", "50", "35"]
    dual, chain = (
        record_of("hsr", train.parse(["hsr", "--search.variant", name, *budgets])[1])
        for name in ("dual", "chain")
    )
    create_run(tmp_path / "run", dual)
    with pytest.raises(ValueError, match=r"configuration: search.variant \(dual → chain\);"):
        reopen_run(tmp_path / "run", chain)


@pytest.mark.slow
def test_a_run_stopped_by_ctrl_c_resumes_to_the_same_results(
    finished: Finished, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    out = tmp_path / "two halves"
    command = [*ON_THE_WAY, "--num-iterations", str(NUM_ITERATIONS), "--out", str(out)]
    said = interrupt(command, out, capsys)
    done = metrics_of(out)
    step = len(done)
    assert step in (1, 2, 3, 4)
    [again] = re.findall(rf"saved iteration {step}; continue with: (.*)", said)
    interpreter, *arguments = shlex.split(again)
    # The printed command works even if no `python` is on the path.
    assert (ROOT / interpreter).samefile(sys.executable)
    assert len(interpreter) <= len(sys.executable)
    assert arguments == ["train.py", *command, "--resume"]
    assert last_checkpoint(out)[0] == step
    assert not (out / "summary.json").exists()

    # A crash while a later row was written leaves a part of it.
    open_metrics(out / "metrics.jsonl", step, pytest.fail).append({"iteration": step + 1})
    with (out / "metrics.jsonl").open("a") as file:
        file.write('{"iterat')
    assert "seed (0 → 1)" in refusal(train.main, [*command, "--seed", "1", "--resume"], capsys)
    assert run_here([*ON_THE_WAY, "--resume"], out, NUM_ITERATIONS) == 0
    rows = metrics_of(out)
    assert rows[:step] == done, "iterations were repeated"
    assert untimed(rows) == untimed(finished.rows)
    seconds = [row["seconds"] for row in rows]
    assert seconds == sorted(seconds)
    summaries = (read_json(x / "summary.json") for x in (out, finished.out))
    one, other = (untimed([summary]) for summary in summaries)
    assert one == other
    (last, one), (same, other) = (last_checkpoint(x) for x in (out, finished.out))
    assert last == same == NUM_ITERATIONS
    jax.tree.map(np.testing.assert_array_equal, one, other)


def test_a_run_is_not_resumed_with_other_settings(
    finished: Finished, capsys: pytest.CaptureFixture
) -> None:
    before = {x.name: x.stat().st_mtime_ns for x in finished.out.iterdir()}
    others = ["--seed", "4", "--learner.num-updates", "3", "--evals.num-games", "6"]
    line = refusal(train.main, [*ON_THE_WAY, *others, "--resume", str(finished.out)], capsys)
    assert "evals.num_games (4 → 6), learner.num_updates (2 → 3), seed (0 → 4)" in line
    assert "is a run of the preset connect2, not of nim" in refusal(
        train.main, ["nim", "--resume", str(finished.out)], capsys
    )
    assert {x.name: x.stat().st_mtime_ns for x in finished.out.iterdir()} == before


CHAIN = [*SMALL, "--search.variant", "chain", "--search.num-rounds", "1"]
SEVERAL = {
    "four trees": ([*CHAIN, "--search.num-simulations", "3", "2", "2", "1"], 4),
    "two networks": ([*SMALL, "--search.variant", "mpv", "--search.num-simulations", "3", "2"], 2),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SEVERAL)
def test_every_head_of_several_trees_learns(name: str, tmp_path: Path) -> None:
    arguments, num_heads = SEVERAL[name]
    arguments = [*arguments, "--network.num-blocks", str(num_heads), "--evals.every", "0"]
    run = assemble.assemble(*train.parse([*arguments, "--out", str(tmp_path / "run")]))
    start = jax.device_get(run.trainer.init(0))
    state = run.trainer.init(0)
    state, metrics = run.trainer.compile(state)(state)
    assert sum(name.startswith("policy_loss") for name in metrics) == num_heads
    assert all(np.isfinite(number) for number in metrics.values())
    before, after = (
        {jax.tree_util.keystr(path): np.asarray(x) for path, x in leaves}
        for leaves in (
            jax.tree_util.tree_leaves_with_path(x.params) for x in (start, jax.device_get(state))
        )
    )
    # Separate networks have one head each; a shared trunk has all heads.
    ends = [key for key in before if key.endswith("['value']['kernel']")]
    assert len(ends) == num_heads
    assert all((before[key] == 0).all() and (after[key] != 0).any() for key in ends)
    assert any("networks_1" in key for key in before) == (name == "two networks")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("arguments", "per_move"), [(DUAL, 6), (ALPHAZERO, 2)])
def test_a_row_has_the_rates_of_its_iteration(
    arguments: list[str], per_move: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a fake iteration of 2 + 3 seconds."""
    monkeypatch.setattr(assemble, "check_memory", lambda *_: None)
    monkeypatch.setattr(assemble, "make_evals", lambda *_: ((), (), {}))
    config = train.parse([*arguments, "--out", str(tmp_path)])[1]
    run = assemble.assemble("connect2", config)
    took = {"positions": 64, "games": 7, "selfplay_seconds": 2.0, "learn_seconds": 3.0}
    rates = {"positions_per_second": 32.0, "simulations_per_second": 32.0 * per_move}
    expected = took | {"seconds": 5.0, "games_per_second": 3.5} | rates
    assert selfplay.with_rates(took, run.config) == expected


# Runs train.py, but the fourth iteration lasts until Ctrl-C is received.
PATIENT = """
import runpy, sys, time
from dualmctx.runs.display import Display

heard = []
say, show = Display.say, Display.show

def say_and_remember(self, text):
    say(self, text)
    heard.extend([text] if "finishing" in text else [])

def show_and_wait(self, row):
    show(self, row)
    while row["iteration"] == 4 and not heard:
        time.sleep(0.01)

Display.say, Display.show = say_and_remember, show_and_wait
sys.argv = ["train.py", *sys.argv[1:]]
runpy.run_path("train.py", run_name="__main__")
"""


def interrupt(arguments: list[str], out: Path, capsys: pytest.CaptureFixture) -> str:
    """Starts the command in a process of its own and sends Ctrl-C when it trains.

    Until then nobody else writes there.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", PATIENT, *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONWARNINGS": "error"},
    )
    try:
        deadline = time.monotonic() + 300
        while not (out / "metrics.jsonl").exists():
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        for resume in ([], ["--resume"]):
            line = refusal(train.main, [*arguments, *resume], capsys)
            assert f"{out} is being written by process {process.pid} on " in line
        process.send_signal(signal.SIGINT)
        said, errors = process.communicate(timeout=120)
    finally:
        process.kill()
    assert (process.returncode, errors) == (130, "")
    assert "finishing this iteration, then saving" in said
    return said


BY_ONE = ["--search.variant", "alphazero"]


@pytest.mark.slow
@pytest.mark.parametrize("head", [0, 1, -2])
def test_a_search_may_use_any_of_several_heads(head: int, tmp_path: Path) -> None:
    depths = ["--network.num-blocks", "3", "--network.head-depths", "1", "3"]
    searching = ["--search.variant", "alphazero", f"--search.head={head}"]
    arguments = [*SMALL, *depths, *searching, "--out", str(tmp_path / "new")]
    run = assemble.assemble(*train.parse(arguments))
    assert (run.record["search"]["head"], run.config.network.head_depths) == (head, (1, 3))


# Arguments, and a part of the message that refuses them.
BAD = [
    (["checkers"], "there is no preset 'checkers'; the presets are connect2, nim"),
    (["--seed", "3"], "there is no preset; name one of connect2, nim"),
    (["nim", "--game", "checkers"], "no game 'checkers'"),
    (["nim", "--game-parameters", "pile", "0"], "pile=0"),
    (
        ["nim", "--game-parameters", "pile", "many"],
        "'pile many' is given; it must be names, each",
    ),
    (["nim", "--game-parameters", "height", "3"], "'height'"),
    (["nim", "--sede", "3"], "options: --sede, 3 Perhaps you meant: --seed INT Seed"),
    (["nim", "--learning-rate", "1"], "Perhaps you meant: --learner.learning-rate FLOAT"),
    (
        ["nim", "--selfplay.num_game=1"],
        "num_game=1 Perhaps you meant: --selfplay.num-games",
    ),
    (
        ["nim", "--zzz", "1"],
        "Unrecognized options: --zzz, 1 For full helptext, run",
    ),
    (["nim", "--seed", "three"], "--seed: 'three' is given; it must be a whole number"),
    (["nim", "--seed", "-1"], "seed is -1"),
    (["nim", "--seed", str(10**30)], f"seed is {10**30}"),
    (["nim", "--seed"], "Missing value for argument '--seed'"),
    (["nim", "--num-iterations", "0"], "num_iterations is 0"),
    (["nim", "--num-iterations", "1.5"], "'1.5' is given; it must be a whole number"),
    (["nim", "--checkpoint-every", "0"], "checkpoint_every is 0"),
    (["nim", "--keep", "0"], "keep is 0"),
    (["nim", "--search.backup.window", "0"], "window is 0"),
    (["nim", "--search.num-simulations", "8", "4", "--search.num-rounds", "5"], "num_rounds is 5"),
    (["nim", "--search.num-simulations", "8", "0"], "num_simulations is 8 0"),
    (["nim", "--search.num-simulations", "0", "8"], "num_simulations is 0 8"),
    (["nim", "--search.num-simulations", "8"], "--search.num-simulations"),
    (["nim", "--search.variant", "minimax"], "'minimax'"),
    (["nim", "--search.variant=minimax"], "'minimax'"),
    (["nim", "--search.variant"], "Missing value for argument '--search.variant'"),
    (["nim", "--search.variant", "alphazero", "--search.num-simulations", "0"], "is 0"),
    (["nim", "--search.variant", "alphazero", "--search.num-rounds", "2"], "--search.num-rounds"),
    (
        ["nim", *BY_ONE, "--search.head", "0", "--network.num-blocks", "1"],
        "search.head is 0; it must be -1 for the final head, or the index of one of several heads, "
        "which --network.head-depths sets (here 1)",
    ),
    (
        ["nim", *BY_ONE, "--search.head", "1", "--network.head-depths", "4"],
        "search.head is 1; it must be -1",
    ),
    (["nim", *BY_ONE, "--search.head", "2"], "head-depths sets (here 2 4)"),
    (["nim", *BY_ONE, "--search.head=-3"], "head-depths sets (here 2 4)"),
    (["nim", "--network.width", "0"], "width is 0"),
    (["nim", "--network.head-depths", "3", "2"], "head_depths is (3, 2)"),
    (
        ["nim", "--search.variant", "chain", "--network.head-depths", "2", "4"],
        "head_depths is (2, 4); it must name at least 3",
    ),
    (
        ["nim", "--search.variant", "chain", "--network.num-blocks", "2"],
        "num_blocks is 2; it must be at least 3",
    ),
    (["nim", "--network.num-blocks", "1"], "num_blocks is 1; it must be at least 2"),
    (["nim", "--search.variant", "mpv", "--search.schedule", "0", "1"], "schedule is 0 1"),
    (["nim", "--network.trunk", "conv"], "trunk is conv"),
    (["nim", "--network.trunk", "tree"], "'tree'"),
    (["nim", "--selfplay.num-games", "0"], "num_games is 0"),
    (["nim", "--learner.capacity", "5"], "capacity is 5"),
    (["nim", "--learner.batch-size", "99999"], "batch_size is 99999"),
    (["nim", "--learner.learning-rate", "nan"], "learning_rate is nan"),
    (["nim", "--evals.num-games", "3"], "evals.num_games is 3"),
    (["nim", "--evals.every", "-1"], "evals.every is -1"),
    (["nim", "--evals.batch-size", "0"], "evals.batch_size is 0"),
    (["nim", "--evals.max-positions", "0"], "evals.max_positions is 0"),
    (
        ["nim", "--search.variant", "chain", "--search.num-simulations"],
        "num_simulations is empty; it must be two numbers or more",
    ),
    (
        ["nim", "--game_parameters=pile", "--seed", "1"],
        "'pile' is given; it must be names",
    ),
    (["nim", "--network", "x:y", "--network.options", "a"], "'a' is given; it must be names, each"),
    (["nim", "--network", "x:y", "--network.options", "a", "inf"], "network.options has a inf; it"),
    (["nim", "--network", "x:y", "--network.options", "a", "nan"], "network.options has a nan; it"),
    (["nim", "--evals.every", "0"], "evals.stop_when_solved is 4; it must be 0 with evals.every 0"),
    (["nim", "--game", "hex", "--game-parameters", "size", "5"], "stop_when_solved is 4; it must"),
    (["nim", "--resume"], "no config.json"),
]


@pytest.mark.parametrize(("arguments", "words"), BAD, ids=[" ".join(x) for x, _ in BAD])
def test_bad_input_is_refused(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert words in refusal(train.main, arguments, capsys)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("out", ["notes.txt", "notes.txt/run", "folder"])
def test_existing_files_are_not_overwritten(
    out: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    (tmp_path / "folder").mkdir()
    for file in (tmp_path / "notes.txt", tmp_path / "folder" / "notes.txt"):
        file.write_text("mine")
    line = refusal(train.main, [*ALPHAZERO, "--out", str(tmp_path / out)], capsys)
    assert str(tmp_path / out) in line
    assert sorted(x.name for x in tmp_path.rglob("*")) == ["folder", "notes.txt", "notes.txt"]
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.slow
def test_a_run_without_a_checkpoint_is_resumed_from_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a run was stopped while it was compiling."""
    monkeypatch.setattr(runner, "train", lambda *_: 99)
    assert run_here(ON_THE_WAY, tmp_path, 4) == 99
    found = []
    monkeypatch.setattr(runner, "train", lambda _, *given: found.append(given) or 0)
    assert run_here([*ON_THE_WAY, "--resume"], tmp_path, 4) == 0
    state, metrics, *_ = found[0]
    assert int(state.iteration) == 0
    assert metrics.rows == []


@pytest.mark.slow
def test_resuming_does_not_initialise_a_second_state(
    finished: Finished, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The device may have room for one state only."""
    put = assemble.assemble

    def put_together(name: str, config: Any) -> Any:
        run = put(name, config)
        return run._replace(trainer=run.trainer._replace(init=lambda _: pytest.fail("two states")))

    found = []
    monkeypatch.setattr(selfplay, "assemble", put_together)
    replace_training(lambda _, *given: found.append(given) or 0, monkeypatch)
    assert run_here([*ON_THE_WAY, "--resume"], finished.out, NUM_ITERATIONS) == 0
    [(state, metrics, *_)] = found
    assert int(state.iteration) == len(metrics.rows) == NUM_ITERATIONS
    leaves = [np.asarray(x) for x in jax.tree.leaves(state)]
    saved = open_checkpoints(finished.out / "checkpoints").load().state
    assert sum(x.nbytes for x in leaves) == sum(x.nbytes for x in jax.tree.leaves(saved))


@pytest.mark.parametrize("name", ["go-9x9", "gardner-chess"])
def test_presets_may_be_named_as_their_games(name: str) -> None:
    assert train.parse([name.replace("-", "_")]) == train.parse([name])


def test_a_second_ctrl_c_stops_immediately(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [10.0]

    def interrupted(*args: Any) -> Any:
        with signals.stopped_on_request(Display(1).say) as stop:
            for now in (10.0, 10.9, 11.1):
                clock[0] = now
                signal.raise_signal(signal.SIGINT)
                assert stop
            raise AssertionError("it continued")

    before = signal.getsignal(signal.SIGINT)
    replace_training(interrupted, monkeypatch)
    monkeypatch.setattr(signals, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    assert run_here(ALPHAZERO, tmp_path, 1) == 130
    said = capsys.readouterr()
    assert said.err.count("\n") == 1
    assert clock == [11.1]
    assert signal.getsignal(signal.SIGINT) is before


def test_sigterm_saves_and_stops_as_ctrl_c_does(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sent in the second iteration, twice at once, as some launchers do."""
    iterate_once = runner.iterate_once

    def signalled(stage: Any, state: Any, rows: list) -> Any:
        if len(rows) == 1:
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)
        return iterate_once(stage, state, rows)

    before = signal.getsignal(signal.SIGTERM)
    skip_memory_check(monkeypatch)
    monkeypatch.setattr(runner, "iterate_once", signalled)
    assert run_here(ALPHAZERO, tmp_path, 9) == 130
    said = capsys.readouterr()
    assert "saved iteration 2; continue with: " in said.out
    assert said.err == ""
    assert last_checkpoint(tmp_path)[0] == 2
    assert signal.getsignal(signal.SIGTERM) is before


def test_sigterm_before_training_prints_how_to_resume(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_training(lambda *_: signal.raise_signal(signal.SIGTERM), monkeypatch)
    assert run_here(ALPHAZERO, tmp_path, 1) == 130
    line = "dualmctx train: stopped immediately; --resume continues from the last checkpoint\n"
    assert capsys.readouterr().err == line


def test_ctrl_c_before_the_folder_exists_does_not_mention_resume(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(selfplay, "assemble", interrupted)
    assert run_here(ALPHAZERO, tmp_path / "run", 1) == 130
    assert capsys.readouterr().err == "dualmctx train: stopped immediately\n"


def failure(arguments: list[str], capsys: pytest.CaptureFixture) -> str:
    """Runs a command that fails while it trains; returns its only line on standard error."""
    capsys.readouterr()
    assert train.main(arguments) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert line.startswith("dualmctx train: ")
    return line


def skip_memory_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves out the prediction of a run's memory, which traces every program again."""
    monkeypatch.setattr(assemble, "check_memory", lambda *_: None)
    monkeypatch.setattr(selfplay, "describe_memory", lambda _: "")


def replace_training(train_fn: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces the training of a run, the prediction of its memory, and its evals."""
    monkeypatch.setattr(assemble, "check_memory", lambda *_: None)
    monkeypatch.setattr(assemble, "make_evals", lambda *_: ((), (), {}))
    monkeypatch.setattr(runner, "train", train_fn)


def raising(error: Exception) -> Callable[..., int]:
    def fails(*_: Any) -> int:
        raise error

    return fails


@pytest.mark.slow
def test_a_full_disk_ends_the_run_which_can_be_resumed(
    finished: Finished,
    tmp_path: Path,
    capsys: pytest.CaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A part of the row is written, as on a real disk."""

    def torn(file: Path, *given: Any) -> Metrics:
        metrics = open_metrics(file, *given)

        def append(row: Row) -> None:
            if row["iteration"] < 5:
                return metrics.append(row)
            with file.open("a") as opened:
                opened.write('{"iteration": 5, "sec')
            raise OSError(errno.ENOSPC, "No space left on device", str(file))

        return metrics._replace(append=append)

    monkeypatch.setattr(runner, "open_metrics", torn)
    command = [*ON_THE_WAY, "--num-iterations", str(NUM_ITERATIONS), "--out", str(tmp_path)]
    line = failure(command, capsys)
    for words in (
        "No space left on device",
        f"the last good checkpoint is iteration 3 in {tmp_path / 'checkpoints'}",
        "after the cause is fixed, --resume continues there",
    ):
        assert words in line
    monkeypatch.undo()
    assert train.main([*command, "--resume"]) == 0
    assert untimed(metrics_of(tmp_path)) == untimed(finished.rows)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        (
            "RESOURCE_EXHAUSTED: Out of memory\nOf it",
            "more memory or devices, --resume starts again",
        ),
        ("INTERNAL: the device is gone", "after the cause is fixed, --resume starts again"),
    ],
)
def test_a_failing_device_ends_the_run_with_one_line(
    message: str,
    remedy: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replace_training(raising(jax.errors.JaxRuntimeError(message)), monkeypatch)
    line = failure([*ALPHAZERO, "--out", str(tmp_path)], capsys)
    assert message.split("\n")[0] in line
    assert remedy in line
    assert "no checkpoint was saved" in line


def test_a_bug_keeps_its_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_training(raising(ValueError("shapes differ")), monkeypatch)
    with pytest.raises(ValueError, match=r"^shapes differ$"):
        run_here(ALPHAZERO, tmp_path, 1)


def test_a_run_is_resumed_after_wandb_failed_to_start(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Wandb:
        Error = type("Error", (Exception,), {})

        @staticmethod
        def init(**_: Any) -> Any:
            raise Wandb.Error("no network")

    replace_training(lambda *_: 99, monkeypatch)
    monkeypatch.setattr(selfplay, "require_wandb", lambda: Wandb)
    command = [*ALPHAZERO, "--wandb", "games", "--out", str(tmp_path)]
    line = failure(command, capsys)
    assert "wandb failed: no network; use WANDB_MODE=offline" in line
    assert "--resume starts again" in line
    monkeypatch.setattr(Wandb, "init", lambda **_: SimpleNamespace(finish=lambda: None))
    assert train.main([*command, "--resume"]) == 99


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


def test_a_diverged_run_keeps_its_last_good_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    diverge_after(4, monkeypatch)
    skip_memory_check(monkeypatch)
    often = [*ALPHAZERO, "--evals.every", "0", "--checkpoint-every", "1", "--keep", "2"]
    assert run_here(often, tmp_path, 9) == 3
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    for words in (
        "failed in iteration 5: a parameter of the network is not finite",
        f"checkpoint is iteration 4 in {tmp_path / 'checkpoints'}",
        "a --learner.learning-rate below 0.002",
    ):
        assert words in said
    step, leaves = last_checkpoint(tmp_path)
    assert step == 4
    assert all(np.isfinite(x).all() for x in leaves)
    assert not (tmp_path / "summary.json").exists()
    assert [row["iteration"] for row in metrics_of(tmp_path)] == [1, 2, 3, 4, 5]


@pytest.mark.slow
def test_a_far_too_large_learning_rate_ends_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    assert run_here([*ALPHAZERO, "--learner.learning-rate", "1e30"], tmp_path, 9) == 3
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert "no checkpoint was saved" in line
    assert list((tmp_path / "checkpoints").iterdir()) == []


SOLVED = {"path/search_optimal": 1.0, "path/network_optimal": 1.0}
NOT_SOLVED = {"path/search_optimal": 1.0, "path/network_optimal": 0.5}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], 0),
        ([{}, NOT_SOLVED], 0),
        ([SOLVED], 1),
        ([SOLVED, {}, SOLVED, {}], 2),
        ([SOLVED, NOT_SOLVED, {}, SOLVED], 1),
    ],
)
def test_consecutive_solved_evals_are_counted(rows: list, expected: int) -> None:
    assert selfplay.count_solved_streak(rows) == expected


def test_help_lists_the_presets_and_their_fields(capsys: pytest.CaptureFixture) -> None:
    assert train.main(["--help"], "train.py") == 0
    help_text = capsys.readouterr().out
    assert "`train.py PRESET --help`" in help_text
    assert all(name in help_text for name in train.PRESETS)
    with pytest.raises(SystemExit, match=r"^0$"):
        train.main(["nim", "--help"])
    help_text = " ".join(capsys.readouterr().out.split())
    for words in ("dualmctx train nim", "--seed", "--search.backup.window", "dual (Dual MCTS"):
        assert words in help_text
    assert train.main([]) == 2


def test_help_wraps_the_description_and_the_whole_text_of_a_flag(
    capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The docstring of the field breaks its line before `needs`."""
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit, match=r"^0$"):
        train.main(["nim", "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert any("device. A run that needs more is refused" in line for line in lines)
    assert max(map(len, lines)) <= 80


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("command", "program"),
    [(["train.py"], "train.py"), (["-m", "dualmctx", "train"], "dualmctx train")],
)
def test_each_entry_point_prints_its_own_name(command: list[str], program: str) -> None:
    done = subprocess.run(
        [sys.executable, *command, "checkers"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"{program}: there is no preset 'checkers'")


@pytest.mark.parametrize(
    ("script", "arguments", "expected"),
    [
        ("train.py", ["nim"], "python train.py nim --resume"),
        ("train.py", ["nim", "--resume"], "python train.py nim --resume"),
        ("train.py", ["--resume=auto", "nim"], "python train.py --resume=auto nim"),
        ("/lib/dualmctx/__main__.py", ["nim"], "python -m dualmctx nim --resume"),
        ("bin/dualmctx", ["train", "a b"], "dualmctx train 'a b' --resume"),
        ("other/dualmctx", ["train"], "other/dualmctx train --resume"),
    ],
)
def test_the_command_that_resumes_is_short(
    script: str,
    arguments: list[str],
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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


def test_a_flag_sets_the_dtype_of_kept_activations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = []
    nothing = SimpleNamespace(init=lambda _: None, shardings=None)
    for name in ("make_search_fn", "make_trainer"):
        monkeypatch.setattr(assemble, name, lambda *_, **options: kept.append(options) or nothing)
    monkeypatch.setattr(assemble, "make_evals", lambda *_: ((), (), {}))
    monkeypatch.setattr(assemble, "check_memory", lambda *_: None)
    for i, flags in enumerate(([], ["--network.kept-activations", "bfloat16"])):
        assemble.assemble(*train.parse(["nim", "--out", str(tmp_path / str(i)), *flags]))
    types = [options["activations_dtype"] for options in kept]
    assert types == ["float32", "float32", "bfloat16", "bfloat16"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2**31, 2**32 - 1])
def test_a_run_is_assembled_with_any_seed(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assemble, "check_memory", lambda *_: None)
    monkeypatch.setattr(assemble, "make_evals", lambda *_: ((), (), {}))
    flags = ["--seed", str(seed), "--out", str(tmp_path / "run")]
    run = assemble.assemble(*train.parse([*ALPHAZERO, *flags]))
    assert run.shapes.iteration.shape == ()
    state = run.trainer.init(run.config.seed)
    np.testing.assert_array_equal(
        state.rng_key, jax.random.split(jnp.array([0, seed], jnp.uint32), 3)[2]
    )


@pytest.mark.parametrize(
    "name", ["nim", *(pytest.param(x, marks=pytest.mark.slow) for x in train.PRESETS if x != "nim")]
)
def test_every_preset_is_assembled(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluated = []
    monkeypatch.setattr(assemble, "make_search_fn", lambda env, network, policy, **_: policy)
    # The prediction of memory compiles parts of every program.
    monkeypatch.setattr(assemble, "check_memory", lambda *_: None)
    monkeypatch.setattr(
        assemble, "make_evals", lambda *args: evaluated.append(args) or ((), (), {})
    )
    config = train.parse([name, "--out", str(tmp_path)])[1]
    run = assemble.assemble(name, config)
    assert run.config == config
    # Training searches with noise, evals without.
    [(_, _, policy, _)] = evaluated
    assert policy == config.search.for_evaluation() != config.search
    assert train.parse([name, "--search.variant=alphazero", "--seed", "3"])[1].seed == 3
