"""Damages of files, the same ones in each run."""

from collections.abc import Iterator

import numpy as np


def flip(data: bytes, place: int, mask: int) -> bytes:
    return data[:place] + bytes([data[place] ^ mask]) + data[place + 1 :]


def overwrite(data: bytes, place: int, block: bytes) -> bytes:
    return (data[:place] + block + data[place + len(block) :])[: len(data)]


def damages(data: bytes, number: int) -> Iterator[bytes]:
    """Yields damaged copies of a file, the same ones each time; half of them near its start."""
    rng = np.random.default_rng(0)
    header = 8 + int.from_bytes(data[:8], "little")
    for index in range(number):
        place, other = (int(x) for x in rng.integers((header, len(data))[index % 2], size=2))
        size = int(2 ** rng.uniform(0, 12))
        yield flip(data, place, 1 << int(rng.integers(8)))
        yield overwrite(data, place, bytes(size))
        yield overwrite(data, place, rng.bytes(size))
        yield overwrite(data, place, data[other : other + size])
        yield data[:place]
        yield data[:place] + data[place + size :]
        yield data[:place] + rng.bytes(size) + data[place:]
