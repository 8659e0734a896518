"""The whole pipeline: order, folders, resuming, and the results of all stages."""

import io
import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from damages import FILE
from dualmctx.commands import dataset, train
from dualmctx.commands.main import run_command
from dualmctx.console import Console
from dualmctx.datasets import make
from dualmctx.pipeline import whole
from dualmctx.pipeline.parts import POLICY, ROLLOUT, VALUE, get_part
from dualmctx.pipeline.whole import stages_table
from dualmctx.runs.folder import with_versions
from dualmctx.runs.saved_network import load_trained
from fake_stage import Finished

TINY = [
    *("connect2", "--pipeline", "alphago", "--network.width", "8", "--network.num-blocks", "1"),
    *("--games.number", "60"),
]
PLAYERS = (("lambda 0.5", 30.0), ("policy", -30.0), ("rollout policy", None))
SUMMARIES: dict[str, dict[str, Any]] = {
    "supervised": {
        **{"test/policy_top1": 0.5, "test/rollout_top1": 0.4, "test/chance_top1": 0.3},
        **{"exact/policy_keeping": 0.7, "exact/chance_keeping": 0.4},
    },
    "reinforce": {
        **{f"reinforce/points{x}": y for x, y in (("", 0.6), ("_low", 0.55), ("_high", 0.65))},
        "exact/policy_keeping": 0.8,
    },
    "value": {"train/value_loss": 0.2, "test/value_loss": 0.21, "test/constant_loss": 0.3},
    "player": {
        "players": [
            {"name": name, "elo": elo, "keeping": 0.9}
            | {end: elo and elo + gap for end, gap in (("low", -20), ("high", 20))}
            for name, elo in PLAYERS
        ],
    },
}


