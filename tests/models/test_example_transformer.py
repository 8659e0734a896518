"""`examples/transformer.py` is trained, evaluated and reloaded, as its documentation says."""

import json
import sys
from pathlib import Path

import pytest

import games
from dualmctx.commands.main import main
from dualmctx.experiment.assemble import record_of
from dualmctx.runs.network_record import build_network
from untrained import parse_train

EXAMPLES = Path(__file__).parents[2] / "examples"
OPTIONS = ("width", "8", "num_blocks", "2", "attention_heads", "2")
FLAGS = ("--network", "transformer:make", "--network.options", *OPTIONS)
ENV = games.make("tic_tac_toe")


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copies the example into an empty folder, in which the command runs."""
    (tmp_path / "transformer.py").write_text((EXAMPLES / "transformer.py").read_text())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    sys.modules.pop("transformer", None)
    return tmp_path


@pytest.mark.slow
def test_the_example_has_two_heads_and_resumes() -> None:
    network = build_network(record_of(*parse_train(["tic-tac-toe", *FLAGS])), ENV)
    assert (network.head_depths, network.can_resume) == ((1, 2), True)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["tic-tac-toe", *FLAGS[:2], "--network.options", "width", "9"], "width is 9; it must be"),
        (["hsr", *FLAGS], "boards have 3 axes"),
    ],
)
def test_wrong_options_are_refused_in_one_line(
    flags: list[str], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", *flags]) == 2
    [line] = capfd.readouterr().err.splitlines()
    assert "network transformer:make cannot be built: it raised ValueError: " in line
    assert message in line


TINY = (
    *("--search.num-simulations", "6", "3", "--search.num-rounds", "3"),
    *("--selfplay.num-games", "8"),
    *("--selfplay.num-steps", "2", "--learner.num-updates", "2", "--learner.batch-size", "8"),
    *("--evals.every", "0", "--evals.stop-when-solved", "0", "--num-iterations", "1"),
    *("--out", "run"),
)


@pytest.mark.slow
def test_the_example_trains_evaluates_and_plays(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "tic-tac-toe", *FLAGS, *TINY]) == 0
    assert main(["train", "tic-tac-toe", *FLAGS, *TINY[:-3], "2", "--out", "run"]) == 2
    assert "--out run --resume" in capfd.readouterr().err
    named = ["--network", "transformer:make"]
    assert main(["export", "run", "net.safetensors"]) == 2
    assert main(["export", "run", "net.safetensors", *named]) == 0
    Path("positions.jsonl").write_text('{"moves": [4, 0]}\n')
    found = []
    for source in ("run", "net.safetensors"):
        capfd.readouterr()
        assert main(["evaluate", source, "positions.jsonl", "--network-only", *named]) == 0
        found.append(json.loads(capfd.readouterr().out))
    assert found[0] == found[1]
    assert len(found[0]["network_value"]) == 2
    players = ["run+policy", "a=random"]
    flags = [*named, "--games", "2"]
    assert main(["compare", *players, *flags, "--out", "comparison"]) == 0
    assert Path("comparison/report.html").exists()
