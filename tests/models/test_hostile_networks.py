"""Exported networks whose record is not what it should be: the same network, or one line."""

import contextlib
import copy
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dualmctx.errors import UserError
from dualmctx.policies import REGISTRY
from dualmctx.runs.array_file import read_arrays, write_arrays
from dualmctx.runs.saved_network import Trained, load_trained, model_kwargs_of
from dualmctx.runs.saved_policy import OtherSearchError, build_policy, check_search
from untrained import assert_same_network

PACKAGED = Path(load_trained.__code__.co_filename).parents[1] / "trained_networks"
WRONG = (None, True, -1, 3.7, 10**30, "x", [], {}, [None], {"a": {"b": []}}, "numpy:save")
MISSING = object()
# The entries from which the network is built.
BUILT = ("game", "game_parameters", "architecture", "network")


def paths(values: Any, prefix: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yields the paths of all parts of JSON values."""
    yield prefix
    parts = values.items() if isinstance(values, dict) else ()
    parts = enumerate(values) if isinstance(values, list) else parts
    for name, part in parts:
        yield from paths(part, (*prefix, name))


def changed(record: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """Returns a copy with another value in a place, or without the place."""
    result = copy.deepcopy(record)
    parent: Any = functools.reduce(lambda x, name: x[name], path[:-1], result)
    if value is MISSING:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    return result


def load_or_refuse(file: Path) -> Trained | None:
    """Loads a network with its search; `None` if one line that names the file refuses it."""
    try:
        found = load_trained(file)
    except UserError as error:
        message = str(error)
        assert message.startswith(str(file))
        assert "\n" not in message
        return None
    model_kwargs_of(found.record)
    try:
        build_policy(found.record)
    except OtherSearchError:
        build_policy(found.record, "alphazero")
    return found


@pytest.mark.slow
def test_a_record_with_wrong_entries_is_refused(tmp_path: Path) -> None:
    """The checksum of the file is right, as a stranger would make it."""
    content, arrays = read_arrays(PACKAGED / "nim.safetensors", "a network")
    expected, num_refused = load_trained("nim"), 0
    file = tmp_path / "net.safetensors"
    places = [x for x in paths(content) if x[:1] == ("iteration",) or x == ("config",)]
    places += [("config", *x) for x in paths(content["config"]) if x[:1] and x[0] in BUILT]
    for index, path in enumerate(places):
        # Different values in turn, because loading takes longer than a check.
        for value in (*WRONG[index % 6 :: 6], MISSING):
            write_arrays(file, arrays, changed(content, path, value))
            found = load_or_refuse(file)
            num_refused += found is None
            if found is not None:
                assert_same_network(found._replace(record=expected.record), expected)
    assert num_refused > len(places)


def test_a_search_with_wrong_entries_is_refused() -> None:
    content, _ = read_arrays(PACKAGED / "nim.safetensors", "a network")
    record, refusals = content["config"], list[str]()
    places = [("search", *x) for x in paths(record["search"])]
    for index, path in enumerate(places):
        for value in (*WRONG[index % 6 :: 6], MISSING):
            try:
                check_search(changed(record, path, value))
            except UserError as error:
                refusals.append(str(error))
    assert len(refusals) > len(places)
    assert not any("\n" in line for line in refusals)


@pytest.mark.parametrize("variant", REGISTRY)
@pytest.mark.parametrize("value", [[3], {"a": 1}, "x", 10**400, -(10**400)])
def test_a_search_with_wrong_options_is_refused(variant: str, value: Any) -> None:
    policy = REGISTRY[variant].policy()
    for name in (*vars(policy), "other", "__class__"):
        record = {"search": {"variant": variant, name: value}}
        with contextlib.suppress(UserError):
            assert isinstance(build_policy(record), type(policy))
