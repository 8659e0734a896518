"""Files of arrays: whatever is done to their bytes, they are read as they were, or refused."""

import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from damages import damaged_copies, flip
from dualmctx.errors import UserError
from dualmctx.runs.array_file import ArrayFile, read_arrays, read_shapes, write_arrays
from dualmctx.runs.saved_network import load_trained

PACKAGED = Path(load_trained.__code__.co_filename).parents[1] / "trained_networks"
ARRAYS = {"a/b": np.arange(6, dtype=np.float32).reshape(2, 3), "c": np.array(True)}
RECORD = {"name": "x", "numbers": [1, 2.5, None], "parts": {"1": True}}


def content_of(file: ArrayFile) -> tuple[Any, ...]:
    arrays = {name: (x.dtype, x.shape, x.tobytes()) for name, x in file.arrays.items()}
    return file.record, arrays


def read_or_refuse(path: Path, data: bytes) -> tuple[Any, ...] | None:
    """Returns the content; `None` if it is refused by one line that names the file."""
    path.write_bytes(data)
    try:
        return content_of(read_arrays(path, "a network"))
    except UserError as error:
        message = str(error)
    assert message.startswith(f"{path} is damaged, or not a network: ")
    assert "\n" not in message
    return None


@pytest.mark.parametrize(
    "array",
    [
        np.array(3, np.int8),
        np.zeros((0, 4), np.uint64),
        np.arange(12, dtype=np.int32).reshape(3, 4).T,
        np.arange(4, dtype=">f8"),
        np.array([True, False]),
        np.array([np.nan, -0.0, np.inf], np.float32),
    ],
)
def test_arrays_and_record_are_read_as_they_were_written(tmp_path: Path, array: np.ndarray) -> None:
    files = [tmp_path / name for name in ("one", "two")]
    for file in files:
        write_arrays(file, {"x": array, **ARRAYS}, RECORD)
    assert files[0].read_bytes() == files[1].read_bytes()
    found = read_arrays(files[0], "a network")
    assert found.record == RECORD
    np.testing.assert_array_equal(found.arrays["x"], array)
    assert found.arrays["x"].dtype == array.dtype.newbyteorder("=")
    assert read_shapes(files[0], "a network") == {"x": array.shape, "a/b": (2, 3), "c": ()}


def test_a_damaged_network_is_read_as_it_was_or_refused(tmp_path: Path) -> None:
    whole = (PACKAGED / "nim.safetensors").read_bytes()
    path = tmp_path / "net.safetensors"
    expected, num_refused = read_or_refuse(path, whole), 0
    assert expected is not None
    for damaged in damaged_copies(whole, 30):
        found = read_or_refuse(path, damaged)
        assert found in (None, expected)
        assert found is None or damaged != expected
        num_refused += found is None
    assert num_refused > 150


