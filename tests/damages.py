"""Damages of files: tables of functions that change a folder, damaged copies, and a full disk."""

import contextlib
import json
import resource
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

Damage = Callable[[Path], None]
"""Changes a file or a folder."""


def replaced(content: bytes) -> Damage:
    """Returns a damage that replaces a file or a folder by a file."""

    def damage(path: Path) -> None:
        removed(path)
        path.write_bytes(content)

    return damage


def removed(path: Path) -> None:
    """Removes a file or a folder, if it is there."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def emptied(path: Path) -> None:
    """Replaces a file or a folder by an empty folder."""
    removed(path)
    path.mkdir()


def zeroed(path: Path) -> None:
    """Replaces the bytes of a file by zeros, as after a power cut."""
    path.write_bytes(bytes(path.stat().st_size if path.exists() else 100))


def halved(path: Path) -> None:
    """Keeps the first half of a file."""
    content = path.read_bytes() if path.exists() else b""
    path.write_bytes(content[: len(content) // 2])


def flipped(path: Path) -> None:
    """Changes a bit in the middle of a file."""
    content = bytearray(path.read_bytes() if path.exists() else b"x")
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


FILE: dict[str, Damage] = {
    "removed": removed,
    "a folder": emptied,
    "zeroed": zeroed,
    "halved": halved,
    "flipped": flipped,
    **{
        repr(content)[1:]: replaced(content)
        for content in (b"", b"5", b"[]", b"{}\n", b"null", b"\xff\xfe\x00")
    },
    "nested": replaced(b"[" * 100_000),
}
"""Damages of any file."""


def edited(**entries: Any) -> Damage:
    """Returns a damage that sets entries of a JSON object; `...` removes an entry."""

    def damage(path: Path) -> None:
        content = {**json.loads(path.read_text()), **entries}
        path.write_text(json.dumps({x: y for x, y in content.items() if y is not ...}))

    return damage


def line_changed(number: int, *lines: bytes) -> Damage:
    """Returns a damage that replaces a line, counted from 1, by others."""

    def damage(path: Path) -> None:
        content = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join([*content[: number - 1], *lines, *content[number:]]))

    return damage


def newest_checkpoint(path: Path) -> Path:
    """Returns the folder of the newest checkpoint in the folder of a run."""
    return max((path / "checkpoints").glob("[0-9]*"), key=lambda x: int(x.name))


def in_checkpoint(name: str, damage: Damage) -> Damage:
    """Returns a damage of a file in the newest checkpoint of a run."""
    return lambda run: damage(newest_checkpoint(run) / name)


def half_written(run: Path) -> None:
    """Leaves the newest checkpoint of a run as a kill does while it is written."""
    newest = newest_checkpoint(run)
    draft = newest.rename(newest.with_name(f"{newest.name}.orbax-checkpoint-tmp-1"))
    in_all(halved)(draft)


def in_all(damage: Damage) -> Damage:
    """Returns a damage of every file in a folder."""

    def damage_all(path: Path) -> None:
        for file in [x for x in path.rglob("*") if x.is_file()]:
            damage(file)

    return damage_all


def with_entry(name: str) -> Damage:
    """Returns a damage that adds an empty folder."""
    return lambda path: (path / name).mkdir()


def _of(name: str, damage: Damage) -> Damage:
    return lambda run: damage(run / name)


_SETTINGS: tuple[dict[str, Any], ...] = (
    *({"game": "no_game"}, {"game": ...}, {"game_parameters": {"x": 1}}, {"search": 3}),
    *({"network": None}, {"architecture": 7}, {"preset": ...}, {"preset": "x"}, {"seed": "x"}),
    *({"seed": float("nan")}, {"keep": -1}, {"checkpoint_every": 1e999}, {"edited": [1]}),
    *({"format_version": 9}, {"unknown": 1}),
)

DAMAGES: dict[str, Damage] = {
    **{f"config.json {kind}": _of("config.json", damage) for kind, damage in FILE.items()},
    **{
        f"{name} {kind}": _of(name, FILE[kind])
        for name in ("metrics.jsonl", "summary.json")
        for kind in ("a folder", "zeroed", "''")
    },
    **{f"config.json {x}": _of("config.json", edited(**x)) for x in _SETTINGS},
    "metrics.jsonl without a checksum": _of("metrics.jsonl", line_changed(2, b'{"iteration":2}\n')),
    "tensorboard removed": _of("tensorboard", removed),
    "tensorboard zeroed": _of("tensorboard", in_all(zeroed)),
    **{f"checkpoints {x}": _of("checkpoints", FILE[x]) for x in ("removed", "''", "a folder")},
    **{f"checkpoints {x.__name__}": _of("checkpoints", in_all(x)) for x in (halved, zeroed)},
    **{
        f"checkpoints with {x}": _of("checkpoints", with_entry(x))
        for x in ("007", "1²", "3.orbax-checkpoint-tmp")
    },
    **{
        f"newest checkpoint {part} {kind}": in_checkpoint(part, FILE[kind])
        for kind, part in (
            *(("removed", ""), ("a folder", ""), ("''", "_CHECKPOINT_METADATA")),
            *(("removed", "default"), ("removed", "default/_METADATA")),
            *(("''", "default/_METADATA"), ("removed", "default/manifest.ocdbt")),
        )
    },
    "newest checkpoint flipped": lambda run: in_all(flipped)(newest_checkpoint(run)),
}
"""Damages of the folder of a run, by name."""


def flip(data: bytes, place: int, mask: int) -> bytes:
    return data[:place] + bytes([data[place] ^ mask]) + data[place + 1 :]


def overwrite(data: bytes, place: int, block: bytes) -> bytes:
    return (data[:place] + block + data[place + len(block) :])[: len(data)]


def damaged_copies(data: bytes, number: int) -> Iterator[bytes]:
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


@contextlib.contextmanager
def no_files_above(num_bytes: int) -> Iterator[None]:
    """Limits the size of files, so that writing fails as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
