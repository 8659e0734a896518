"""Trained networks: loaded from a run's folder, an exported file or by a name; saved in a file."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import games
from dualmctx.checks import check, check_count, describe, plain
from dualmctx.errors import UserError
from dualmctx.import_path import require_named
from dualmctx.policies import REGISTRY
from dualmctx.runs.array_file import SUFFIX, by_name, fit_arrays, read_arrays, write_arrays
from dualmctx.runs.checkpoint import check_config, open_checkpoints
from dualmctx.runs.folder import CONFIG, read_config, with_versions, without_versions
from dualmctx.runs.network_record import (
    MODEL_OPTIONS,
    Count,
    build_network,
    check_record,
    factory_of,
    with_architecture,
)
from dualmctx.runs.saved_policy import check_search, search_record
from dualmctx.training.config import NetworkOptions
from dualmctx.training.divergence import check_parameters
from dualmctx.typed_values import decode
from dualmctx.types import Environment, Params, Policy, PolicyValueNetwork

# The networks that come with the package.
_PACKAGED = Path(__file__).parents[1] / "trained_networks"
# The entries of the record of an exported file.
_CONFIG, _ITERATION = "config", "iteration"


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
    record names as `package.module:factory` is imported only if `game` or `network` has the same
    path, because a file may come from a stranger.

    Args:
      source: the folder of a run, a file that `export_trained` wrote, or the name of a network that
        comes with the package (see `trained_names`). An existing path takes precedence over a name.
      iteration: the iteration of the checkpoint; by default the newest one. A file has only one.
      game: the import path of the game, if it is outside the package.
      network: the import path of the network, if it is outside the package; or several that are
        allowed.

    Returns:
      The network with the parameters of that iteration.

    Raises:
      UserError: if the run, file, name or checkpoint does not exist or cannot be read, or if the
        parameters are not finite or do not fit the network that the record describes.
    """
    path = _find(source)
    if path.is_dir():
        record, saved = read_config(path), _open_run(path).load(iteration)
        check_config(path, saved.step, saved.config)
        saved_iteration, params = saved.step, saved.arrays_of("params")
    else:
        record, saved_iteration, params = _read_file(path)
        if iteration not in (None, saved_iteration):
            raise UserError(
                f"iteration is {iteration}; {path} holds that of iteration {saved_iteration}"
            )
    _check(path, record, game, network)
    try:
        env = games.make(record["game"], **record["game_parameters"])
        built = build_network(record, env, num_arrays=len(params))
        observation = jax.ShapeDtypeStruct((1, *env.observation_shape), np.float32)
        shapes = jax.eval_shape(built.init, jax.random.PRNGKey(0), observation)
    except UserError as error:
        raise UserError(f"{path} cannot be used: {error}") from error
    try:
        fitted = fit_arrays(shapes, params)
    except UserError as error:
        raise UserError(
            f"{path} does not fit the network that its record describes: {error}"
        ) from None
    check_parameters(params, path)
    return Trained(env, built, jax.tree.map(jax.numpy.asarray, fitted), saved_iteration, record)


def load_record(
    source: Path | str, *, game: str | None = None, network: str | Sequence[str] = ()
) -> dict[str, Any]:
    """Loads the record of a trained network, without its parameters; see `load_trained`.

    Raises:
      UserError: if the run, file or name does not exist, its record cannot be read, or it names a
        game or network outside the package that the caller does not name.
    """
    path = _find(source)
    record = read_config(path) if path.is_dir() else _read_file(path)[0]
    _check(path, record, game, network)
    return record


def _check(
    path: Path, record: dict[str, Any], game: str | None, network: str | Sequence[str]
) -> None:
    """Checks a record, and that the user names the code that it would import."""
    require_named(record.get("game"), (game,), path, "game")
    networks = (network,) if isinstance(network, str) else network
    require_named(factory_of(record), networks, path, "network")
    try:
        check_record(record)
        check_search(record)
    except UserError as error:
        file = path / CONFIG if path.is_dir() else path
        raise UserError(f"{file} has a record that cannot be used: {error}") from error


def export_trained(trained: Trained, path: Path | str) -> None:
    """Writes a trained network to one file, atomically.

    The file is of the format safetensors. It holds each parameter array under its path, such as
    `params/stem/kernel`. The metadata have one entry, `record`, with JSON: the versions of the
    format and of the package, the iteration, the record of the run with the type and all fields of
    the network, and a checksum of all this and of the arrays.

    Args:
      trained: the network to write.
      path: the path of the file. An existing file is replaced; a missing folder is created.

    Raises:
      UserError: if the name does not end in .safetensors, a parameter is NaN or infinite, or the
        record is not one of a network.
    """
    path = Path(path)
    if path.suffix != SUFFIX:
        raise UserError(f"the file is {path}; its name must end in {SUFFIX}")
    arrays = {name: np.asarray(x) for name, x in by_name(trained.params).items()}
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise UserError(f"{name} has NaN or infinite numbers; export another checkpoint")
    record = with_architecture(trained.record, trained.network)
    check_record(record)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_arrays(path, arrays, with_versions({_ITERATION: int(trained.iteration), _CONFIG: record}))


