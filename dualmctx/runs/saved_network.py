"""Trained networks, loaded from the folder of a run, from an exported file, or by a name."""

import contextlib
import hashlib
import json
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import games
from dualmctx.errors import UserError
from dualmctx.import_path import is_import_path
from dualmctx.runs.archive import Archive, Header, open_archive
from dualmctx.runs.atomic_io import atomic_path
from dualmctx.runs.checkpoint import open_checkpoints
from dualmctx.runs.folder import current_config, read_config
from dualmctx.runs.network_record import build_network, factory_of, with_architecture
from dualmctx.runs.recorded_config import check_config
from dualmctx.runs.versions import with_versions
from dualmctx.training.config import NetworkOptions
from dualmctx.training.divergence import check_parameters
from dualmctx.types import Environment, Params, PolicyValueNetwork

# The networks that come with the package.
_PACKAGED = Path(__file__).parents[1] / "trained_networks"
# The arrays of an exported file that are not parameters. Names of parameters contain a slash.
_RECORD, _ITERATION = "record", "iteration"
_MAX_RECORD_BYTES = 2**20


class Trained(NamedTuple):
    """A trained network with its game.

    Attributes:
      env: the game, as `games.make` returns it.
      network: the network.
      params: its parameters at a checkpoint.
      iteration: the training iteration of that checkpoint.
      record: the run's `config.json`.
    """

    env: Environment
    network: PolicyValueNetwork
    params: Params
    iteration: int
    record: dict[str, Any]


def load_trained(
    source: Path | str,
    iteration: int | None = None,
    *,
    game: str | None = None,
    network: str | Sequence[str] = (),
) -> Trained:
    """Loads a trained network, without the rest of its training state.

    Only numbers and JSON are read; nothing in a file is executed. A game or a network that its
    record names as `package.module:factory` is imported: from the record of a run's folder, and
    from that of an exported file only if `game` or `network` has the same path, because such a file
    may come from a stranger.

    Args:
      source: the folder of a run, a file that `export_trained` wrote, or the name of a network that
        comes with the package (see `trained_names`). An existing path takes precedence over a name.
      iteration: the iteration of the checkpoint; by default the newest one. A file has only one.
      game: the import path of the game of an exported file.
      network: the import path of the network of an exported file, or several that are allowed.

    Returns:
      The network with the parameters of that iteration.

    Raises:
      ValueError: if the run, file, name or checkpoint does not exist or cannot be read, if the
        parameters do not fit the network that the record describes, or if they are not finite (see
        `dualmctx.training.divergence.check_parameters`).
    """
    path = _find(source)
    if path.is_dir():
        record, saved = read_config(path), _open_run(path).load(iteration)
        check_config(path, saved.step, saved.config)
        saved_iteration, params = saved.step, _by_name(saved.state.get("params", {}))
    else:
        record, saved_iteration, params = _read_file(path)
        _require_named(path, record, game, (network,) if isinstance(network, str) else network)
        if iteration not in (None, saved_iteration):
            raise UserError(
                f"iteration is {iteration}; {path} holds that of iteration {saved_iteration}"
            )
    try:
        env = games.make(record["game"], **record["game_parameters"])
        built = build_network(record, env)
        observation = jax.ShapeDtypeStruct((1, *env.observation_shape), np.float32)
        shapes = jax.eval_shape(built.init, jax.random.PRNGKey(0), observation)
    except ValueError as error:
        raise UserError(f"{path} cannot be used: {error}") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path} has a record that cannot be read: {error!r}") from error
    params = _fit(path, shapes, params)
    return Trained(env, built, params, saved_iteration, record)


def load_record(
    source: Path | str, *, game: str | None = None, network: str | Sequence[str] = ()
) -> dict[str, Any]:
    """Loads the record of a trained network, without its parameters; see `load_trained`.

    Raises:
      ValueError: if the run, file or name does not exist, its record cannot be read, or it names a
        game or network outside the package that the caller does not name.
    """
    path = _find(source)
    if path.is_dir():
        return read_config(path)
    record, _, _ = _read_file(path)
    _require_named(path, record, game, (network,) if isinstance(network, str) else network)
    if "game" not in record:
        raise UserError(f"{path} has a record without a game; export the network again")
    return record


def _require_named(
    path: Path, record: dict[str, Any], game: str | None, networks: Sequence[str]
) -> None:
    """Checks that the user names the code that an exported file would import."""
    saved = record.get("game")
    if is_import_path(saved) and saved != game:
        raise UserError(
            f"{path} plays {saved}, a game outside dualmctx; to import that code, name it: --game "
            f"{saved} (in Python game={saved!r})"
        )
    saved = factory_of(record)
    if saved is not None and saved not in networks:
        raise UserError(
            f"{path} has the network {saved}, which is outside dualmctx; to import that code, name "
            f"it: --network {saved} (in Python network={saved!r})"
        )


