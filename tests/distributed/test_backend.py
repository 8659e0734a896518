"""Errors and hints about GPUs: one line that says what was found and what to install."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import jax
import pytest

from dualmctx.distributed import backend
from dualmctx.distributed.backend import Found, describe_failure, find_gpus, require_backend

ROOT = Path(__file__).parents[2]
COMMAND = ["evaluate", "tic-tac-toe", "positions.jsonl", "--out"]
NOTHING = Found("0.10.2", (), (), None)
GPU = Found("0.10.2", ("jax-cuda12-plugin 0.10.2",), ("/dev/nvidia0",), "535.54.03")


@pytest.mark.slow
@pytest.mark.skipif(bool(find_gpus().gpus), reason="this machine has an NVIDIA GPU")
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
    assert done.stderr.startswith(
        "dualmctx evaluate: JAX_PLATFORMS is cuda, but JAX found no usable"
    )
    assert f'pip install "jax[cuda12]=={jax.__version__}"' in done.stderr
    assert done.stderr.count("\n") == 1
    assert [x.name for x in tmp_path.iterdir()] == ["positions.jsonl"]


@pytest.mark.parametrize(
    ("platforms", "reason", "found", "words"),
    [
        (
            "cuda",
            "",
            NOTHING,
            ["no CUDA plugin, no NVIDIA GPU", '"jax[cuda12]==0.10.2", or set'],
        ),
        ("gpu", "no rocm", NOTHING, ["is gpu, but", "found JAX 0.10.2, no CUDA plugin"]),
        (
            "cuda",
            "Unable to initialize backend 'cuda': driver too old (set JAX_PLATFORMS='' to …)\nmore",
            GPU,
            [
                "'cuda': driver too old; found JAX 0.10.2, jax-cuda12-plugin 0.10.2, /dev/nvidia0, "
                "NVIDIA driver 535.54.03; on",
                '"jax[cuda12]==0.10.2", or set',
            ],
        ),
        ("cuda", "", GPU._replace(gpus=()), ["no usable GPU: found JAX", "-plugin 0.10.2, no NVI"]),
        (
            "tpu",
            "Unable to initialize backend 'tpu': no",
            GPU,
            ["is tpu, but", "'tpu': no; set it"],
        ),
    ],
)
def test_the_message_has_the_cause_the_findings_and_the_remedy(
    platforms: str, reason: str, found: Found, words: list[str]
) -> None:
    message = describe_failure(platforms, reason, found)
    assert all(x in message for x in words), message
    assert "\n" not in message
    assert "no rocm" not in message


def test_all_places_name_one_way_to_install_jax_for_a_gpu() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [wanted] = extras["optional-dependencies"]["gpu"]
    assert wanted in describe_failure("cuda", "", NOTHING).replace("==0.10.2", "")
    files = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.rglob("dualmctx/**/*.py")]
    named = {x for file in files for x in re.findall(r"jax\[cuda\d*\]", file.read_text())}
    assert named <= {wanted}


def test_device_files_and_driver_are_found(tmp_path: Path) -> None:
    none = tmp_path / "none"
    assert find_gpus(devices=tmp_path, driver=none, wsl=none)[2:] == ((), None)
    for name in ("nvidia1", "nvidia0", "nvidiactl", "nvidia-uvm", "dxg", "null"):
        (tmp_path / name).touch()
    driver = tmp_path / "version"
    driver.write_text(
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue Jun 6\nGCC 12\n"
    )
    found = find_gpus(devices=tmp_path, driver=driver)
    assert [Path(x).name for x in found.gpus] == ["nvidia0", "nvidia1"]
    assert (found.driver, found.jax) == ("535.54.03", jax.__version__)


def test_wsl_has_a_gpu_if_it_has_the_library_of_the_driver(tmp_path: Path) -> None:
    library, devices = tmp_path / "libcuda.so.1", tmp_path / "dev"
    devices.mkdir()
    (devices / "dxg").touch()
    (devices / "nvidiactl").touch()
    assert find_gpus(devices=devices, driver=devices, wsl=library).gpus == ()
    library.touch()
    assert find_gpus(devices=devices, driver=devices, wsl=library).gpus == (str(library),)


def test_a_version_that_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    """Reading a folder raises OSError."""
    assert find_gpus(devices=tmp_path, driver=tmp_path).driver is None


@pytest.mark.parametrize("fails", [False, True])
def test_the_cpu_is_used_with_a_hint_if_nobody_asked_for_the_gpu(
    fails: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    devices = jax.devices("cpu")
    before = jax.config.jax_platforms

    def find_devices() -> list:
        if fails and jax.config.jax_platforms != "cpu":
            raise RuntimeError("Unable to initialize backend 'cuda': too old (you may need to …)")
        return devices

    monkeypatch.setattr(jax, "devices", find_devices)
    monkeypatch.setattr(backend, "find_gpus", lambda: GPU)
    try:
        require_backend("dualmctx train")
        jax.config.update("jax_platforms", None)
        assert capsys.readouterr().err == ""
        require_backend("dualmctx train")
    finally:
        jax.config.update("jax_platforms", before)
    cause = "Unable to initialize backend 'cuda': too old; " if fails else ""
    assert capsys.readouterr().err == (
        f"dualmctx train: {cause}JAX uses the CPU; found JAX 0.10.2, jax-cuda12-plugin 0.10.2, "
        '/dev/nvidia0, NVIDIA driver 535.54.03; to use the GPU: pip install "jax[cuda12]==0.10.2", '
        "or set JAX_PLATFORMS=cpu to silence it\n"
    )