def test_every_flipped_bit_of_a_small_file_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    write_arrays(path, ARRAYS, RECORD)
    whole = path.read_bytes()
    expected = read_or_refuse(path, whole)
    found = [read_or_refuse(path, flip(whole, i // 8, 1 << i % 8)) for i in range(8 * len(whole))]
    # White space may differ, and the case of hexadecimal digits of escapes.
    assert sum(x is not None for x in found) < 40
    assert all(x in (None, expected) for x in found)
    assert not any(read_or_refuse(path, whole[:size]) for size in range(len(whole)))


def raw(header: Any, data: bytes = b"") -> bytes:
    """Returns a file with any header; one of text is taken as it is."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def array(dtype: str, shape: list[int], end: int, start: int = 0) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


F32 = array("F32", [2], 8)
META = b'"__metadata__":{"record":"{}"}'
HOSTILE = {
    "nothing": b"",
    "zip": b"PK\x03\x04" + bytes(200),
    "a huge header": (2**62).to_bytes(8, "little") + b"{}",
    "a header without an end": (10**6).to_bytes(8, "little") + b"{}",
    "a list": raw([]),
    "deep nesting": raw(b'{"a":' + b"[" * 100_000),
    "not UTF-8": raw(b'{"\xff":1}'),
    "no record": raw({"a": F32}, bytes(8)),
    "a record that is a list": raw({"__metadata__": {"record": "[]"}}),
    "a record that is deep": raw({"__metadata__": {"record": "[" * 100_000}}),
    "a record with a long number": raw({"__metadata__": {"record": '{"a": ' + "9" * 5000 + "}"}}),
    "a record without a checksum": raw({"__metadata__": {"record": "{}"}}),
    "a long record": raw({"__metadata__": {"record": json.dumps({"a": "x" * 2**20})}}),
    "two records": raw(b"{" + META + b"," + META + b"}"),
    "other metadata": raw({"__metadata__": {"record": 3}}),
    "an array twice": raw(
        b'{"a":%b,"a":%b,%b}' % (*[json.dumps(F32).encode()] * 2, META), bytes(8)
    ),
    "arrays that overlap": raw({"a": F32, "b": F32}, bytes(8)),
    "a hole": raw({"a": array("F32", [1], 8, 4)}, bytes(8)),
    "bytes at the end": raw({"a": F32}, bytes(9)),
    "a negative size": raw({"a": array("F32", [-2], 8)}, bytes(8)),
    "a size that overflows": raw({"a": array("F32", [2**33, 2**33], 8)}, bytes(8)),
    "more than is stored": raw({"a": array("F32", [2**40], 2**42)}, bytes(8)),
    "a huge size of nothing": raw({"a": array("F32", [0, 2**63], 0)}),
    "many axes": raw({"a": array("F32", [1] * 100, 4)}, bytes(4)),
    "an unknown type": raw({"a": array("F31", [2], 8)}, bytes(8)),
    "a type that NumPy lacks": raw({"a": array("BF16", [4], 8)}, bytes(8)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_in_little_memory(name: str, tmp_path: Path) -> None:
    tracemalloc.start()
    try:
        assert read_or_refuse(tmp_path / "x.safetensors", HOSTILE[name]) is None
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**25


def test_a_checksum_is_of_names_types_shapes_numbers_and_the_record(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    write_arrays(path, ARRAYS, RECORD)
    header = json.loads(path.read_bytes()[8:].partition(b"}}")[0] + b"}}")
    text = header["__metadata__"]["record"]
    changes: list[tuple[dict[str, np.ndarray], str]] = [
        (ARRAYS | {"a/b": ARRAYS["a/b"] + 1}, text),
        (ARRAYS | {"a/b": ARRAYS["a/b"].reshape(3, 2)}, text),
        (ARRAYS | {"a/b": ARRAYS["a/b"].view(np.int32)}, text),
        ({"a/b": ARRAYS["a/b"]}, text),
        ({"a/d": ARRAYS["a/b"], "c": ARRAYS["c"]}, text),
        (ARRAYS, text.replace("2.5", "2.25")),
    ]
    for arrays, record in changes:
        assert read_or_refuse(path, save(arrays, {"record": record})) is None
    assert read_or_refuse(path, save(ARRAYS, {"record": text})) is not None


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"a": {"b": [1.0, np.inf]}}, r"the record\.a\.b is inf; it must be finite"),
        ({"a": "x" * 2**20}, "bytes; it must be at most 1 MiB"),
    ],
)
def test_a_record_that_could_not_be_read_is_not_written(
    tmp_path: Path, record: Any, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        write_arrays(tmp_path / "x", ARRAYS, record)
    assert not list(tmp_path.iterdir())


def test_a_file_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"x\.safetensors does not exist$"):
        read_arrays(tmp_path / "x.safetensors", "a network")
    with pytest.raises(UserError, match="is damaged, or not a network"):
        read_arrays(tmp_path, "a network")
