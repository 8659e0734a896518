"""Checkpoints: the whole state of training, so that a run goes on where it stopped."""

import contextlib
import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import orbax.checkpoint as ocp

from dualmctx.runs.checkpoint_content import CONFIG, is_intact, make_content, read_config
from dualmctx.runs.saved_fields import with_saved_names

# What reading and writing raise: orbax, tensorstore, zstd or we ourselves.
_FAILURES = (ValueError, KeyError, TypeError, OSError, RuntimeError)
# orbax also checks what it reads by assertions, and takes it apart without a check.
_UNREADABLE = (*_FAILURES, AssertionError, AttributeError, LookupError)


class Restored(NamedTuple):
    """What was read back.

    Attributes:
      state: the state, in NumPy arrays.
      step: its iterations.
      damaged: later checkpoints that could not be read, by their iterations and with the reason in
        a line; empty if the newest one was read.
      config: the configuration that the checkpoint was saved with; `None` if it has none, as those
        of earlier versions.
    """

    state: Any
    step: int
    damaged: dict[int, str]
    config: dict[str, Any] | None


class Checkpoints(NamedTuple):
    """The checkpoints in a folder.

    Attributes:
      manager: orbax's manager of the folder; it writes a checkpoint under another name and renames
        it when complete, so that a folder never holds half of one.
      fetch: turns a state into NumPy arrays.
      config: the configuration of the run, in JSON's types; each checkpoint is saved with it.
    """

    manager: ocp.CheckpointManager
    fetch: Callable[[Any], Any]
    config: dict[str, Any] | None = None

    def save(self, step: int, state: Any) -> None:
        """Saves a state after `step` iterations, in the background; a step is saved only once.

        Raises:
          OSError: when this checkpoint or the one before it cannot be written, in one line.
        """
        if step in self.manager.all_steps():
            return
        # Fetched first: training goes on in the same buffers while orbax still writes.
        content = make_content(self.fetch(state), self.config)
        with self._writing():
            self.manager.save(step, args=ocp.args.StandardSave(content))

    def wait(self) -> None:
        """Waits until everything is written.

        Raises:
          OSError: when it cannot be, in one line.
        """
        with self._writing():
            self.manager.wait_until_finished()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except _FAILURES as error:
            # orbax counts a checkpoint as soon as it is begun.
            self.manager.reload()
            where = f"a checkpoint in {self.manager.directory}"
            raise OSError(f"{where} cannot be written: {_in_short(error)}") from error

    def latest(self) -> int | None:
        """Returns the iterations of the newest checkpoint, `None` if there is none."""
        return self.manager.latest_step()

    def restore(self, like: Any) -> Restored:
        """Restores the newest checkpoint that is not damaged; none is ever loaded in part.

        Args:
          like: a state, or its shapes and dtypes, of the structure that was saved.

        Returns:
          The state, and which later checkpoints could not be read.

        Raises:
          ValueError: when there is no checkpoint, or none can be read, in one line.
        """
        steps = sorted(self.manager.all_steps(), reverse=True)
        damaged: dict[int, str] = {}
        for step in steps:
            try:
                state, config = self._read(step, like)
            except _UNREADABLE as error:
                damaged[step] = _in_short(error)
            else:
                return Restored(state, step, damaged, config)
        if not steps:
            raise ValueError(f"there is no checkpoint in {self.manager.directory}")
        raise ValueError(
            f"the checkpoint of iteration {steps[0]} in {self.manager.directory} cannot be read: "
            f"{damaged[steps[0]]}" + (", nor can those before it" if len(steps) > 1 else "")
        )

    def steps(self) -> list[int]:
        """Returns the iterations of all checkpoints, in order."""
        return sorted(self.manager.all_steps())

    def read(self, step: int | None = None) -> tuple[int, Any]:
        """Reads a checkpoint as it is: its iterations and its state, as `load` returns them."""
        found = self.load(step)
        return found.step, found.state

    def load(self, step: int | None = None) -> Restored:
        """Reads a checkpoint as it is.

        Args:
          step: its iterations; the newest checkpoint's if `None`.

        Returns:
          Its state in dictionaries of NumPy arrays, so that nothing of it takes memory of a device.

        Raises:
          ValueError: when there is no such checkpoint, or it cannot be read, in one line.
        """
        step = self.latest() if step is None else step
        if step is None or step not in self.manager.all_steps():
            which = "no checkpoint" if step is None else f"no checkpoint of iteration {step}"
            raise ValueError(f"there is {which} in {self.manager.directory}")
        try:
            content = self.manager.restore(step, args=ocp.args.StandardRestore())
            # Dictionaries hold the arrays in another order than the state that was saved.
            config = _check(content, in_order=False)
        except _UNREADABLE as error:
            where = f"the checkpoint of iteration {step} in {self.manager.directory}"
            raise ValueError(f"{where} cannot be read: {_in_short(error)}") from error
        return Restored(jax.tree.map(np.asarray, content["state"]), step, {}, config)

    def _read(self, step: int, like: Any) -> tuple[Any, dict[str, Any] | None]:
        # Earlier versions saved no configuration. orbax checks the structure, not the shapes.
        metadata = self.manager.item_metadata(step) or {}
        config = {} if CONFIG in metadata else None
        saved = with_saved_names(like, metadata.get("state", {}))
        shapes = make_content(jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), saved), config)
        content = self.manager.restore(step, args=ocp.args.StandardRestore(shapes))
        leaves = [np.asarray(x) for x in jax.tree.leaves(content["state"])]
        state = jax.tree.unflatten(jax.tree.structure(like), leaves)
        for saved, wanted in zip(jax.tree.leaves(state), jax.tree.leaves(like), strict=True):
            if saved.shape != wanted.shape:
                raise ValueError(f"it has an array of {saved.shape}, not {wanted.shape}")
        return state, _check(content)

    def set_aside(self, step: int) -> Path:
        """Moves a damaged checkpoint out of the folder; returns where it is then."""
        folder = Path(self.manager.directory)
        aside = folder.parent / f"damaged-{step}"
        for number in range(2, 1000):
            if not aside.exists():
                break
            aside = folder.parent / f"damaged-{step}-{number}"
        (folder / str(step)).rename(aside)
        self.manager.reload()
        return aside


