"""The batches of a data set for training, which are numbered and loaded ahead of their use."""

import collections
import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar, cast

import games
from dualmctx.checks import check
from dualmctx.datasets.loading import DatasetBatch, load_dataset
from dualmctx.datasets.manifest import read_manifest
from dualmctx.types import Environment

T = TypeVar("T")
# Small batches that are loaded ahead, so that a new epoch does not stall the optimiser.
_AHEAD = 32


class BatchFeed:
    """The batches of successive epochs, numbered from 0.

    Batch n is the same in every process, so a run can continue with any batch. Successive calls of
    `take` continue the same iterator; a call with another start begins a new one.
    """

    def __init__(
        self,
        load_epoch: Callable[[int], Iterator[DatasetBatch]],
        batches_per_epoch: int,
        total: int,
        ahead: int = _AHEAD,
    ) -> None:
        """Prepares to load batches; nothing is loaded yet.

        Args:
          load_epoch: loads an epoch, which must have `batches_per_epoch` batches.
          batches_per_epoch: at least 1.
          total: number of batches of the whole run; later ones are not loaded ahead.
          ahead: number of batches that are loaded ahead.
        """
        self._ahead = ahead
        self._load_epoch = load_epoch
        self._batches_per_epoch = batches_per_epoch
        self._total = total
        self._next = -1
        self._batches: Iterator[DatasetBatch] = iter(())

    def take(self, start: int, number: int) -> Iterator[DatasetBatch]:
        """Yields the batches from `start` to `start + number` - 1."""
        if start != self._next:
            numbered = itertools.islice(self._from(start), max(0, self._total - start))
            self._batches = load_ahead(numbered, self._ahead)
        self._next = -1
        yield from itertools.islice(self._batches, number)
        self._next = start + number

    def _from(self, start: int) -> Iterator[DatasetBatch]:
        first, skipped = divmod(start, self._batches_per_epoch)
        for epoch in itertools.count(first):
            yield from itertools.islice(self._load_epoch(epoch), skipped, None)
            skipped = 0


def load_ahead(items: Iterator[T], size: int) -> Iterator[T]:
    """Yields the items of an iterator, which runs in a thread of its own.

    Args:
      items: the iterator; its errors are raised here, in their place.
      size: largest number of items that are held.
    """
    end = object()
    # The thread ends with this iterator, or after the pending items at the end of the process.
    thread = ThreadPoolExecutor(1, "load_ahead")
    try:
        pending = collections.deque(thread.submit(next, items, end) for _ in range(size))
        while (item := pending.popleft().result()) is not end:
            pending.append(thread.submit(next, items, end))
            yield cast(T, item)
    finally:
        thread.shutdown(wait=False, cancel_futures=True)


def make_feed(
    env: Environment,
    folder: Path,
    *,
    batch_size: int,
    total: int,
    seed: int,
    name: str,
    augment: bool = False,
    only_first: bool = False,
    ahead: int = _AHEAD,
) -> BatchFeed:
    """Returns the training batches of all epochs; each epoch drops its last, incomplete batch.

    Args:
      env: the game.
      folder: the folder of the data set.
      batch_size: positions per batch.
      total: number of batches of the whole run.
      seed: seed of the orders and of the symmetries.
      name: the option that sets the size of a batch, for messages.
      augment: whether to apply a random symmetry to each position.
      only_first: whether to learn only the first position of each game.
      ahead: number of batches that are loaded ahead.

    Raises:
      UserError: if the data set cannot be read or is smaller than a batch, or if `augment` is true
        and the game has no symmetries.
    """
    train = read_manifest(folder).splits["train"]
    rows = train["games" if only_first else "rows"]
    remedy = f"at most {rows}, the positions for training in {folder}; or make more games"
    check(batch_size <= rows, name, batch_size, remedy)

    def load(epoch: int) -> Iterator[DatasetBatch]:
        return load_dataset(
            folder,
            "train",
            env,
            batch_size=batch_size,
            seed=seed,
            epoch=epoch,
            augment=augment,
            one_per_game="first" if only_first else False,
            drop_last=True,
        )

    # Raises its errors at once, before a file is written.
    load(0)
    return BatchFeed(load, rows // batch_size, total, ahead)


def uses_symmetries(env: Environment, name: str, augment: bool | None) -> bool:
    """Returns whether positions get a random symmetry, given the option `name`.

    Raises:
      UserError: if the option is true and the game has no symmetries.
    """
    has_symmetries = len(games.symmetries(env).action) > 1
    remedy = f"left out, because {env.id} has no symmetries"
    check(has_symmetries or not augment, name, augment, remedy)
    return has_symmetries if augment is None else augment
