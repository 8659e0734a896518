"""Batches by number: epochs, continuing anywhere, errors."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from dualmctx.pipeline.supervised.batch_feed import BatchFeed, load_ahead


def load_epoch(epoch: int) -> Iterator[Any]:
    """An epoch of five batches, which are named by their epoch and number."""
    return iter([(epoch, number) for number in range(5)])


def test_batches_run_through_the_epochs() -> None:
    feed = BatchFeed(load_epoch, 5, total=12)
    found = [x for start in (0, 4, 8) for x in feed.take(start, 4)]
    assert found == [(n // 5, n % 5) for n in range(12)]


@pytest.mark.parametrize("start", range(11))
def test_a_new_feed_continues_with_any_batch(start: int) -> None:
    found = list(BatchFeed(load_epoch, 5, total=12).take(start, 2))
    assert found == [(n // 5, n % 5) for n in (start, start + 1)]


def test_a_feed_may_go_back() -> None:
    feed = BatchFeed(load_epoch, 5, total=12)
    first = list(feed.take(0, 7))
    assert list(feed.take(7, 3)) == [(1, 2), (1, 3), (1, 4)]
    assert list(feed.take(0, 7)) == first


def test_only_batches_of_the_run_are_loaded() -> None:
    loaded = []

    def load(epoch: int) -> Iterator[Any]:
        loaded.append(epoch)
        return load_epoch(epoch)

    assert len(list(BatchFeed(load, 5, total=10).take(5, 5))) == 5
    assert loaded == [1]


def test_items_are_loaded_ahead_of_their_use_in_another_thread() -> None:
    names, is_ahead = set(), threading.Event()

    def items() -> Iterator[int]:
        for number in range(20):
            names.add(threading.current_thread().name)
            if number == 6:
                is_ahead.set()
            yield number

    found = load_ahead(items(), 6)
    assert next(found) == 0
    # Six further items are loaded, although none of them has been asked for.
    assert is_ahead.wait(timeout=30)
    assert list(found) == list(range(1, 20))
    assert threading.current_thread().name not in names


def test_errors_are_raised_in_their_place() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("a shard is damaged")

    found = load_ahead(items(), 4)
    assert next(found) == 1
    with pytest.raises(ValueError, match="damaged"):
        next(found)
