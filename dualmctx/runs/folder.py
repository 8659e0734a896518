"""The folder of a run: configuration, one row of metrics per iteration, checkpoints, summary."""

import contextlib
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from dualmctx.errors import UserError
from dualmctx.runs.atomic_io import atomic_write_text, is_draft, make_folder
from dualmctx.runs.journal import without_non_finite
from dualmctx.runs.locks import LOCK, locked
from dualmctx.typed_values import decode_fields, function_name
from dualmctx.version import __version__

CONFIG, SUMMARY = "config.json", "summary.json"
"""The files of the configuration and, in a finished run, of the results."""
UNRECORDED = (("execution", "kernels"),)
"""Options, each with its group, that depend on the machine and do not change the results."""
FORMAT_VERSION = 1
"""The version of the format of `config.json`, exported networks, saved searches and data sets.

It is raised when another version of the package could not read a file correctly."""
_FORMAT, _PACKAGE = "format_version", "package_version"
_REMEDY = "resume it with its own settings, or choose another folder"

CHANGEABLE = {
    "": ("num_iterations", "checkpoint_every", "checkpoint_minutes", "keep"),
    "evals": ("every", "stop_when_solved"),
    "reinforce": ("num_iterations", "eval_every"),
}
"""Settings of a run that may change when it is resumed, by group: no result depends on them.

Those of `reinforce` may change in a run of that stage of the pipeline. Other stages have schedules
of their own length, and those of a whole pipeline build on each other."""


