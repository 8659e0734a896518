"""The parts of the benchmark of AlphaGo's pipeline, against stand-ins for its commands."""

import json
import pathlib
import resource
import sys
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks import pipeline, pipeline_measures, pipeline_runs
from benchmarks.common import estimate
from benchmarks.connect_four import Positions
from benchmarks.pipeline_measures import Match, Measured
from benchmarks.pipeline_runs import STAGES, Cost
from dualmctx.commands.main import main
from dualmctx.training.presets import PRESETS
from untrained import make_untrained

TIMES = {name: Cost(10.0 * number, float(number)) for number, name in enumerate(STAGES, start=1)}


def finish(folder: pathlib.Path, seconds: float = 1.0) -> None:
    folder.mkdir(parents=True)
    (folder / "summary.json").write_text(json.dumps({"seconds": seconds}))


def test_each_stage_gets_the_folders_of_the_stages_before() -> None:
    commands = pipeline_runs.stage_commands(pathlib.Path("runs/x"), 20, 30)
    lines = {name: " ".join(command) for name, command in commands.items()}
    train = "train connect-four --pipeline"
    assert lines == {
        "games": "dataset connect_four --from openspiel-mcts --games 20 --simulations 30 "
        "--out runs/x/games",
        "supervised": f"{train} supervised --dataset runs/x/games --out runs/x/supervised",
        "reinforced": f"{train} reinforce --init-from runs/x/supervised --out runs/x/reinforced",
        "value": f"{train} value --init-from runs/x/reinforced --supervised runs/x/supervised "
        "--out runs/x/value",
        "player": f"{train} player --supervised runs/x/supervised --value runs/x/value "
        "--out runs/x/player",
    }


def test_finished_stages_are_not_run_again(tmp_path: pathlib.Path) -> None:
    finish(tmp_path / "supervised", seconds=7.0)
    (tmp_path / "games").mkdir()
    (tmp_path / "games" / "dataset.json").write_text("{}")
    started: list[str] = []

    def run(arguments: Sequence[str]) -> Cost:
        name = pathlib.Path(arguments[-1]).name
        started.append(name)
        if name == "value" and started.count("value") == 1:
            raise ValueError("it failed")
        finish(tmp_path / name)
        return TIMES[name]

    commands = pipeline_runs.stage_commands(tmp_path, 20, 30)
    with pytest.raises(ValueError, match="it failed"):
        pipeline_runs.run_stages(tmp_path, commands, run)
    costs = pipeline_runs.run_stages(tmp_path, commands, run)
    assert started == ["reinforced", "value", "value", "player"]
    assert costs == {
        "supervised": Cost(7.0, None),
        **{name: TIMES[name] for name in ("reinforced", "value", "player")},
    }


def test_self_play_gets_the_time_of_all_stages_but_the_last() -> None:
    assert pipeline_runs.seconds_of_training(TIMES, "clock") == 100
    assert pipeline_runs.seconds_of_training(TIMES, "cpu") == 10
    unknown = {"supervised": Cost(1.0, None), "value": Cost(1.0, 1.0)}
    with pytest.raises(ValueError, match=r"time of games, supervised, reinforced is not known"):
        pipeline_runs.seconds_of_training(unknown, "cpu")


def test_a_command_is_timed_with_its_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = iter([SimpleNamespace(ru_utime=x, ru_stime=1.0) for x in (2.0, 5.0)])
    times = {resource.RUSAGE_CHILDREN: usage}
    monkeypatch.setattr(pipeline_runs.resource, "getrusage", lambda who: next(times[who]))
    monkeypatch.setattr(pipeline_runs.sys, "executable", "true")
    cost = pipeline_runs.run_command(["x"])
    assert (cost.cpu, 0 < cost.clock < 5) == (3.0, True)
    monkeypatch.undo()
    monkeypatch.setattr(pipeline_runs.sys, "executable", "false")
    with pytest.raises(ValueError, match="`dualmctx train x` ended with exit code 1"):
        pipeline_runs.run_command(["train", "x"])


def test_costs_are_kept(tmp_path: pathlib.Path) -> None:
    assert pipeline_runs.read_costs(tmp_path) == {}
    pipeline_runs.write_costs(tmp_path, TIMES)
    assert pipeline_runs.read_costs(tmp_path) == TIMES