def _check(content: dict[str, Any], *, in_order: bool = True) -> dict[str, Any] | None:
    """Checks what was read; returns the configuration."""
    if not is_intact(content, in_order=in_order):
        raise ValueError("its checksums are wrong, so the file is damaged")
    return read_config(content)


def _in_short(error: Exception) -> str:
    """Returns the first line of an error, without tensorstore's description of all it opened.

    Of a long one the middle is left out: it is of paths, and the cause is at the end.
    """
    line = (
        (str(error).strip() or type(error).__name__).split("\n")[0].split(" [tensorstore_spec")[0]
    )
    half = _LONGEST_REASON // 2
    return line if len(line) <= _LONGEST_REASON else f"{line[:half]} … {line[-half:]}"


_LONGEST_REASON = 200


def _fetch(state: Any) -> Any:
    return jax.tree.map(np.asarray, state)


def open_checkpoints(folder: Path) -> Checkpoints:
    """Opens a folder of checkpoints, made if need be; a run may be writing there meanwhile.

    Args:
      folder: where they are.

    Returns:
      The checkpoints.

    Raises:
      ValueError: when the folder cannot be read, in one line.
    """
    return Checkpoints(_manage(folder), _fetch)


def open_writable_checkpoints(
    folder: Path,
    *,
    keep: int = 2,
    fetch: Callable[[Any], Any] = _fetch,
    config: dict[str, Any] | None = None,
) -> Checkpoints:
    """Opens a folder of checkpoints, made if need be, for the one run that writes there.

    What a kill has left of a checkpoint that was being written is removed.

    Args:
      folder: where they are.
      keep: how many to keep, the newest ones; at least 1.
      fetch: turns a state into NumPy arrays; `cluster.gather` where other processes have parts.
      config: the configuration of the run, in JSON's types, which each checkpoint is saved with.

    Returns:
      The checkpoints.

    Raises:
      ValueError: when the folder cannot be read, in one line.
    """
    manager = _manage(folder, max_to_keep=keep, cleanup_tmp_directories=True)
    return Checkpoints(manager, fetch, config)


def _manage(folder: Path, **options: Any) -> ocp.CheckpointManager:
    folder.mkdir(parents=True, exist_ok=True)
    this = jax.process_index()
    # Only this process has the folder open; orbax would wait for the others.
    alone = ocp.options.MultiprocessingOptions(primary_host=this, active_processes={this})
    wanted = ocp.CheckpointManagerOptions(create=False, multiprocessing_options=alone, **options)
    # So that it knows what a checkpoint holds before it restores it.
    handler = ocp.StandardCheckpointHandler(multiprocessing_options=alone)
    try:
        return ocp.CheckpointManager(folder.resolve(), options=wanted, item_handlers=handler)
    except (ValueError, TypeError, AssertionError, AttributeError, LookupError) as error:
        raise ValueError(
            f"the checkpoints in {folder} cannot be read, as one of them is damaged: "
            f"{_in_short(error)}"
        ) from error


@contextlib.contextmanager
def silence_orbax() -> Iterator[None]:
    """Leaves it to the caller to say what fails: orbax logs all it does, tensorstore each array."""
    logger, hook = logging.getLogger("absl"), sys.unraisablehook
    level = logger.level

    def pass_on(raised: Any) -> None:
        # Of each array that was on its way when another one could not be written.
        if str(raised.exc_value) != "Event loop is closed":
            hook(raised)

    logger.setLevel(logging.CRITICAL)
    sys.unraisablehook = pass_on
    try:
        yield
    finally:
        sys.unraisablehook = hook
        logger.setLevel(level)
