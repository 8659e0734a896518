"""Files hold the versions of their format and of the package that wrote them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dualmctx
from dualmctx.runs.array_file import read_arrays, write_arrays
from dualmctx.runs.folder import FORMAT_VERSION, create_run, read_config
from dualmctx.runs.saved_network import export_trained, load_trained
from untrained import parse_train

VERSIONS = {"format_version": FORMAT_VERSION, "package_version": dualmctx.__version__}
NEWER = {"format_version": FORMAT_VERSION + 1, "package_version": "9.8.7"}


def write_config(path: Path) -> Path:
    create_run(path / "run", {"seed": 3})
    return path / "run" / "config.json"


def write_network(path: Path) -> Path:
    export_trained(load_trained("connect2"), path / "net.safetensors")
    return path / "net.safetensors"


def read_versions(file: Path) -> dict[str, Any]:
    if file.suffix == ".json":
        return json.loads(file.read_text())
    return read_arrays(file, "a network").record


def set_versions(file: Path, versions: dict[str, Any]) -> None:
    content = {x: y for x, y in read_versions(file).items() if x not in VERSIONS} | versions
    if file.suffix == ".json":
        file.write_text(json.dumps(content))
        return
    write_arrays(file, read_arrays(file, "a network").arrays, content)


FILES: dict[str, tuple[Callable[[Path], Path], Callable[[Path], Any]]] = {
    "config.json": (write_config, lambda file: read_config(file.parent)),
    "settings": (write_config, lambda file: parse_train(["nim", "--config", str(file)])[1].seed),
    "exported network": (write_network, lambda file: load_trained(file).record),
}


@pytest.mark.parametrize("kind", FILES)
def test_files_hold_versions_and_another_format_is_refused(kind: str, tmp_path: Path) -> None:
    write, read = FILES[kind]
    file = write(tmp_path)
    content, found = read_versions(file), read(file)
    assert {name: content[name] for name in VERSIONS} == VERSIONS
    assert not isinstance(found, dict) or not found.keys() & VERSIONS.keys()
    # A change that keeps the format is no reason to refuse a file.
    set_versions(file, VERSIONS | {"package_version": "9.8.7"})
    assert read(file) == found
    refused = {
        "format version 2, written by dualmctx 9.8.7; ": NEWER,
        "format version x, written by another dualmctx": {"format_version": "x"},
    }
    if kind != "settings":
        refused["no format version, written by another"] = {}
    for words, versions in refused.items():
        set_versions(file, versions)
        before = file.read_bytes()
        with pytest.raises(ValueError, match=f"^{file} has {words}"):
            read(file)
        assert file.read_bytes() == before