class RunFolder(NamedTuple):
    """The folder of a run, at `path`."""

    path: Path

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints."""
        return self.path / "checkpoints"

    def saved_iterations(self) -> list[int]:
        """Returns the iterations of the checkpoints, without any that a kill left half written."""
        names = [x.name for x in self.checkpoints.glob("[0-9]*") if x.is_dir()]
        return sorted(int(name) for name in names if name.isascii() and name.isdecimal())

    @property
    def metrics(self) -> Path:
        """The file of metrics, one row per iteration; see `dualmctx.runs.metrics_file`."""
        return self.path / "metrics.jsonl"

    def write_json(self, name: str, content: dict[str, Any]) -> None:
        """Writes a JSON file atomically."""
        text = json.dumps(without_non_finite(content), indent=2)
        atomic_write_text(self.path / name, text + "\n")


def default_folder(preset: str, stage: str | None = None) -> Path:
    """Returns the folder of a run for which none is named: runs/PRESET or runs/PRESET-STAGE."""
    return Path("runs", "-".join(filter(None, (preset, stage))))


@contextlib.contextmanager
def lock_folder(path: Path, *, resume: bool) -> Iterator[None]:
    """Holds the lock of the folder of a new or resumed run.

    Raises:
      ValueError: if another process holds the lock (see `locked`), a new run's folder is not empty,
        or a resumed run has no readable configuration. No file is changed then.
    """
    check = read_config if resume else _check_new
    # Check before creating anything, unless the folder is locked: that error comes first.
    if not (path / LOCK).exists():
        check(path)
    with locked(path / LOCK, path):
        check(path)
        yield


def create_run(path: Path, config: dict[str, Any]) -> RunFolder:
    """Creates the folder of a new run and writes its configuration; both are then on the disk.

    Raises:
      ValueError: if the folder exists and is not empty. No file is changed then.
    """
    _check_new(path)
    return _write_config(path, config)


def _check_new(path: Path) -> None:
    def is_temporary(file: Path) -> bool:
        return is_draft(file) or file.name == LOCK

    if path.exists() and (not path.is_dir() or not all(map(is_temporary, path.iterdir()))):
        raise UserError(
            f"--out {path} exists and is not empty; choose another folder, or resume that run with "
            f"--out {path} --resume"
        )


def _write_config(path: Path, config: dict[str, Any]) -> RunFolder:
    """Writes the configuration into a folder, which is created if needed."""
    make_folder(path)
    folder = RunFolder(path)
    folder.write_json(CONFIG, with_versions(config))
    return folder


def reopen_run(path: Path, config: dict[str, Any]) -> RunFolder:
    """Opens the folder of a run to resume it.

    Settings that may change (see `fixed_settings`) are written to its `config.json`.

    Args:
      path: the folder.
      config: the configuration of the resumed run.

    Returns:
      The folder.

    Raises:
      ValueError: if there is no run, or its configuration differs; the message names the fields.
    """
    # JSON has no infinite numbers; they were saved as null.
    current, config = read_config(path), without_non_finite(config)
    require_same_settings(path, fixed_settings(current), fixed_settings(config))
    return RunFolder(path) if config == current else _write_config(path, config)


def check_settings(path: Path, settings: dict[str, Any]) -> None:
    """Checks settings, JSON values, against those in the `config.json` of a folder.

    Raises:
      ValueError: if one differs, or the file cannot be read.
    """
    # JSON has no infinite numbers; they were saved as null.
    saved, settings = read_config(path), without_non_finite(settings)
    require_same_settings(path, {x: saved.get(x) for x in settings}, settings)


def keep_settings(path: Path, settings: dict[str, Any], growing: dict[str, Any]) -> None:
    """Writes the `config.json` of a folder; if there is one, checks that the settings agree.

    A setting in `growing` may have more or fewer entries than before. The file keeps all of them;
    entries that both have, and the other settings, must be equal.

    Args:
      path: the folder; created if it does not exist.
      settings: the settings, as JSON values.
      growing: the names and the types of the settings that may grow: lists or objects.

    Raises:
      ValueError: if a setting differs, or the file cannot be read.
    """
    settings = without_non_finite(settings)
    if (path / CONFIG).exists():
        check_settings(path, {x: y for x, y in settings.items() if x not in growing})
        saved = decode_fields(read_config(path), growing, f"{path / CONFIG}: ")
        grown = {name: _grow(path, name, saved[name], settings[name]) for name in growing}
        if grown == saved:
            return
        settings = settings | grown
    _write_config(path, settings)


def _grow(path: Path, name: str, old: Any, new: Any) -> Any:
    """Returns the entries of both values of a setting, after a check of those that both have."""
    is_list = isinstance(old, list)
    was, now = (dict(enumerate(x)) if is_list else x for x in (old, new))
    remedy = _REMEDY if is_list else "choose another name, or another folder"
    for key in (x for x in was if x in now):
        pair = ({f"{name}.{key}": x[key]} for x in (was, now))
        require_same_settings(path, *pair, remedy=remedy)
    both = was | now
    return list(both.values()) if is_list else both


def require_iterations(path: Path, num_iterations: int) -> None:
    """Checks that a resumed run does not have more iterations than it is asked for.

    Args:
      path: the folder of the run.
      num_iterations: the number of iterations at the end of the resumed run.

    Raises:
      ValueError: if it has a checkpoint of a later iteration.
    """
    done = max(RunFolder(path).saved_iterations(), default=0)
    if num_iterations < done:
        raise UserError(
            f"num_iterations is {num_iterations}, but the run in {path} has {done} iterations; "
            f"with {done} it ends there, with more it continues"
        )


def require_same_settings(
    path: Path, saved: dict[str, Any], wanted: dict[str, Any], *, remedy: str = _REMEDY
) -> None:
    """Checks the settings of a resumed run.

    Args:
      path: the folder of the run, for the message.
      saved: the settings of the run.
      wanted: the settings with which it is resumed.
      remedy: the end of the message.

    Raises:
      ValueError: if they differ; the message names the fields.
    """
    if changes := list_changes(saved, wanted):
        raise UserError(f"the run in {path} has another configuration: {changes}; {remedy}")


def read_summary(path: Path) -> dict[str, Any] | None:
    """Reads the results of a run; `None` if there are none, or the file is damaged."""
    try:
        return _read_json(path / SUMMARY) if (path / SUMMARY).exists() else None
    except UserError:
        return None


def read_config(path: Path) -> dict[str, Any]:
    """Reads the configuration of the run in a folder, without versions.

    Raises:
      ValueError: if there is no run, or its configuration cannot be read or has another format.
    """
    file = path / CONFIG
    if not file.exists():
        raise UserError(f"{path} has no {CONFIG}, so there is no run there")
    return without_versions(_read_json(file), file)


def _read_json(file: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(file.read_text(encoding="utf-8")))
    except (ValueError, TypeError, RecursionError) as error:
        raise UserError(f"{file} cannot be read: {error}; put back a copy") from error


def with_versions(content: dict[str, Any]) -> dict[str, Any]:
    """Returns the content of a file with the versions of its format and of this package."""
    return {_FORMAT: FORMAT_VERSION, _PACKAGE: __version__} | content


def without_versions(content: dict[str, Any], file: Path | str) -> dict[str, Any]:
    """Checks the version of the format of a file, and returns the content without versions.

    Args:
      content: the content of the file.
      file: the file, for the message.

    Raises:
      ValueError: if the file has a format of another version, or none; the message names the
        version of the package that wrote it.
    """
    found, writer = content.get(_FORMAT), content.get(_PACKAGE)
    if found != FORMAT_VERSION:
        format_version = "no format version" if found is None else f"format version {found}"
        other = "another dualmctx" if writer is None else f"dualmctx {writer}"
        raise UserError(
            f"{file} has {format_version}, written by {other}; dualmctx {__version__} reads "
            f"version {FORMAT_VERSION}: use {other}"
        )
    return {name: x for name, x in content.items() if name not in (_FORMAT, _PACKAGE)}


def to_dict(config: Any) -> dict[str, Any]:
    """Converts a configuration of nested dataclasses to JSON values; functions become names.

    Options in `UNRECORDED` are left out, so that a run can continue on another machine.
    """

    def record(fields: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(fields)
        for group, name in UNRECORDED:
            if isinstance(found.get(group), dict):
                found[group].pop(name, None)
        return found

    values = dataclasses.asdict(config, dict_factory=record)
    return json.loads(json.dumps(values, default=function_name))


def fixed_settings(config: dict[str, Any]) -> dict[str, Any]:
    """Returns the configuration of a run without the settings that may change.

    `schedule_iterations` has the number that it stands for, so that the learning rates of a run
    cannot change.

    Args:
      config: the content of a `config.json`; settings of other programs are kept.
    """
    groups = CHANGEABLE.keys() & {"evals", config.get("pipeline")}
    fixed = {name: x for name, x in config.items() if name not in CHANGEABLE[""]}
    for group in (x for x in groups if isinstance(fixed.get(x), dict)):
        fixed[group] = {x: y for x, y in fixed[group].items() if x not in CHANGEABLE[group]}
    if "num_iterations" in config:
        fixed["schedule_iterations"] = config.get("schedule_iterations") or config["num_iterations"]
    return fixed


def flatten(config: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flattens nested dictionaries; names are joined by dots."""
    flat: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, dict):
            flat |= flatten(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat


def list_changes(saved: dict[str, Any], wanted: dict[str, Any]) -> str:
    """Lists the settings that differ, as `name (old → new), ...`; empty if none does.

    Settings of groups have names with dots. One that is missing equals one that is `None`. The
    names are without the field `about` that holds some settings.
    """
    saved, wanted = flatten(saved), flatten(wanted)
    names = sorted(name for name in saved | wanted if saved.get(name) != wanted.get(name))
    shown = [f".{name}".replace(".about.", ".")[1:] for name in names]
    pairs = zip(shown, names, strict=True)
    return ", ".join(f"{x} ({saved.get(name)} → {wanted.get(name)})" for x, name in pairs)