def test_training_ends_at_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each iteration of the stand-in takes 2 seconds; the schedule gets the number that fits."""
    now = [0.0]
    lengths: list[int | None] = []

    def iterate(state: SimpleNamespace) -> tuple[SimpleNamespace, dict]:
        now[0] += 2.0
        return SimpleNamespace(params=state.params), {}

    def build(config: Any, env: Any, network: Any) -> SimpleNamespace:
        lengths.append(config.schedule_iterations)
        return SimpleNamespace(
            init=lambda seed: SimpleNamespace(params={"seed": seed}), compile=lambda _: iterate
        )

    clocks = {"clock": lambda: now[0], "cpu": lambda: now[0] / 4}
    monkeypatch.setattr(pipeline_runs, "CLOCKS", clocks)
    monkeypatch.setattr(pipeline_runs, "build_trainer", build)
    trained, cost = pipeline_runs.train_until("connect2", PRESETS["connect2"], 5, 7.0)
    assert (trained.iteration, trained.params, cost) == (4, {"seed": 5}, Cost(8.0, 2.0))
    assert lengths == [1, 4]
    trained, cost = pipeline_runs.train_until("connect2", PRESETS["connect2"], 5, 2.0, "cpu")
    assert (trained.iteration, cost.cpu) == (4, 2.0)
    assert trained.record["search"]["variant"] == "dual"


def test_a_network_of_self_play_is_trained_once(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds = []

    def train(name: str, config: Any, seed: int, seconds: float, which: str) -> tuple[Any, Cost]:
        seeds.append((seed, seconds, which))
        return make_untrained("connect2"), Cost(3.0, 4.0)

    monkeypatch.setattr(pipeline, "train_until", train)
    config = PRESETS["connect2"]
    for wanted in ([0], [0, 3]):
        found = pipeline.train_self_play(tmp_path, config, wanted, 9.0, "cpu")
    assert seeds == [(0, 9.0, "cpu"), (3, 9.0, "cpu")]
    assert [*found] == ["self-play-0", "self-play-3"]
    assert pipeline_runs.read_costs(tmp_path)["self-play-3"] == Cost(3.0, 4.0)


def test_shares_are_of_the_head_and_of_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.full((2, 7), -1.0)
    values[0, 3] = values[1, :2] = 1
    positions = Positions(np.full((2, 42), -1, np.int32), values)
    found = SimpleNamespace(network_action=np.array([[3, 0], [0, 5]]), action=np.array([3, 6]))
    tools = SimpleNamespace(evaluate=lambda *_: found)
    monkeypatch.setattr(pipeline_measures, "make_tools", lambda *_: tools)
    trained = make_untrained("connect-four")
    search = trained.record["search"]
    for head, policy in ((0, 1.0), (-1, 0.0)):
        measured = Measured("x", trained, head, search if head else None)
        [row] = pipeline_measures.measure_shares(measured, {"games": positions})
        assert row.policy == estimate(policy, 2)
        assert row.search == (estimate(0.5, 2) if head else None)
        assert (row.number, row.random) == (2, round((1 / 7 + 2 / 7) / 2, 3))


def test_the_teacher_wins_where_one_move_wins() -> None:
    values = np.full((1, 7), -1.0)
    values[0, 3] = 1
    histories = np.full((1, 42), -1, np.int32)
    histories[0, :6] = [3, 0, 3, 1, 3, 0]
    [row] = pipeline_measures.measure_teacher(200, {"games": Positions(histories, values)})
    assert (row.name, row.policy, row.search) == ("teacher", None, estimate(1.0, 1))


def test_only_searches_play_at_equal_time() -> None:
    folder = pathlib.Path("x")
    searches = [
        "alphago=x/player+own:simulations=9",
        "self-play-2=x/self-play-2.safetensors+own:simulations=9",
    ]
    policies = [
        "alphago-policy=x/player+policy",
        "self-play-2-policy=x/self-play-2.safetensors+policy",
    ]
    others = ["teacher=openspiel:simulations=40", "random"]
    players = pipeline_measures.match_players(folder, ["self-play-2"], 9, 40, "simulations")
    assert players == [*searches, *policies, *others]
    assert pipeline_measures.match_players(folder, ["self-play-2"], 9, 40, "seconds") == searches


def test_matches_are_read_from_the_report() -> None:
    cell = {"wins": 2, "draws": 1, "losses": 1, "points": 2.5}
    report = {
        "players": [{"name": "a"}, {"name": "b"}, {"name": "c"}],
        "crosstable": [[None, cell, cell], [None, None, cell], [None] * 3],
    }
    rows = pipeline_measures.read_match(report, "seconds")
    points = estimate(0.625, 4)
    assert rows[0] == Match("seconds", "a", "b", 4, 2, 1, 1, points)
    assert [(row.first, row.second) for row in rows] == [("a", "b"), ("a", "c"), ("b", "c")]


def test_the_folder_is_required(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        pipeline.main([])
    assert "FOLDER is missing" in capsys.readouterr().err


def run_here(command: list[str], *, check: bool) -> SimpleNamespace:
    """Takes the place of `subprocess.run` for `python -m dualmctx ...`."""
    assert (command[:3], check) == ([sys.executable, "-m", "dualmctx"], False)
    return SimpleNamespace(returncode=main(command[3:]))


@pytest.mark.slow
def test_the_benchmark_runs_everything_at_a_tiny_size(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In one process, positions are labelled once instead of once per stage.
    monkeypatch.setattr(pipeline_runs, "subprocess", SimpleNamespace(run=run_here))
    file = tmp_path / "rows.json"
    flags = ["--quick", "--budgets", "simulations", "seconds", "--json", str(file)]
    pipeline.main([str(tmp_path / "run"), *flags])
    found = json.loads(file.read_text())
    runs = [row["run"] for row in found["seconds"]]
    assert runs == [*STAGES, "self-play-0"]
    # Self-play takes a few hundredths of a second, and its time may be rounded to 0.
    assert all(row["clock"] > 0 for row in found["seconds"][:-1])
    names = ["rollout policy", "supervised", "reinforced", "alphago", "self-play-0"]
    assert [row["name"] for row in found["positions"][::2]] == [*names, "teacher"]
    searches = [row["search"] is not None for row in found["positions"][::2]]
    assert searches == [False, False, False, True, True, True]
    # Six players, and the two searches at equal time; four games of each pair.
    assert len(found["matches"]) == 15 + 1
    assert all(row["games"] == 4 for row in found["matches"])


def test_the_tiny_preset_is_valid() -> None:
    assert pipeline.make_config(quick=True).selfplay.num_games == 8
    assert pipeline.make_config(quick=False) == PRESETS["connect-four"]
    assert pipeline.QUICK.keys() == set(STAGES)
