"""Errors and hints about GPUs: one line that has the cause and says what to install."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import jax
import pytest

from dualmctx.distributed.backend import require_backend
from dualmctx.errors import UserError

ROOT = Path(__file__).parents[2]
COMMAND = ["evaluate", "tic-tac-toe", "positions.jsonl", "--out"]
INSTALL = f'pip install "jax[cuda12]=={jax.__version__}"'


@pytest.mark.slow
@pytest.mark.skipif(any(Path("/dev").glob("nvidia[0-9]*")), reason="this machine has a GPU")
def test_a_command_that_asks_for_a_missing_gpu_ends_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "positions.jsonl").write_text('{"moves": ""}\n')
    done = subprocess.run(
        [sys.executable, "-m", "dualmctx", *COMMAND, str(tmp_path / "out.jsonl")],
        env=os.environ | {"JAX_PLATFORMS": "cuda", "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    start = "dualmctx evaluate: JAX_PLATFORMS is cuda, but JAX cannot use it"
    assert re.fullmatch(rf"{start}.*{re.escape(INSTALL)}.*\n", done.stderr)
    assert [x.name for x in tmp_path.iterdir()] == ["positions.jsonl"]


@pytest.mark.parametrize("asked", ["cuda", None])
def test_the_cpu_is_used_with_a_hint_if_nobody_asked_for_the_gpu(
    asked: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    before = jax.config.jax_platforms

    def find_devices() -> None:
        if jax.config.jax_platforms != "cpu":
            raise RuntimeError("Unable to initialize backend: too old (you may need to …)\nmore")

    monkeypatch.setattr(jax, "devices", find_devices)
    try:
        jax.config.update("jax_platforms", asked)
        if asked:
            with pytest.raises(UserError, match=r"JAX_PLATFORMS is cuda, .* too old; a GPU needs"):
                require_backend("dualmctx train")
        else:
            require_backend("dualmctx train")
            assert jax.config.jax_platforms == "cpu"
            require_backend("dualmctx train")
    finally:
        jax.config.update("jax_platforms", before)
    line = r"dualmctx train: Unable to initialize backend: too old; JAX uses the CPU; .*\n"
    assert re.fullmatch("" if asked else line, capsys.readouterr().err)


def test_all_places_name_one_way_to_install_jax_for_a_gpu() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [wanted] = extras["optional-dependencies"]["gpu"]
    assert wanted in INSTALL
    files = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.rglob("dualmctx/**/*.py")]
    named = {x for file in files for x in re.findall(r"jax\[cuda\d*\]", file.read_text())}
    assert named == {wanted}
