"""Runs that several files of tests read, and no test changes."""

import contextlib
import io

import pytest

import fake_stage
from dualmctx.commands import train
from fake_stage import Finished
from untrained import export_untrained


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A finished run of the fake stage."""
    out, said = tmp_path_factory.mktemp("fake") / "run", io.StringIO()
    with contextlib.redirect_stdout(said):
        fake_stage.run_to_the_end(out)
    return Finished(out, said.getvalue())


@pytest.fixture(scope="session")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A finished run of the whole pipeline, with all its stages, and an opponent in its match."""
    folder, said = tmp_path_factory.mktemp("pipeline"), io.StringIO()
    opponent = export_untrained(folder / "opponent.safetensors", "tic-tac-toe")
    flags = [
        *("tic-tac-toe", "--pipeline", "alphago", "--games.engine", "perfect"),
        *("--games.number", "1000", "--network.num-blocks", "1"),
        *("--supervised.num-iterations", "10"),
        *("--reinforce.num-iterations", "60", "--reinforce.learning-rate", "0.04"),
        *("--value.num-games", "2000", "--value.num-iterations", "8"),
        *("--opponent", str(opponent), "--out", str(folder / "run")),
        # Each search of the match takes long to compile.
        *("--player.num-games", "20", "--player.rollout-mixes", "0.5"),
    ]
    with contextlib.redirect_stdout(said):
        assert train.main(flags) == 0
    return Finished(folder / "run", said.getvalue())