def make_trained(
    game: str,
    network: PolicyValueNetwork,
    params: Params,
    policy: Policy,
    *,
    game_parameters: dict[str, Any] | None = None,
    iteration: int = 0,
) -> Trained:
    """Describes a network that was trained in Python, so that `export_trained` can save it.

    Args:
      game: the name of the game, as in `games.make`.
      network: the network, such as one of `make_network`.
      params: its parameters.
      policy: the search of its training, by which commands search if they name no other.
      game_parameters: parameters of the game, as in `games.make`.
      iteration: number of iterations of the training, for messages.

    Returns:
      The network with the record that its file will hold.

    Raises:
      ValueError: if there is no such game, the policy is not in `dualmctx.policies.REGISTRY`, the
        network cannot be saved, or it is for another number of actions.
    """
    check_count("iteration", iteration, 0)
    # A loaded file has lists too.
    given = dict(game_parameters or {})
    parameters = {
        name: list(plain(x)) if isinstance(x, list) else plain(x) for name, x in given.items()
    }
    env = games.make(game, **parameters)
    types = [row.policy for row in REGISTRY.values()]
    known = ", ".join(x.__name__ for x in types)
    check(type(policy) in types, "policy", describe(policy), f"of one of the types {known}")
    num_actions = getattr(network, "num_actions", env.num_actions)
    remedy = f"{env.num_actions}, those of {env.id}"
    check(num_actions == env.num_actions, "the network's num_actions", num_actions, remedy)
    record = {
        "game": game,
        "game_parameters": parameters,
        "search": search_record(policy),
        # A search stores activations in the dtype of the trunk.
        "network": {"dtype": getattr(network, "dtype", "float32")},
    }
    return Trained(env, network, params, iteration, with_architecture(record, network))


def trained_names() -> list[str]:
    """Returns the names of the networks that come with the package."""
    return sorted(file.stem for file in _PACKAGED.glob(f"*{SUFFIX}"))


def digest_of(params: Params) -> str:
    """Returns 16 hexadecimal digits that identify parameters."""
    content = (np.ascontiguousarray(x).tobytes() for x in jax.tree.leaves(params))
    return hashlib.sha256(b"".join(content)).hexdigest()[:16]


def identity_of(trained: Trained) -> dict[str, Any]:
    """Returns the digest of a network and its iteration as JSON values."""
    return {"network": digest_of(trained.params), "iteration": trained.iteration}


def model_kwargs_of(record: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of `make_model` that a run used, from its `config.json`."""
    options = record["network"]
    known = {name: options[name] for name in MODEL_OPTIONS if name in options}
    return NetworkOptions(**known).model_kwargs()


def _find(source: Path | str) -> Path:
    """Returns the path of a folder or of a file."""
    path, name = Path(source), str(source).replace("_", "-")
    if path.exists():
        return path
    if name in trained_names():
        return _PACKAGED / f"{name}{SUFFIX}"
    names = ", ".join(trained_names()) or "none yet"
    if name.replace("-", "_") in games.available():
        raise UserError(
            f"{source} is a game for which no network comes with dualmctx, only for {names}; train "
            f"one with `dualmctx train --game {name}`, and name the folder of the run, or the file "
            "that `dualmctx export` writes"
        )
    raise UserError(
        f"{source} is neither a run's folder, nor an exported {SUFFIX} file, nor a network that "
        f"comes with dualmctx ({names})"
    )


def _open_run(path: Path) -> Any:
    # `open_checkpoints` would create the folder.
    if not (path / "checkpoints").is_dir():
        below = sorted(str(x.parent) for x in path.glob("*/checkpoints"))
        remedy = f"; name a run below it: {', '.join(below)}" if below else ""
        raise UserError(f"there is no checkpoint in {path / 'checkpoints'}{remedy}")
    return open_checkpoints(path / "checkpoints")


def _read_file(path: Path) -> tuple[dict[str, Any], int, dict[str, np.ndarray]]:
    """Reads the record of the run, the iteration and the parameters of an exported file."""
    found = read_arrays(path, "an exported network")
    content = without_versions(found.record, path)
    record, iteration = content.get(_CONFIG), content.get(_ITERATION)
    if not isinstance(record, dict):
        raise UserError(f"{path} is not an exported network: its record has no {_CONFIG}")
    try:
        return record, decode("its iteration", iteration, Count), found.arrays
    except UserError as error:
        raise UserError(f"{path} cannot be used: {error}") from None
