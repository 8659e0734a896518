"""Checkpoints: the complete state of training, from which a run can be resumed."""

import contextlib
import itertools
import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import orbax.checkpoint as ocp

from dualmctx.errors import UserError
from dualmctx.runs.array_file import by_name, fit_arrays
from dualmctx.runs.folder import CONFIG, RunFolder, fixed_settings, list_changes, read_config

# The entries of a checkpoint: the state, the configuration as bytes of JSON, and one checksum for
# each array of both.
_STATE, _CONFIG, _CHECKSUMS = "state", "config", "checksums"
# The errors that orbax, tensorstore, zstd and this module raise on reading and writing.
_FAILURES = (ValueError, KeyError, TypeError, OSError, RuntimeError)
# orbax also uses assertions, and may fail in any way on damaged metadata.
_UNREADABLE = (*_FAILURES, AssertionError, AttributeError, LookupError)


class Restored(NamedTuple):
    """A checkpoint that was read.

    Attributes:
      state: the state in NumPy arrays; of `load`, the arrays by name (see `by_name`).
      step: the iteration after which it was saved.
      damaged: the reason for each later checkpoint that could not be read, by iteration.
      config: the configuration that the checkpoint was saved with.
    """

    state: Any
    step: int
    damaged: dict[int, str]
    config: dict[str, Any]

    def arrays_of(self, part: str) -> dict[str, np.ndarray]:
        """Returns the arrays of a part of a state of `load`, by their names in the part."""
        names = [name for name in self.state if name.startswith(f"{part}/")]
        return {name.partition("/")[2]: self.state[name] for name in names}


