"""Checkpoints: the whole state of training, so that a run goes on where it stopped."""

from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import orbax.checkpoint as ocp


class Checkpoints(NamedTuple):
    """The checkpoints in a folder.

    Attributes:
      manager: orbax's manager of the folder; it writes a checkpoint under another name and renames
        it when complete, so that a folder never holds half of one.
    """

    manager: ocp.CheckpointManager

    def save(self, step: int, state: Any) -> None:
        """Saves a state after `step` iterations, in the background; a step is saved only once."""
        if step in self.manager.all_steps():
            return
        # Fetched first: training goes on in the same buffers while orbax still writes.
        self.manager.save(step, args=ocp.args.StandardSave(jax.tree.map(np.asarray, state)))

    def wait(self) -> None:
        """Waits until everything is written."""
        self.manager.wait_until_finished()

    def latest(self) -> int | None:
        """Returns the iterations of the newest checkpoint, `None` if there is none."""
        return self.manager.latest_step()

    def restore(self, like: Any) -> Any:
        """Restores the newest checkpoint.

        Args:
          like: a state, or its shapes and dtypes, of the structure that was saved.

        Returns:
          The state, on the default device.

        Raises:
          ValueError: when there is no checkpoint or it does not fit, in one line.
        """
        step = self.latest()
        if step is None:
            raise ValueError(f"there is no checkpoint in {self.manager.directory}")
        shapes = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), like)
        try:
            state = self.manager.restore(step, args=ocp.args.StandardRestore(shapes))
            # orbax checks the structure, not the shapes.
            for saved, wanted in zip(jax.tree.leaves(state), jax.tree.leaves(shapes), strict=True):
                if saved.shape != wanted.shape:
                    raise ValueError(f"it has an array of {saved.shape}, not {wanted.shape}")
        except (ValueError, KeyError, OSError) as error:
            first_line = str(error).strip().split("\n")[0]
            raise ValueError(
                f"the checkpoint of iteration {step} in {self.manager.directory} does not fit: "
                f"{first_line}"
            ) from error
        return jax.tree.map(jax.numpy.asarray, state)


def open_checkpoints(folder: Path, *, keep: int = 2) -> Checkpoints:
    """Opens a folder of checkpoints, made if need be.

    Args:
      folder: where they are.
      keep: how many to keep, the newest ones; at least 1.

    Returns:
      The checkpoints.
    """
    options = ocp.CheckpointManagerOptions(max_to_keep=keep, create=True)
    return Checkpoints(ocp.CheckpointManager(folder.resolve(), options=options))
