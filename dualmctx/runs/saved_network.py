"""What a run has learned: loaded from its folder, from one exported file, or by a name."""

import contextlib
import hashlib
import json
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import games
from dualmctx.models.network import make_network
from dualmctx.runs.archive import Archive, Header, open_archive
from dualmctx.runs.atomic_io import atomic_path
from dualmctx.runs.checkpoint import open_checkpoints
from dualmctx.runs.folder import read_config
from dualmctx.runs.record_names import with_current_names
from dualmctx.runs.recorded_config import check_config
from dualmctx.training.config import NetworkOptions
from dualmctx.training.divergence import check_parameters
from dualmctx.types import Environment, Params, PolicyValueNetwork

# Networks that come with the package.
_SHIPPED = Path(__file__).parents[1] / "trained_networks"
# What an exported file holds besides the parameters, whose names have a slash.
_RECORD, _ITERATION = "record", "iteration"
_LONGEST_RECORD = 2**20


class Trained(NamedTuple):
    """What a run has learned so far.

    Attributes:
      env: the game, as `games.make` gives it.
      network: the run's network.
      params: its parameters at a checkpoint.
      iteration: of that checkpoint.
      record: the run's `config.json`.
    """

    env: Environment
    network: PolicyValueNetwork
    params: Params
    iteration: int
    record: dict[str, Any]


def load_trained(source: Path | str, iteration: int | None = None) -> Trained:
    """Loads what a run has learned, without the state of its training.

    Args:
      source: the run's folder; a file that `export_trained` wrote; or the name of a network that
        comes with the package, see `trained_names`. A path that exists goes before a name.
      iteration: of the checkpoint; by default the newest one's. A file has one only.

    Returns:
      The network as it was then. Only numbers and JSON are read, nothing is executed.

    Raises:
      ValueError: when there is no such run, file, name or checkpoint, when it cannot be read, or
        when the parameters are not those of the network that the record describes or not finite
        (`health.check_parameters`), in one line.
    """
    path = _find(source)
    if path.is_dir():
        record, saved = read_config(path), _open_run(path).load(iteration)
        check_config(path, saved.step, saved.config)
        found, params = saved.step, _by_name(saved.state.get("params", {}))
    else:
        record, found, params = _read_file(path)
        if iteration not in (None, found):
            raise ValueError(f"iteration is {iteration}; {path} holds that of iteration {found}")
    try:
        env = games.make(record["game"], **record["game_parameters"])
        network = build_network(record, env)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} has a record that cannot be read: {error!r}") from error
    return Trained(env, network, _fit(path, env, network, params), found, record)


def export_trained(trained: Trained, path: Path | str) -> None:
    """Writes what a run has learned to one file, complete or not at all.

    The file is NumPy's `.npz`: each array of the parameters under its path, such as
    `params/stem/kernel`, the run's record as bytes of JSON, and the iteration.

    Args:
      trained: what to write.
      path: of the file, which is replaced if it exists; its folder is made if need be.

    Raises:
      ValueError: when the name does not end in .npz, in one line.
    """
    path = Path(path)
    if path.suffix != ".npz":
        raise ValueError(f"the file is {path}; its name must end in .npz")
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {name: np.asarray(x) for name, x in _by_name(trained.params).items()}
    arrays[_RECORD] = np.frombuffer(json.dumps(trained.record).encode(), np.uint8)
    arrays[_ITERATION] = np.array(trained.iteration, np.int64)
    with atomic_path(path) as draft, draft.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def trained_names() -> list[str]:
    """Lists the networks that come with the package."""
    return sorted(file.stem for file in _SHIPPED.glob("*.npz"))


def digest_of(params: Params) -> str:
    """Returns a short text that tells parameters apart."""
    digest = hashlib.sha256()
    for x in jax.tree.leaves(params):
        digest.update(np.ascontiguousarray(x).tobytes())
    return digest.hexdigest()[:16]


def build_network(record: dict[str, Any], env: Environment) -> Any:
    """Makes the network of a run from its `config.json`, for a game as `games.make` gives it."""
    options = record["network"]
    depths = options["head_depths"]
    names = ("width", "num_blocks", "num_heads", "separate_trunks", "trunk")
    return make_network(
        env.num_actions,
        env.observation_shape,
        head_depths=None if depths is None else tuple(depths),
        **{name: options[name] for name in names},
    )


