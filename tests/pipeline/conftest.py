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
    opponent = export_untrained(folder / "opponent.safetensors", "connect2")
    flags = [
        *("connect2", "--pipeline", "alphago", "--network.num-blocks", "1"),
        *("--reinforce.learning-rate", "0.1", "--reinforce.eval-every", "0"),
        *("--opponent", str(opponent), "--out", str(folder / "a run")),
        # Each search of the match takes long to compile.
        *("--player.num-games", "6", "--player.rollout-mixes", "0.5"),
        *("--player.opening-plies", "1", "2", "--player.prior", "reinforced"),
    ]
    with contextlib.redirect_stdout(said):
        assert train.main(flags) == 0
    return Finished(folder / "a run", said.getvalue())
