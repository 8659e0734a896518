"""Items that arrive over time form batches, and are read ahead in bounded memory."""

import queue
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from dualmctx.evaluation.batches import Inbox, full_batches, waiting_batches


def test_full_batches_have_the_given_size() -> None:
    assert list(full_batches(range(7), 3)) == [[0, 1, 2], [3, 4, 5], [6]]
    assert list(full_batches([], 3)) == []


def test_waiting_items_form_a_batch() -> None:
    """A batch ends when no further item waits; an empty batch precedes each wait."""
    sent: queue.Queue[Any] = queue.Queue()
    batches = waiting_batches(iter(sent.get, None), 3)
    assert next(batches) == []
    for item in "abcde":
        sent.put(item)
    found: list[list[str]] = []
    while sum(map(len, found)) < 5:
        found.append(next(batches))
    assert [x for batch in found for x in batch] == list("abcde")
    assert max(map(len, found)) <= 3
    assert next(batches) == []
    sent.put("f")
    assert next(x for x in batches if x) == ["f"]
    sent.put(None)
    assert [x for x in batches if x] == []


def test_stream_is_read_at_most_two_batches_ahead() -> None:
    read: list[int] = []

    def items() -> Iterator[int]:
        for i in range(100):
            read.append(i)
            yield i

    batches = waiting_batches(items(), 4)
    first = next(x for x in batches if x)
    # Two batches wait in the queue, one has been yielded, and one item is being queued.
    assert len(read) <= 8 + 4 + 1
    assert [*first, *(x for batch in batches for x in batch)] == list(range(100))


def test_an_inbox_reads_ahead_as_far_as_there_is_room() -> None:
    """Any single item fits."""
    for limits, sizes, most in (((3, 99), [1] * 10, 3), ((99, 100), [60] * 6, 1), ((9, 5), [9], 1)):
        read: list[int] = []
        items = (read.append(size) or size for size in sizes)
        inbox, taken = Inbox[int](*limits), list[int]()
        inbox.read(items, lambda size: size)
        for released in range(len(sizes)):
            taken += inbox.take(wait=True)
            # The reader may have put an item since.
            taken += inbox.take(wait=False)
            assert len(read) <= released + most + 1
            inbox.release(1, sizes[0])
        assert taken == sizes
        assert inbox.take(wait=True) == []


def test_an_inbox_raises_the_error_of_the_reader_after_the_items() -> None:
    done = threading.Event()

    def items() -> Iterator[int]:
        yield 1
        done.wait()
        raise OSError("gone")

    inbox = Inbox[int]()
    inbox.read(items())
    assert inbox.take(wait=True) == [1]
    done.set()
    with pytest.raises(OSError, match="gone"):
        inbox.take(wait=True)