class Checkpoints(NamedTuple):
    """The checkpoints in a folder.

    Attributes:
      manager: orbax's manager of the folder. It writes a checkpoint under a temporary name and
        renames it when it is complete.
      fetch: converts a state to NumPy arrays.
      config: the configuration of the run, as JSON values; it is saved in each checkpoint.
    """

    manager: ocp.CheckpointManager
    fetch: Callable[[Any], Any]
    config: dict[str, Any]

    def save(self, step: int, state: Any) -> None:
        """Saves the state after iteration `step` in the background, unless it is already saved.

        Raises:
          OSError: if this checkpoint or the one before it cannot be written.
        """
        if step in self.manager.all_steps():
            return
        # Copy first: training reuses the buffers while orbax is still writing.
        state = self.fetch(state)
        content = {
            _STATE: state,
            _CONFIG: np.frombuffer(json.dumps(self.config).encode(), np.uint8),
        }
        with self._writing():
            args = ocp.args.StandardSave(content | {_CHECKSUMS: _checksums(content)})
            self.manager.save(step, args=args)

    def wait(self) -> None:
        """Waits until all checkpoints are written.

        Raises:
          OSError: if one cannot be written.
        """
        with self._writing():
            self.manager.wait_until_finished()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except _FAILURES as error:
            # orbax lists a checkpoint as soon as it starts to write it.
            self.manager.reload()
            raise OSError(
                f"a checkpoint in {self.manager.directory} cannot be written: {_shorten(error)}"
            ) from error

    def latest(self) -> int | None:
        """Returns the iteration of the newest checkpoint; `None` if there is none."""
        return self.manager.latest_step()

    def restore(self, like: Any) -> Restored:
        """Restores the newest checkpoint that is not damaged.

        Args:
          like: a state, or its shapes and dtypes, with the structure that was saved.

        Raises:
          ValueError: if there is no checkpoint, or none can be read.
        """
        steps = sorted(self.manager.all_steps(), reverse=True)
        damaged: dict[int, str] = {}
        for step in steps:
            try:
                arrays, config = self._read(step)
                state = fit_arrays(like, arrays)
            except _UNREADABLE as error:
                damaged[step] = _shorten(error)
            else:
                return Restored(state, step, damaged, config)
        if not steps:
            raise UserError(f"there is no checkpoint in {self.manager.directory}")
        raise UserError(
            f"the checkpoint of iteration {steps[0]} in {self.manager.directory} cannot be read: "
            f"{damaged[steps[0]]}"
            + (", nor can earlier ones" if len(steps) > 1 else "")
            + "; put back a copy, or start again in another folder"
        )

    def load(self, step: int | None = None) -> Restored:
        """Reads a checkpoint without knowing its structure; it uses no device memory.

        Args:
          step: the iteration; by default that of the newest checkpoint.

        Raises:
          ValueError: if there is no such checkpoint, or it cannot be read.
        """
        step = self.latest() if step is None else step
        if step is None or step not in self.manager.all_steps():
            which = "no checkpoint" if step is None else f"no checkpoint of iteration {step}"
            raise UserError(f"there is {which} in {self.manager.directory}")
        try:
            arrays, config = self._read(step)
        except _UNREADABLE as error:
            where = f"the checkpoint of iteration {step} in {self.manager.directory}"
            others = ", ".join(map(str, sorted(set(self.manager.all_steps()) - {step})))
            remedy = f"choose another iteration: {others}" if others else "train again"
            raise UserError(f"{where} cannot be read: {_shorten(error)}; {remedy}") from error
        return Restored(arrays, step, {}, config)

    def _read(self, step: int) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Returns the arrays of the state by name, and the configuration."""
        if not any((Path(self.manager.directory) / str(step)).glob("*/_METADATA")):
            raise UserError("it is incomplete")
        content = self.manager.restore(step, args=ocp.args.StandardRestore())
        if not np.array_equal(_checksums(content), content[_CHECKSUMS]):
            raise UserError("its checksums do not match, so it is damaged")
        arrays = {name: np.asarray(x) for name, x in by_name(content[_STATE]).items()}
        return arrays, json.loads(np.asarray(content[_CONFIG]).tobytes())

    def set_aside(self, step: int) -> Path:
        """Moves a damaged checkpoint out of the folder; returns its new path."""
        folder = Path(self.manager.directory)
        names = (f"damaged-{step}" + f"-{i}" * (i > 1) for i in itertools.count(1))
        aside = next(x for x in map(folder.parent.joinpath, names) if not x.exists())
        (folder / str(step)).rename(aside)
        self.manager.reload()
        return aside


def _checksums(content: dict[str, Any]) -> np.ndarray:
    """Returns one checksum per array, by the names of the arrays; that of the configuration last.

    orbax restores tuples and classes as dictionaries, so the order of the arrays is lost.
    """
    arrays = [x for _, x in sorted(by_name(content[_STATE]).items())]
    flat = (np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in (*arrays, content[_CONFIG]))
    return np.array([zlib.crc32(x.data) for x in flat], np.uint32)


def _shorten(error: Exception) -> str:
    """Returns the first line of an error, without tensorstore's list of opened files.

    The middle of a long line is omitted, because it holds only paths. The cause is at the end.
    """
    text = str(error).strip() or type(error).__name__
    line = text.split("\n")[0].split(" [tensorstore_spec")[0]
    half = _LONGEST_REASON // 2
    return line if len(line) <= _LONGEST_REASON else f"{line[:half]} … {line[-half:]}"


_LONGEST_REASON = 200


def copy_to_host(state: Any) -> Any:
    """Copies a state to NumPy arrays, which an iteration that donates the state cannot change."""
    return jax.tree.map(np.array, state)


def open_checkpoints(
    folder: Path,
    *,
    config: dict[str, Any] | None = None,
    keep: int = 2,
    fetch: Callable[[Any], Any] = copy_to_host,
) -> Checkpoints:
    """Opens a folder of checkpoints, which is created if needed.

    Args:
      folder: its path.
      config: the configuration of the only run that writes to the folder, as JSON values. It is
        saved in each checkpoint, and incomplete checkpoints that a killed run left behind are
        removed. By default the folder is read, and a run may be writing to it.
      keep: the number of checkpoints to keep, at least 1; older ones are removed.
      fetch: converts a state to NumPy arrays; `multihost.gather` if other processes hold parts.

    Raises:
      ValueError: if the folder cannot be read.
    """
    folder.mkdir(parents=True, exist_ok=True)
    process = jax.process_index()
    # Only this process opens the folder. By default, orbax would wait for the others.
    alone = ocp.options.MultiprocessingOptions(primary_host=process, active_processes={process})
    settings = ocp.CheckpointManagerOptions(
        create=False,
        multiprocessing_options=alone,
        # The metadata of each checkpoint are not needed, and may be damaged.
        lightweight_initialize=True,
        max_to_keep=None if config is None else keep,
        cleanup_tmp_directories=config is not None,
    )
    handler = ocp.StandardCheckpointHandler(multiprocessing_options=alone)
    try:
        manager = ocp.CheckpointManager(folder.resolve(), options=settings, item_handlers=handler)
    except (ValueError, TypeError, AssertionError, AttributeError, LookupError) as error:
        raise UserError(
            f"the checkpoints in {folder} cannot be read because one is damaged: {_shorten(error)}"
        ) from error
    return Checkpoints(manager, fetch, config or {})


def restore(
    folder: RunFolder, checkpoints: Checkpoints, shapes: Any, warn: Callable[[str], None]
) -> Any:
    """Restores the state of the newest checkpoint that is not damaged, in NumPy arrays.

    Damaged checkpoints are moved aside, and `warn` gets a line about each.

    Args:
      folder: the folder of the run.
      checkpoints: its checkpoints.
      shapes: the shapes and dtypes of the state.
      warn: called with a line.

    Raises:
      ValueError: if no checkpoint can be read, or the newest readable one was saved with another
        configuration.
    """
    restored = checkpoints.restore(shapes)
    check_config(folder.path, restored.step, restored.config)
    for step, reason in restored.damaged.items():
        aside = checkpoints.set_aside(step)
        warn(
            f"the checkpoint of iteration {step} is damaged ({reason}) and was moved to {aside}; "
            f"the run continues from iteration {restored.step}"
        )
    return restored.state


def check_config(path: Path, step: int, saved: dict[str, Any]) -> None:
    """Checks the `config.json` of a run against one of its checkpoints.

    Settings that may change when a run is resumed are not compared; see `fixed_settings`.

    Args:
      path: the run's folder.
      step: the checkpoint's iteration.
      saved: the configuration that the checkpoint was saved with.

    Raises:
      ValueError: if they differ; the message names the fields.
    """
    if changes := list_changes(fixed_settings(saved), fixed_settings(read_config(path))):
        raise UserError(
            f"{path / CONFIG} is not the configuration that the checkpoint of iteration {step} was "
            f"saved with: {changes}; put the old values back; to train with others, start another "
            "run from this one with --init-from"
        )