def export_trained(trained: Trained, path: Path | str) -> None:
    """Writes a trained network to one file, atomically.

    The file is a NumPy `.npz`. It holds each parameter array under its path, such as
    `params/stem/kernel`; the record of the run as JSON bytes, including the versions of the format
    and of the package, and the type and all fields of the network; and the iteration.

    Args:
      trained: the network to write.
      path: the path of the file. An existing file is replaced; a missing folder is created.

    Raises:
      ValueError: if the name does not end in .npz, or a parameter is NaN or infinite.
    """
    path = Path(path)
    if path.suffix != ".npz":
        raise UserError(f"the file is {path}; its name must end in .npz")
    arrays = {name: np.asarray(x) for name, x in _by_name(trained.params).items()}
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise UserError(f"{name} has NaN or infinite numbers; export another checkpoint")
    path.parent.mkdir(parents=True, exist_ok=True)
    record = with_versions(with_architecture(trained.record, trained.network))
    arrays[_RECORD] = np.frombuffer(json.dumps(record).encode(), np.uint8)
    arrays[_ITERATION] = np.array(trained.iteration, np.int64)
    with atomic_path(path) as draft, draft.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def trained_names() -> list[str]:
    """Returns the names of the networks that come with the package."""
    return sorted(file.stem for file in _PACKAGED.glob("*.npz"))


def digest_of(params: Params) -> str:
    """Returns 16 hexadecimal digits that identify parameters."""
    digest = hashlib.sha256()
    for x in jax.tree.leaves(params):
        digest.update(np.ascontiguousarray(x).tobytes())
    return digest.hexdigest()[:16]


def model_kwargs_of(record: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of `make_model` that a run used, from its `config.json`."""
    names = ("dtype", "kept_activations", "compact_states", "factory")
    known = {name: record["network"][name] for name in names if name in record["network"]}
    return NetworkOptions(**known).model_kwargs()


def _find(source: Path | str) -> Path:
    """Returns the path of a folder or of a file."""
    path, name = Path(source), str(source).replace("_", "-")
    if path.exists():
        return path
    if name in trained_names():
        return _PACKAGED / f"{name}.npz"
    names = ", ".join(trained_names()) or "none yet"
    if name.replace("-", "_") in games.available():
        raise UserError(
            f"{source} is a game for which no network comes with dualmctx, only for {names}; train "
            f"one with `dualmctx train --game {name}`, and name the folder of the run, or the file "
            "that `dualmctx export` writes"
        )
    raise UserError(
        f"{source} is neither a run's folder, nor an exported .npz file, nor a network that comes "
        f"with dualmctx ({names})"
    )


def _open_run(path: Path) -> Any:
    # `open_checkpoints` would create the folder.
    if not (path / "checkpoints").is_dir():
        below = sorted(str(x.parent) for x in path.glob("*/checkpoints"))
        remedy = f"; name a run below it: {', '.join(below)}" if below else ""
        raise UserError(f"there is no checkpoint in {path / 'checkpoints'}{remedy}")
    return open_checkpoints(path / "checkpoints")


def _read_file(path: Path) -> tuple[dict[str, Any], int, dict[str, Header]]:
    """Reads the record, the iteration and the headers of the parameters of an exported file."""
    with _opened(path) as file:
        for name, limit in ((_RECORD, _MAX_RECORD_BYTES), (_ITERATION, 8)):
            size = file.headers[name].size
            if size > limit:
                raise UserError(f"its {name} has {size:,} bytes")
        record = dict(json.loads(file.read(_RECORD).tobytes()))
        iteration = int(file.read(_ITERATION))
        headers = {x: y for x, y in file.headers.items() if x not in (_RECORD, _ITERATION)}
    return current_config(record, path), iteration, headers


def _read_params(path: Path, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Reads parameters of an exported file."""
    with _opened(path) as file:
        return {name: file.read(name) for name in names}


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Archive]:
    """Opens an exported file.

    Raises:
      ValueError: if it cannot be read.
    """
    try:
        with open_archive(path) as file:
            yield file
    # NumPy, zipfile, zlib and json raise these. KeyError: another program wrote the file.
    except _UNREADABLE as error:
        reason = str(error).split("\n")[0] or type(error).__name__
        raise UserError(f"{path} is damaged, or not an exported network: {reason}") from error


_UNREADABLE = (
    *(ValueError, TypeError, KeyError, AttributeError, OSError, EOFError, MemoryError),
    *(RuntimeError, RecursionError, zipfile.BadZipFile, zlib.error),
)


def _by_name(params: Params) -> dict[str, Any]:
    """Names the arrays of a pytree by their paths, as `params/stem/kernel`."""
    leaves = jax.tree_util.tree_leaves_with_path(params)
    return {jax.tree_util.keystr(path, simple=True, separator="/"): x for path, x in leaves}


def _fit(path: Path, wanted: Params, saved: dict[str, Any]) -> Params:
    """Returns parameters in the structure of the network.

    Args:
      path: the folder or the file.
      wanted: shapes of the network's parameters.
      saved: arrays of a checkpoint, or headers of an exported file. The arrays of a file are read
        only if the headers fit.

    Raises:
      ValueError: if names, shapes or types differ, or if a number is not finite.
    """
    shapes = _by_name(wanted)
    network = "the network that its record describes"
    for name in sorted(shapes.keys() ^ saved.keys()):
        problem = f"{name} is missing" if name in shapes else f"{name} is unknown"
        raise UserError(f"{path} does not fit {network}: {problem}")
    for name, shape in shapes.items():
        expected, actual = (f"{x.dtype} {list(x.shape)}" for x in (shape, saved[name]))
        if expected != actual:
            raise UserError(f"{path} does not fit {network}: {name} is {actual}, not {expected}")
    arrays = saved if path.is_dir() else _read_params(path, shapes)
    check_parameters(arrays, path)
    leaves = [jax.numpy.asarray(arrays[name]) for name in shapes]
    return jax.tree.unflatten(jax.tree.structure(wanted), leaves)
