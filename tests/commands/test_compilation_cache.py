"""The persistent compilation cache of the commands."""

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import jax
import pytest

from dualmctx.commands import compilation_cache
from dualmctx.commands.compilation_cache import (
    machine_digest,
    reduce_size,
    remove_damaged_entries,
    use_cache,
)

ROOT = Path(__file__).parents[2]
DIRECTORY, ENABLED = "jax_compilation_cache_dir", "jax_enable_compilation_cache"


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """Collects the settings of JAX that the function changes, from JAX's defaults."""
    changed: dict[str, Any] = {}
    monkeypatch.setattr(jax.config, "update", changed.__setitem__)
    monkeypatch.setattr(type(jax.config), DIRECTORY, None, raising=False)
    monkeypatch.setattr(type(jax.config), ENABLED, True, raising=False)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return changed


def test_the_cache_is_in_the_users_cache_folder_if_no_flag_turns_it_off(settings, tmp_path, capfd):
    assert use_cache(["p", "--no-cache", "--x"], "dualmctx x") == ["p", "--x"]
    assert settings.pop(ENABLED) is False
    assert not list(tmp_path.iterdir())
    assert use_cache(["--x", "1"], "dualmctx x") == ["--x", "1"]
    folder = tmp_path / "dualmctx" / f"xla-{machine_digest()}"
    assert settings[DIRECTORY] == str(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("name", "value"), [(DIRECTORY, "/elsewhere"), (ENABLED, False)])
def test_settings_of_jax_win(name, value, settings, monkeypatch):
    monkeypatch.setattr(type(jax.config), name, value)
    assert use_cache(["p"], "dualmctx x") == ["p"]
    assert settings == {}


def test_an_unusable_folder_costs_a_line(settings, tmp_path, monkeypatch, capfd):
    (tmp_path / "dualmctx").write_text("a file")
    assert use_cache(["p"], "dualmctx x") == ["p"]
    said = capfd.readouterr().err
    assert said.startswith("dualmctx x: compiling without a cache: ")
    assert said.count("\n") == 1
    # Another user's folder; root may write everywhere.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    monkeypatch.setattr(compilation_cache.os, "access", lambda *_: False)
    use_cache(["p"], "dualmctx x")
    assert "is not writable" in capfd.readouterr().err
    assert settings == {}


def test_machines_with_other_instructions_have_other_folders(tmp_path):
    digests = []
    for flags, mhz in [("sse avx", 1), ("sse avx", 2), ("sse", 1)]:
        file = tmp_path / "cpuinfo"
        processors = [f"processor\t: {i}\ncpu MHz\t: {mhz}\nflags\t: {flags}\n" for i in (0, 1)]
        file.write_text("\n".join(processors))
        digests.append(machine_digest(file))
    digests.append(machine_digest(tmp_path / "none"))
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


def test_the_size_is_limited_to_the_last_used_files(tmp_path):
    for age in range(4):
        file = tmp_path / f"xla-{age % 2}" / f"jit_f-{age}-cache"
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(bytes(10))
        os.utime(file, (1000 - age, 1000 - age))
    reduce_size(tmp_path, 40)
    assert len(list(tmp_path.rglob("*-cache"))) == 4
    reduce_size(tmp_path, 25)
    assert sorted(x.name[6] for x in tmp_path.rglob("*-cache")) == ["0", "1"]


def test_damaged_entries_are_removed(tmp_path, monkeypatch):
    shown: list[str] = []
    monkeypatch.setattr(warnings, "showwarning", lambda message, *_: shown.append(str(message)))
    for name in ("jit_f-12-cache", "jit_ff-34-cache"):
        (tmp_path / name).touch()
    remove_damaged_entries(tmp_path)
    for text in ("Error reading persistent compilation cache entry for 'jit_f': zlib", "x"):
        warnings.showwarning(UserWarning(text), UserWarning, "f.py", 1)
    assert shown == ["x"]
    assert [x.name for x in tmp_path.iterdir()] == ["jit_ff-34-cache"]


COMPILE = """
import sys, jax
from dualmctx.commands.compilation_cache import use_cache
use_cache(sys.argv[1:], "x")
def other(x):
    return x * 2
print(int(jax.jit(other)(jax.jit(lambda x: x + 1)(1))))
"""


@pytest.mark.slow
def test_a_second_process_reads_the_programs_of_the_first(tmp_path):
    names = ("JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS")
    environment = {name: x for name, x in os.environ.items() if name not in names}
    environment["XDG_CACHE_HOME"] = str(tmp_path)

    def run() -> dict[Path, bytes]:
        command = [sys.executable, "-c", COMPILE]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True)
        assert (done.stdout, done.stderr) == (b"4\n", b"")
        return {path: path.read_bytes() for path in tmp_path.rglob("*-cache")}

    first = run()
    assert first
    # A process that was killed, or a full disk, leaves a part of an entry; it is replaced. The
    # other entries are read.
    damaged, *others = first
    assert others
    damaged.write_bytes(first[damaged][:20])
    before = {path: path.stat().st_mtime_ns for path in others}
    assert run().keys() == first.keys()
    assert damaged.stat().st_size > 20
    assert {path: path.stat().st_mtime_ns for path in others} == before
