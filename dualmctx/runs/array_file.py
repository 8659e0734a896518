"""Named arrays, and files of them with a JSON record, in the format safetensors, with a checksum.

The reader of safetensors is made for hostile files. It executes nothing, checks all names, shapes
and offsets before it reads a number, and takes no more memory than the file is large. The format
has no checksum, so the record has one of its own content and of all arrays.
"""

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from dualmctx.checks import check_finite
from dualmctx.errors import UserError, reason_of
from dualmctx.runs.atomic_io import atomic_path

SUFFIX = ".safetensors"
"""The suffix of these files."""
# The only entry of the metadata, because their order in a file is random.
_RECORD = "record"
_CHECKSUM = "sha256"
_MAX_RECORD_BYTES = 2**20
# The dtypes of the format that NumPy has.
_DTYPES = {
    **{f"F{bits}": f"float{bits}" for bits in (16, 32, 64)},
    **{f"I{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"U{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    "BOOL": "bool",
}
# The exceptions of the reader and NumPy for a file that they cannot read. ValueError includes the
# UserErrors below, which get the path of the file here.
_UNREADABLE = (SafetensorError, ValueError, OSError, RecursionError, MemoryError)


def by_name(tree: Any) -> dict[str, Any]:
    """Names the arrays of a pytree by their paths, as `params/stem/kernel`."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="/"): x for path, x in leaves}


def fit_arrays(like: Any, arrays: Mapping[str, Any]) -> Any:
    """Returns named arrays in the structure of a pytree.

    Args:
      like: a pytree of arrays or shapes.
      arrays: arrays by name, see `by_name`.

    Raises:
      UserError: if an array is missing, unknown or of another shape or type.
    """
    wanted = by_name(like)
    for name in sorted(wanted.keys() ^ arrays.keys()):
        raise UserError(f"{name} is {'missing' if name in wanted else 'unknown'}")
    for name, shape in wanted.items():
        expected, actual = (f"{x.dtype} {list(x.shape)}" for x in (shape, arrays[name]))
        if expected != actual:
            raise UserError(f"{name} is {actual}, not {expected}")
    return jax.tree.unflatten(jax.tree.structure(like), [arrays[name] for name in wanted])


class ArrayFile(NamedTuple):
    """The content of a file.

    Attributes:
      record: JSON values.
      arrays: the arrays, by name.
    """

    record: dict[str, Any]
    arrays: dict[str, np.ndarray]


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray], record: dict[str, Any]) -> None:
    """Writes a file atomically; equal content gives equal bytes.

    Args:
      path: the file. An existing one is replaced.
      arrays: arrays of numbers or booleans.
      record: JSON values, at most 1 MiB.

    Raises:
      UserError: if the record has a number that is not finite, or is too large.
      TypeError: if the record is not of JSON values.
    """
    # Keys become text, as in the file.
    record = json.loads(json.dumps(record))
    check_finite(record, "the record")
    # The library takes the memory of an array as it is.
    dense = {name: np.require(x, x.dtype.newbyteorder("<"), "C") for name, x in arrays.items()}
    text = json.dumps(record | {_CHECKSUM: _checksum(dense, record)})
    if len(text) > _MAX_RECORD_BYTES:
        raise UserError(f"the record of {path} has {len(text):,} bytes; it must be at most 1 MiB")
    with atomic_path(path) as draft:
        draft.write_bytes(save(dense, {_RECORD: text}))


def read_arrays(path: Path, kind: str) -> ArrayFile:
    """Reads a file, which may be damaged or hostile.

    Args:
      path: the file.
      kind: the kind of file that is expected, for messages, such as "an exported network".

    Raises:
      UserError: if it cannot be read, or its checksum is not that of its content.
    """
    with _opened(path, kind) as file:
        for name in sorted(file.keys()):
            dtype = file.get_slice(name).get_dtype()
            if dtype not in _DTYPES:
                raise UserError(f"{name} has the type {dtype}, which is not read")
        record = _read_record(file)
        arrays = {name: file.get_tensor(name) for name in sorted(file.keys())}
        if record.pop(_CHECKSUM, None) != _checksum(arrays, record):
            raise UserError("its content does not have its checksum")
        check_finite(record, "its record")
    return ArrayFile(record, arrays)


def read_shapes(path: Path, kind: str) -> dict[str, tuple[int, ...]]:
    """Reads the shapes of the arrays of a file, by name; their numbers are not read.

    Raises:
      UserError: if the header cannot be read, or the file is not as long as its header says.
    """
    with _opened(path, kind) as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in sorted(file.keys())}


@contextlib.contextmanager
def _opened(path: Path, kind: str) -> Iterator[Any]:
    try:
        with safe_open(path, "numpy") as file:
            yield file
    except FileNotFoundError:
        raise UserError(f"{path} does not exist") from None
    except _UNREADABLE as error:
        raise UserError(f"{path} is damaged, or not {kind}: {reason_of(error)}") from error


def _read_record(file: Any) -> dict[str, Any]:
    text = (file.metadata() or {}).get(_RECORD)
    if text is None:
        raise UserError("it has no record")
    if len(text) > _MAX_RECORD_BYTES:
        raise UserError(f"its record has {len(text):,} bytes; at most 1 MiB is read")
    record = json.loads(text)
    if not isinstance(record, dict):
        raise UserError(f"its record is of type {type(record).__name__}, not a JSON object")
    return record


def _checksum(arrays: Mapping[str, np.ndarray], record: dict[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(record, sort_keys=True).encode())
    for name in sorted(arrays):
        x = arrays[name]
        digest.update(f"\n{name!r} {x.dtype.name} {x.shape}\n".encode())
        digest.update(x.tobytes())
    return digest.hexdigest()
