"""Batches of a data set by the number of the optimiser step, loaded ahead of their use."""

import collections
import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar, cast

from dualmctx.datasets import DatasetBatch

T = TypeVar("T")
# Batches that are loaded ahead, so that a new epoch does not stall the optimiser.
_AHEAD = 32

LoadEpoch = Callable[[int], Iterator[DatasetBatch]]
"""Loads the batches of an epoch, given its number."""


class BatchFeed:
    """The batches of successive epochs, numbered from 0.

    Batch n is the same in every process, so a run can continue with any batch. Successive calls of
    `take` continue the same iterator; a call with another start begins a new one.
    """

    def __init__(self, load_epoch: LoadEpoch, batches_per_epoch: int, total: int) -> None:
        """Prepares to load batches; nothing is loaded yet.

        Args:
          load_epoch: loads an epoch, which must have `batches_per_epoch` batches.
          batches_per_epoch: at least 1.
          total: number of batches of the whole run; later ones are not loaded ahead.
        """
        self._load_epoch = load_epoch
        self._batches_per_epoch = batches_per_epoch
        self._total = total
        self._next = -1
        self._batches: Iterator[DatasetBatch] = iter(())

    def take(self, start: int, number: int) -> Iterator[DatasetBatch]:
        """Yields the batches from `start` to `start + number` - 1."""
        if start != self._next:
            numbered = itertools.islice(self._from(start), max(0, self._total - start))
            self._batches = load_ahead(numbered, _AHEAD)
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
    pending = collections.deque(thread.submit(next, items, end) for _ in range(size))
    while (item := pending.popleft().result()) is not end:
        pending.append(thread.submit(next, items, end))
        yield cast(T, item)
