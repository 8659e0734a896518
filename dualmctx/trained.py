"""What a run has learned: loaded from its folder, from one exported file, or by a name."""

import dataclasses
import hashlib
import json
import zipfile
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import games
from dualmctx.checkpoint import open_checkpoints
from dualmctx.config import NetworkOptions
from dualmctx.network import make_network
from dualmctx.policies import REGISTRY
from dualmctx.runs import read_config
from dualmctx.types import Params, Policy
from dualmctx.whole import replacing

# Networks that come with the package.
_SHIPPED = Path(__file__).with_name("trained_networks")
# What an exported file holds besides the parameters, whose names have a slash.
_RECORD, _ITERATION = "record", "iteration"


class Trained(NamedTuple):
    """What a run has learned so far.

    Attributes:
      env: the game, as `games.make` gives it.
      network: the run's network.
      params: its parameters at a checkpoint.
      iteration: of that checkpoint.
      record: the run's `config.json`.
    """

    env: Any
    network: Any
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
        when the parameters are not those of the network that the record describes, in one line.
    """
    path = _find(source)
    if path.is_dir():
        record = read_config(path)
        found, state = _open_run(path).read(iteration)
        params = _by_name(state.get("params", {}))
    else:
        record, found, params = _read_file(path)
        if iteration not in (None, found):
            raise ValueError(f"iteration is {iteration}; {path} holds that of iteration {found}")
    try:
        env = games.make(record["game"], **record["game_parameters"])
        network = network_of(record, env)
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
    with replacing(path) as draft, draft.open("wb") as file:
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


def network_of(record: dict[str, Any], env: Any) -> Any:
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


def model_options_of(record: dict[str, Any]) -> dict[str, Any]:
    """Returns the options of `make_model` with which a run trained, from its `config.json`."""
    names = ("kept_activations", "compact_states")
    known = {name: record["network"][name] for name in names if name in record["network"]}
    return NetworkOptions(**known).of_model()


def policy_of(
    record: dict[str, Any],
    variant: str | None = None,
    simulations: int | tuple[int, ...] | None = None,
) -> Policy:
    """Makes the search of a run from its `config.json`, or another one.

    Args:
      record: the run's; functions among its options are the defaults.
      variant: of the registry, with its defaults; the run's own search if `None`.
      simulations: a move, a number or one for each tree; as they are if `None`. Where there are
        fewer than rounds, the rounds become fewer too.

    Raises:
      ValueError: when the record or an option is wrong, in one line.
    """
    if variant is not None:
        _check_variant(variant)
        policy = REGISTRY[variant].policy()
    else:
        policy = _saved_policy(record)
    return policy if simulations is None else with_simulations(policy, simulations)


def _check_variant(variant: Any) -> None:
    if variant not in REGISTRY:
        raise ValueError(f"variant is {variant}; it must be one of {', '.join(REGISTRY)}")


def _saved_policy(record: dict[str, Any]) -> Policy:
    try:
        saved = dict(record["search"])
        variant = saved.pop("variant", None)
        if variant is None:
            raise ValueError("the run's config.json does not name its search; choose a --variant")
        _check_variant(variant)
        return _with_saved(REGISTRY[variant].policy(), saved)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the record's search cannot be read: {error!r}") from error


def _with_saved(options: Any, saved: dict[str, Any]) -> Any:
    """Changes options to what JSON holds of them."""
    changed = {}
    for name, value in saved.items():
        old = getattr(options, name)
        if dataclasses.is_dataclass(old):
            changed[name] = _with_saved(old, value)
        elif not callable(old):
            changed[name] = tuple(value) if isinstance(value, list) else value
    return dataclasses.replace(options, **changed)


def with_simulations(policy: Any, simulations: int | tuple[int, ...]) -> Policy:
    """Returns a policy with other simulations a move, and fewer rounds where it must have fewer.

    Raises:
      ValueError: when the policy does not take such simulations, in one line.
    """
    if isinstance(simulations, int):
        return dataclasses.replace(policy, num_simulations=simulations)
    budgets = tuple(simulations)
    if len(budgets) == 1 and not isinstance(policy.num_simulations, tuple):
        return dataclasses.replace(policy, num_simulations=budgets[0])
    changes: dict[str, Any] = {"num_simulations": budgets}
    # A policy may have its rounds by other means than a field.
    if any(field.name == "num_rounds" for field in dataclasses.fields(policy)):
        changes["num_rounds"] = min(policy.num_rounds, max(1, *budgets[1:]))
    return dataclasses.replace(policy, **changes)


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


def _read_file(path: Path) -> tuple[dict[str, Any], int, dict[str, np.ndarray]]:
    """Reads an exported file: the record, the iteration, and the arrays by their paths."""
    try:
        # Opened here, as NumPy leaves some files that it refuses open.
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        record = dict(json.loads(arrays.pop(_RECORD).tobytes()))
        return record, int(arrays.pop(_ITERATION)), arrays
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


def _fit(path: Path, env: Any, network: Any, found: dict[str, Any]) -> Params:
    """Returns parameters in the network's structure; raises a one-line `ValueError` if not its."""
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
    leaves = [jax.numpy.asarray(found[name]) for name in shapes]
    return jax.tree.unflatten(jax.tree.structure(wanted), leaves)
