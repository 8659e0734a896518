"""The folder of a run: its configuration, a row an iteration, checkpoints, a summary."""

import contextlib
import dataclasses
import functools
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from dualmctx.runs.atomic_io import atomic_write_text, is_draft
from dualmctx.runs.locks import LOCK, locked
from dualmctx.runs.record_names import with_current_names

CONFIG = "config.json"
EDITED = "edited"
"""The field of `config.json` that says that it was edited on purpose; see `run_config`."""


class RunFolder(NamedTuple):
    """A folder that a run writes to.

    Attributes:
      path: the folder.
    """

    path: Path

    @property
    def checkpoints(self) -> Path:
        """Where checkpoints are."""
        return self.path / "checkpoints"

    @property
    def metrics(self) -> Path:
        """JSON Lines, a row an iteration."""
        return self.path / "metrics.jsonl"

    def append_row(self, row: dict[str, Any]) -> None:
        """Appends a row to the metrics, complete with its line end.

        A full disk may leave a part of it, which `keep_rows` drops.
        """
        with self.metrics.open("a") as file:
            file.write(json.dumps(_finite(row)) + "\n")

    def keep_rows(self, num_iterations: int) -> list[dict[str, Any]]:
        """Drops rows later than an iteration, which a resumed run makes anew; returns the rest.

        A last row of which there is only a part is dropped too.

        Raises:
          ValueError: as `read_rows`.
        """
        if not self.metrics.exists():
            return []
        rows = [row for row in read_rows(self.metrics) if row["iteration"] <= num_iterations]
        atomic_write_text(self.metrics, "".join(json.dumps(row) + "\n" for row in rows))
        return rows

    def write_json(self, name: str, content: dict[str, Any]) -> None:
        """Writes a JSON file, complete or not at all."""
        atomic_write_text(self.path / name, json.dumps(_finite(content), indent=2) + "\n")


def read_rows(file: Path) -> list[dict[str, Any]]:
    """Reads `metrics.jsonl`; a last line that is not complete is left out.

    Raises:
      ValueError: when an iteration does not come after the one before it, in one line: two
        processes have written to the file.
    """
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(file.read_text().splitlines(), start=1):
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            break
        if rows and row["iteration"] <= rows[-1]["iteration"]:
            raise ValueError(
                f"{file}, line {number} has iteration {row['iteration']} after "
                f"{rows[-1]['iteration']}: two processes have written to it; remove the rows of one"
            )
        rows.append(row)
    return rows


@contextlib.contextmanager
def lock_folder(path: Path, *, resume: bool) -> Iterator[None]:
    """Holds the lock of the folder of a run, a new one or one that is to go on.

    Raises:
      ValueError: when another process holds it (see `locked`); as `check_new` for a new run, and
        as `read_config` for one that is to go on; nothing is changed then.
    """
    check = read_config if resume else check_new
    # A folder that is not ours is left alone, but the process that writes to one is named first.
    if not (path / LOCK).exists():
        check(path)
    with locked(path / LOCK, path):
        check(path)
        yield


def create_run(path: Path, config: dict[str, Any]) -> RunFolder:
    """Makes the folder of a new run and writes its configuration.

    Raises:
      ValueError: when the folder holds something already, in one line; nothing is changed then.
    """
    check_new(path)
    path.mkdir(parents=True, exist_ok=True)
    folder = RunFolder(path)
    folder.write_json(CONFIG, config)
    return folder


def check_new(path: Path) -> None:
    """Refuses the folder of a new run that holds something already, by a one-line `ValueError`."""
    if path.exists() and (not path.is_dir() or not all(map(_is_passing, path.iterdir()))):
        raise ValueError(
            f"--out {path} exists and is not empty; choose another folder, or go on with "
            f"--out {path} --resume"
        )


def _is_passing(file: Path) -> bool:
    return is_draft(file) or file.name == LOCK


def reopen_run(
    path: Path, config: dict[str, Any], defaults: dict[str, Any] | None = None
) -> RunFolder:
    """Opens the folder of a run that is to go on.

    Args:
      path: the folder.
      config: the configuration to go on with.
      defaults: what fields count as that the run's configuration lacks, because they are newer.

    Returns:
      The folder.

    Raises:
      ValueError: when there is no run or its configuration differs, in one line with the fields.
    """
    # As JSON has them: a number that is not finite was saved as null.
    saved, wanted = flatten(read_config(path)), flatten(_finite(config))
    newer = wanted.keys() - saved.keys()
    saved |= {name: x for name, x in flatten(_finite(defaults or {})).items() if name in newer}
    names = sorted(name for name in saved | wanted if saved.get(name) != wanted.get(name))
    if names:
        fields = ", ".join(f"{name} ({saved.get(name)} → {wanted.get(name)})" for name in names)
        raise ValueError(f"the run in {path} has another configuration: {fields}")
    return RunFolder(path)


def read_config(path: Path) -> dict[str, Any]:
    """Reads the configuration of the run in a folder, without the field `EDITED`.

    Raises:
      ValueError: when there is no run or its configuration cannot be read, in one line.
    """
    file = path / CONFIG
    if not file.exists():
        raise ValueError(f"{path} has no {CONFIG}, so there is no run there")
    try:
        config = with_current_names(json.loads(file.read_text()))
        return {name: value for name, value in config.items() if name != EDITED}
    except (ValueError, TypeError) as error:
        raise ValueError(f"{file} cannot be read: {error}") from error


def to_dict(config: Any) -> dict[str, Any]:
    """Turns a configuration of nested dataclasses into what JSON can hold; functions by name."""
    return json.loads(json.dumps(dataclasses.asdict(config), default=_name_function))


def _name_function(function: Any) -> Any:
    if isinstance(function, functools.partial):
        return {"function": _name_function(function.func), **function.keywords}
    return function.__name__


def flatten(config: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flattens nested dictionaries, with dots in the names."""
    flat: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, dict):
            flat |= flatten(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat


def _finite(value: Any) -> Any:
    """Replaces what JSON has no number for, at any depth."""
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