def model_kwargs_of(record: dict[str, Any]) -> dict[str, Any]:
    """Returns the options of `make_model` with which a run trained, from its `config.json`."""
    names = ("kept_activations", "compact_states")
    known = {name: record["network"][name] for name in names if name in record["network"]}
    return NetworkOptions(**known).model_kwargs()


def _find(source: Path | str) -> Path:
    """Returns the path of a run's folder or of a file."""
    path, name = Path(source), str(source).replace("_", "-")
    if path.exists():
        return path
    if name in trained_names():
        return _SHIPPED / f"{name}.npz"
    names = ", ".join(trained_names()) or "none yet"
    raise ValueError(
        f"{source} is neither a run's folder, nor an exported .npz file, nor a network that comes "
        f"with dualmctx ({names})"
    )


def _open_run(path: Path) -> Any:
    # Opening makes the folder.
    if not (path / "checkpoints").is_dir():
        raise ValueError(f"there is no checkpoint in {path / 'checkpoints'}")
    return open_checkpoints(path / "checkpoints")


def _read_file(path: Path) -> tuple[dict[str, Any], int, dict[str, Header]]:
    """Reads of an exported file the record, the iteration, and the headers of the parameters."""
    with _opened(path) as file:
        for name, limit in ((_RECORD, _LONGEST_RECORD), (_ITERATION, 8)):
            size = file.headers[name].size
            if size > limit:
                raise ValueError(f"its {name} has {size:,} bytes")
        record = with_current_names(json.loads(file.read(_RECORD).tobytes()))
        iteration = int(file.read(_ITERATION))
        headers = {x: y for x, y in file.headers.items() if x not in (_RECORD, _ITERATION)}
    return record, iteration, headers


def _read_params(path: Path, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Reads parameters of an exported file."""
    with _opened(path) as file:
        return {name: file.read(name) for name in names}


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Archive]:
    """Opens an exported file; what is wrong with it is a one-line `ValueError`."""
    try:
        with open_archive(path) as file:
            yield file
    # The reasons are NumPy's, zipfile's, zlib's or json's; KeyError is a foreign file's.
    except _UNREADABLE as error:
        reason = str(error).split("\n")[0] or type(error).__name__
        raise ValueError(f"{path} is damaged, or no network of ours: {reason}") from error


_UNREADABLE = (
    *(ValueError, TypeError, KeyError, AttributeError, OSError, EOFError, MemoryError),
    *(RuntimeError, RecursionError, zipfile.BadZipFile, zlib.error),
)


def _by_name(params: Params) -> dict[str, Any]:
    """Names the arrays of a pytree by their paths, as `params/stem/kernel`."""
    leaves = jax.tree_util.tree_leaves_with_path(params)
    return {jax.tree_util.keystr(path, simple=True, separator="/"): x for path, x in leaves}


def _fit(
    path: Path, env: Environment, network: PolicyValueNetwork, found: dict[str, Any]
) -> Params:
    """Returns parameters in the network's structure; raises a one-line `ValueError` if not its.

    Of a file only the headers are given; its parameters are read when they fit.
    """
    observation = jax.ShapeDtypeStruct((1, *env.observation_shape), np.float32)
    wanted = jax.eval_shape(network.init, jax.random.PRNGKey(0), observation)
    shapes = _by_name(wanted)
    what = "the network that its record describes"
    for name in sorted(shapes.keys() ^ found.keys()):
        problem = "has no" if name in shapes else "has an array too many,"
        raise ValueError(f"{path} does not fit {what}: it {problem} {name}")
    for name, shape in shapes.items():
        ours, theirs = (f"{x.dtype} {list(x.shape)}" for x in (shape, found[name]))
        if ours != theirs:
            raise ValueError(f"{path} does not fit {what}: {name} is {theirs}, not {ours}")
    arrays = found if path.is_dir() else _read_params(path, shapes)
    check_parameters(arrays, path)
    leaves = [jax.numpy.asarray(arrays[name]) for name in shapes]
    return jax.tree.unflatten(jax.tree.structure(wanted), leaves)