class FakeStages:
    """Takes the place of `start_stage`: writes the files of a finished stage, or stops."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[str, bool]] = []
        self.stop_in = ""
        patch.setattr(whole, "start_stage", self.start)

    def start(self, name: str, preset: str, config: Any, warn: Any) -> int:
        """Runs a stage."""
        self.calls.append((name, config.resume))
        path = Path(config.out)
        path.mkdir(parents=True, exist_ok=True)
        (path / "config.json").write_text(json.dumps(with_versions({"preset": preset})))
        if name == self.stop_in:
            return 130
        summary = {"stage": name, "wall_seconds": 60.0, **SUMMARIES[name]}
        (path / "summary.json").write_text(json.dumps(summary))
        return 0


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> FakeStages:
    return FakeStages(monkeypatch)


@pytest.mark.slow
def test_stages_run_in_order_and_finished_ones_are_not_run_again(
    stages: FakeStages, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    stages.stop_in = "value"
    assert train.main([*TINY, "--out", str(out)]) == 130
    first = [("supervised", False), ("reinforce", False), ("value", False)]
    assert stages.calls == first
    assert not (out / "summary.json").exists()
    made = (out / "games" / "dataset.json").stat().st_mtime_ns
    shown = capfd.readouterr().out
    assert f"stage 1 of 5, games: 60 games of perfect, in {out}/games" in shown
    assert f"stage 4 of 5, value: starts in {out}/value" in shown
    stages.stop_in = ""
    assert train.main(["--resume", str(out)]) == 0
    assert stages.calls == [*first, ("value", True), ("player", False)]
    assert (out / "games" / "dataset.json").stat().st_mtime_ns == made
    shown = capfd.readouterr().out
    assert f"stage 2 of 5, supervised: finished earlier, in {out}/supervised" in shown
    assert f"stage 4 of 5, value: continues in {out}/value" in shown
    assert "highest Elo: lambda 0.5, +30" in shown
    summary = json.loads((out / "summary.json").read_text())
    assert [row["stage"] for row in summary["stages"]] == ["games", *SUMMARIES]
    assert summary["wall_seconds"] == 240
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(stages_table(summary))
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= 80
    assert "60.0% of the points against supervised" in " ".join(text.split())
    assert all(share in text for share in ("70.0%", "80.0%", "90.0%"))
    # A stage whose summary is damaged is finished again.
    for name in ("removed", "zeroed", "nested"):
        FILE[name](out / "value" / "summary.json")
        stages.calls.clear()
        assert train.main(["--resume", str(out)]) == 0
        assert stages.calls == [("value", True)]
        assert read(out / "summary.json") == summary


@pytest.mark.slow
def test_games_that_leave_a_split_empty_are_reported_with_the_flags_of_the_pipeline(
    stages: FakeStages, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    for command in ([*TINY, "--games.number", "1", "--out", str(out)], ["--resume", str(out)]):
        assert train.main(command) == 2
        said = capfd.readouterr().err
        assert "games.number is 1; these games leave no positions" in said
        assert "--games.validation" in said
    assert not stages.calls


@pytest.mark.slow
def test_a_data_set_that_was_moved_is_named_again_and_another_one_is_refused(
    stages: FakeStages, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data, other, moved, out = (tmp_path / x for x in ("data", "other", "moved", "run"))
    flags = ["connect2", "--from", "perfect", "--games", "60", "--random-share", "0.5"]
    for seed, folder in (("0", data), ("1", other)):
        shares = ["--validation", "0.2", "--test", "0.2"]
        assert dataset.main([*flags, *shares, "--seed", seed, "--out", str(folder)]) == 0
    stages.stop_in = "value"
    assert train.main([*TINY, "--dataset", str(data), "--out", str(out)]) == 130
    assert not (out / "games").exists()
    data.rename(moved)
    stages.stop_in = ""
    resume = ["--resume", str(out)]
    for flags, words in (
        ([], f"--dataset is {data}"),
        (["--dataset", str(other)], "inputs.dataset"),
        (["--dataset", str(moved), "--seed", "1"], "seed (0 → 1)"),
    ):
        assert train.main([*resume, *flags]) == 2
        assert words in capfd.readouterr().err
    assert train.main([*resume, "--dataset", str(moved)]) == 0
    assert read(out / "summary.json")["stages"][0]["folder"] == str(moved)
    assert train.main([*TINY, "--out", str(out)]) == 2
    assert "exists and is not empty" in capfd.readouterr().err
    assert len(stages.calls) == 5


@pytest.mark.slow
def test_stopped_games_are_continued(
    stages: FakeStages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"

    def stop(*given: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(make, "build_shards", stop)
        assert run_command("x", lambda: train.main([*TINY, "--out", str(out)])) == 130
    assert not stages.calls
    lines = (out / "games" / "games.jsonl").read_bytes()
    assert len(lines.splitlines()) == 60
    assert train.main(["--resume", str(out)]) == 0
    assert (out / "games" / "games.jsonl").read_bytes() == lines


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (["--player.opening-plies", "4"], "player.opening_plies is 4; every game of connect2"),
        (["--games.engine", "openspiel"], "connect2"),
        (["--opponent", "tic-tac-toe"], "--opponent tic-tac-toe cannot be used: its game is"),
        (["--player.rollout-mixes", "0.5", "2"], "rollout_mixes is 0.5 2.0; it must be different"),
        (["--game", "nim", "--value.augment", "True"], "augment is True; it must be left out"),
        (["--reinforce.max-plies", "4"], "max_plies is 4; it must be above 4, the larger"),
    ],
)
def test_bad_input_is_refused_before_the_games(
    flags: list[str], line: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert train.main([*TINY, *flags, "--out", str(out)]) == 2
    said = capfd.readouterr().err
    assert line in said
    assert said.count("\n") == 1
    assert not out.exists()


def read(file: Path) -> Any:
    return json.loads(file.read_text())


@pytest.mark.slow
def test_every_stage_is_saved_and_improves_over_chance(pipeline: Finished) -> None:
    summary = read(pipeline.out / "summary.json")
    assert [row["stage"] for row in summary["stages"]] == ["games", *SUMMARIES]
    for folder in ("supervised", "reinforced", "value", "player"):
        assert load_trained(pipeline.out / folder).env.id == "connect2"
        assert (pipeline.out / folder / "curve.png").exists()
    parts = {"reinforced": POLICY, "value": VALUE, "supervised": ROLLOUT}
    player = load_trained(pipeline.out / "player").params
    for folder, part in parts.items():
        params = load_trained(pipeline.out / folder).params
        jax.tree.map(np.testing.assert_array_equal, *(get_part(x, part) for x in (params, player)))
    supervised, reinforced, value, player = summary["stages"][1:]
    assert supervised["test/policy_top1"] > supervised["test/chance_top1"]
    assert supervised["exact/policy_keeping"] > supervised["exact/chance_keeping"]
    assert reinforced["reinforce/points"] > 0.5
    assert value["train/value_loss"] < value["train/constant_loss"]
    points = {row["name"]: row["score"] for row in player["players"]}
    assert points["lambda 0.5"] >= points["rollout policy"]
    assert player["exact/lambda_0.5_keeping"] > 0.9
