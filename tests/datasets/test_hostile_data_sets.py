"""Data sets that are damaged or hostile give the same positions, or one line that says why."""

import functools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from damages import damaged_copies
from dualmctx.datasets import load_dataset, read_manifest, read_shard
from dualmctx.datasets.manifest import MANIFEST
from dualmctx.datasets.shards import Shard, find_shards, shard_path, write_shard
from dualmctx.errors import UserError
from dualmctx.runs.array_file import read_arrays, write_arrays
from made_data_sets import build, make, play_randomly, write_games

GAME = "tic_tac_toe"
FILE = "train-00000.safetensors"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a data set of two shards."""
    path = tmp_path_factory.mktemp("data")
    rows = [{"moves": x} for x in play_randomly(GAME, 12)]
    rows[3]["random"] = [0, 1]
    file = write_games(path / "x.jsonl", rows)
    build(path / "set", GAME, [file], block=8, validation=0.0, test=0.0)
    return path / "set"


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "set"))


def load(folder: Path) -> list[np.ndarray]:
    """Returns the columns of all positions, in the order of the games."""
    [batch] = load_dataset(folder, env=make(GAME), batch_size=1000, shuffle=False)
    x = batch.positions
    columns = (x.observation, x.policy, x.value, x.has_value, batch.counts, batch.plies, batch.keys)
    return [np.asarray(column) for column in columns]


def refuse(call: Callable[[], Any]) -> str:
    """Returns the message of a call that refuses its file."""
    with pytest.raises(UserError) as error:
        call()
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_damaged_shard_is_read_as_it_was_or_refused(folder: Path) -> None:
    file = folder / FILE
    data, expected, num_refused = file.read_bytes(), read_shard(file), 0
    others = (bytes(1000), b"", data[:-1], b"PK\x03\x04" + bytes(99))
    for damaged in (*others, *damaged_copies(data, 40)):
        file.write_bytes(damaged)
        try:
            found = read_shard(file)
        except UserError as error:
            message = str(error)
            assert message.startswith(f"{file} is damaged, or not a shard of a data set: ")
            assert message.endswith("; make the data set again")
            assert "pickle" not in message
            num_refused += 1
        else:
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_array_equal(one, other)
    assert num_refused > 200


def test_a_shard_is_the_same_after_writing_and_reading(folder: Path, tmp_path: Path) -> None:
    shard = read_shard(folder / FILE)
    fens = np.array(["", "a/b c — ü", *[""] * (len(shard.lengths) - 2)], object)
    other = shard._replace(fens=fens, numbers=shard.numbers + 70_000)
    write_shard(other, tmp_path / "x.safetensors")
    for name, x in read_shard(tmp_path / "x.safetensors")._asdict().items():
        np.testing.assert_array_equal(x, getattr(other, name))
        assert x.dtype == getattr(shard, name).dtype


def at(index: int, value: Any) -> Callable[[np.ndarray], np.ndarray]:
    """Returns a function that replaces an entry of an array."""

    def change(x: np.ndarray) -> np.ndarray:
        x = x.astype(np.uint64) if x.dtype.kind == "u" else x.copy()
        x[index] = value
        return x

    return change


def swapped(x: np.ndarray) -> np.ndarray:
    return np.concatenate([x[1:2], x[:1], x[2:]])


def not_bool(x: np.ndarray) -> np.ndarray:
    return np.full_like(x.view(np.uint8), 2).view(np.bool_)


CONTRADICTIONS: dict[str, tuple[str, Callable[[np.ndarray], Any]]] = {
    "value of 5": ("values", at(0, 5)),
    "values of 64 bits": ("values", lambda x: x.astype(np.float64)),
    "signed moves": ("moves", lambda x: x.astype(np.int32)),
    "a table of moves": ("moves", lambda x: x[:, None]),
    "a number of moves": ("moves", lambda x: x[0]),
    "huge move": ("moves", at(0, 2**31)),
    "huge length": ("lengths", at(0, 2**31 - 1)),
    "length of 0": ("lengths", at(0, 0)),
    "missing move": ("moves", lambda x: x[:-1]),
    "missing game": ("results", lambda x: x[:-1]),
    "missing position": ("values", lambda x: x[:-1]),
    "game that is not there": ("games", at(-1, 99)),
    "ply after the end": ("plies", at(-1, 50)),
    "order of games": ("games", at(0, 1)),
    "order of plies": ("plies", swapped),
    "position twice": ("plies", at(1, 0)),
    "random position": ("is_random", np.logical_not),
    "bool of 2": ("is_random", not_bool),
    "no count": ("counts", at(0, 0)),
    "game 0": ("numbers", at(0, 0)),
    "fens of bytes": ("fens", lambda x: np.array([255], np.uint8)),
    "few fens": ("fens", lambda x: x[:1]),
    "no array": ("keys", lambda x: None),
    "other array": ("other", lambda x: np.ones(3)),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_shard_that_contradicts_itself_is_refused(name: str, folder: Path) -> None:
    """Its checksum is right: a stranger has made it so."""
    column, change = CONTRADICTIONS[name]
    file = folder / FILE
    record, arrays = read_arrays(file, "a shard")
    arrays[column] = change(arrays.get(column, np.ones(1)))
    write_arrays(file, {x: y for x, y in arrays.items() if y is not None}, record)
    message = refuse(lambda: read_shard(file))
    reason = f"{column}: missing, or unknown" if "array" in name else "its arrays have wrong types"
    assert message.startswith(f"{file} ")
    assert reason in message
    assert message.endswith("; make the data set again")
    assert str(folder) in refuse(lambda: load(folder))


def cut(shard: Shard) -> Shard:
    return shard.with_positions(np.arange(len(shard.plies) - 1))


def test_shards_must_be_those_of_the_manifest(folder: Path) -> None:
    first, second = (shard_path(folder, "train", x) for x in range(2))
    statistics = read_manifest(folder).splits["train"]
    assert find_shards(folder, "train", statistics) == [first, second]
    data = second.read_bytes()
    for change, reason in [
        (second.unlink, "has 1 shards in the split train, but its manifest says 2; make the"),
        (lambda: shutil.copy(first, second), r"has 16 games in the split train, .* says 12; make"),
        (lambda: write_shard(cut(read_shard(second)), second), r"has \d+ rows in the split train"),
        (lambda: shutil.copy(first, shard_path(folder, "train", 2)), "has 3 shards in the split"),
    ]:
        second.write_bytes(data)
        change()
        with pytest.raises(UserError, match=rf"^{folder} {reason}"):
            load_dataset(folder, env=make(GAME))


def test_moves_and_fens_are_checked_by_the_rules(folder: Path) -> None:
    file = folder / FILE
    shard = read_shard(file)
    for name, value, reason in [
        ("moves", 4, r"game \d+ of its file 1 has moves that are not legal"),
        ("moves", 2**31 - 1, "has moves that are not legal in tic_tac"),
        ("fens", "x", "FEN"),
    ]:
        write_shard(shard._replace(**{name: np.full_like(getattr(shard, name), value)}), file)
        with pytest.raises(UserError, match=rf"^{folder} cannot be loaded: .*{reason}"):
            load(folder)


def entries(content: dict[str, Any]) -> Any:
    """Yields the paths of the entries of JSON values."""
    for name, value in content.items():
        yield (name,)
        if isinstance(value, dict):
            yield from ((name, *rest) for rest in entries(value))


WRONG = (None, True, -1, 3.7, 10**30, "x", [], {}, [1], [None], {"a": None}, "numpy:save")


def load_or_refuse(folder: Path) -> list[np.ndarray] | None:
    """Returns the columns of all positions; `None` if one line with the name refuses them."""
    try:
        return load(folder)
    except UserError as error:
        message = str(error)
    assert message.startswith(str(folder))
    assert "\n" not in message
    return None


def test_a_manifest_with_wrong_entries_is_refused(folder: Path) -> None:
    file, expected, num_refused = folder / MANIFEST, load(folder), 0
    content = json.loads(file.read_text())
    for path in entries(content):
        for value in WRONG:
            changed = json.loads(json.dumps(content))
            functools.reduce(dict.__getitem__, path[:-1], changed)[path[-1]] = value
            file.write_text(json.dumps(changed))
            found = load_or_refuse(folder)
            if found is not None:
                for one, other in zip(found, expected, strict=True):
                    np.testing.assert_array_equal(one, other)
            num_refused += found is None
    assert num_refused > 200


NO_JSON = ("", "{", "[" * 100_000, '{"a": ' + "9" * 5000 + "}")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        *((text, "cannot be read: ") for text in (*NO_JSON, "[]", "3")),
        ('{"game": "nim"}', "has no format version"),
    ],
)
def test_a_manifest_that_is_none_is_refused(text: str, problem: str, folder: Path) -> None:
    (folder / MANIFEST).write_text(text)
    assert refuse(lambda: read_manifest(folder)).startswith(f"{folder / MANIFEST} {problem}")


@pytest.mark.parametrize("parameters", [{"pile": 10**24}, {"pile": "x"}, {"pile": 2**31 - 1}])
def test_hostile_parameters_of_a_game_are_refused(folder: Path, parameters: Any) -> None:
    content = json.loads((folder / MANIFEST).read_text())
    changes = {"game": "nim", "game_parameters": parameters}
    (folder / MANIFEST).write_text(json.dumps(content | changes))
    assert refuse(lambda: load_dataset(folder)).startswith(f"{folder} is of a game that cannot be")
