"""Games for the value network: phases, marks, results, dropped games, resuming."""

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
from dualmctx.datasets import load_dataset, read_manifest, read_shard
from dualmctx.datasets.shards import shard_paths
from dualmctx.errors import UserError
from dualmctx.pipeline.value.dataset import make_value_games
from dualmctx.pipeline.value.games import GameOptions, Policies

OPTIONS = GameOptions(number=600, seed=3, max_opening_plies=8, batch=128, test=0.25)


def fixed_logits(params: jax.Array, observation: jax.Array) -> jax.Array:
    """A policy that is the same in all positions: its parameters are the logits."""
    return jnp.broadcast_to(params, (len(observation), 9))


# One policy takes the lowest legal cell, the other one the highest, with certainty.
LOWEST, HIGHEST = -1e3 * np.arange(9.0), 1e3 * np.arange(9.0)
POLICIES = Policies(fixed_logits, jnp.asarray(LOWEST), jnp.asarray(HIGHEST))


def make_games(folder: Path, options: GameOptions = OPTIONS, **changes: Any) -> Any:
    arguments = {"game": "tic_tac_toe", "game_parameters": {}, "inputs": {"a": 1}} | changes
    env = arguments.pop("env", ENV)
    policies = arguments.pop("policies", POLICIES)
    return make_value_games(env, policies, options, folder, **arguments)


ENV = games.make("tic_tac_toe")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("value") / "games"
    make_games(path)
    return path


def lines_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "games.jsonl").read_text().splitlines()]


def winner_of(moves: list[int]) -> float:
    """Returns the first side's result so far."""
    lines = [*(range(i, i + 3) for i in (0, 3, 6)), *(range(i, 9, 3) for i in range(3))]
    lines += [range(0, 9, 4), range(2, 7, 2)]
    for side, value in ((0, 1.0), (1, -1.0)):
        if any(set(line) <= set(moves[side::2]) for line in lines):
            return value
    return 0.0


def is_over(moves: list[int]) -> bool:
    return len(moves) == 9 or winner_of(moves) != 0


def test_each_move_is_of_the_policy_of_its_phase(folder: Path) -> None:
    lines = lines_of(folder)
    assert [line["number"] for line in lines] == [*range(OPTIONS.number)]
    counts = np.zeros(9)
    for line in lines:
        moves, opening = line["moves"], line.get("opening", 0) + 1
        assert line["random"] == [opening - 1]
        for ply, move in enumerate(moves):
            legal = sorted(set(range(9)) - set(moves[:ply]))
            assert move in legal
            assert not is_over(moves[:ply])
            if ply != opening - 1:
                assert move == (min if ply < opening else max)(legal)
            elif opening == 1:
                counts[move] += 1
        assert is_over(moves)
        assert line["result"] == winner_of(moves)
    # A random first move is any of nine; the 99.9 % quantile of chi-square with 8 is 26.1.
    expected = counts.sum() / 9
    assert expected > 5
    assert ((counts - expected) ** 2 / expected).sum() < 26.1


def test_random_moves_come_at_uniform_plies(folder: Path) -> None:
    openings = [line.get("opening", 0) + 1 for line in lines_of(folder)]
    assert openings == sorted(openings)
    counts = np.bincount(openings, minlength=9)[1:]
    assert len(counts) == OPTIONS.max_opening_plies
    # The 99.9 % quantile of chi-square with 7 degrees of freedom is 24.3.
    expected = OPTIONS.number / 8
    assert ((counts - expected) ** 2 / expected).sum() < 24.3


def test_no_position_before_the_random_move_is_kept(folder: Path) -> None:
    lines, manifest = lines_of(folder), read_manifest(folder)
    kept = []
    for split in ("train", "test"):
        for path in shard_paths(folder, split):
            shard = read_shard(path)
            for game, number in enumerate(shard.numbers):
                line = lines[number - 1]
                moves, opening = line["moves"], line.get("opening", 0) + 1
                plies = shard.plies[shard.games == game]
                assert plies.tolist() == [*range(opening, len(moves))]
                assert len(plies) > 0
                sides = 1 - 2 * (plies % 2)
                values = shard.values[shard.games == game]
                np.testing.assert_array_equal(values, sides * winner_of(moves))
                kept.append(number - 1)
    assert len(set(kept)) == len(kept)
    dropped = [line for line in lines if len(line["moves"]) < line.get("opening", 0) + 2]
    assert manifest.counts["without_positions"] == len(dropped) > 0
    assert len(kept) == OPTIONS.number - len(dropped)
    # Equal games are independent samples, so none is removed.
    assert manifest.counts["duplicates"] == 0
    assert len({tuple(lines[number]["moves"]) for number in kept}) < len(kept)


def test_loader_takes_the_first_position_of_each_game(folder: Path) -> None:
    lines = [x for x in lines_of(folder) if len(x["moves"]) > x.get("opening", 0) + 1]
    found, wanted = [], []
    for split in ("train", "test"):
        for batch in load_dataset(folder, split, ENV, batch_size=64, one_per_game="first"):
            x = batch.positions
            assert np.asarray(x.has_value).all()
            played = np.asarray(x.observation).sum(axis=(1, 2, 3))
            np.testing.assert_array_equal(played, batch.plies)
            found += zip(np.asarray(batch.plies).tolist(), x.value.tolist(), strict=True)
    for line in lines:
        opening = line.get("opening", 0) + 1
        wanted.append((opening, (1 - 2 * (opening % 2)) * winner_of(line["moves"])))
    assert sorted(found) == sorted(wanted)


def test_another_choice_of_one_per_game_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="one_per_game is 'last'; it must be"):
        load_dataset(folder, env=ENV, one_per_game="last")  # pyright: ignore[reportArgumentType]


def test_a_kill_and_a_resumption_give_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    class Killed(Exception):
        pass

    def stop(done: int, total: int) -> None:
        if done > 200:
            raise Killed

    path = tmp_path / "killed"
    with pytest.raises(Killed):
        make_games(path, show=stop)
    with (path / "games.jsonl").open("ab") as file:
        file.write(b'{"number": 256, "mov')
    make_games(path)
    for file in folder.iterdir():
        if file.is_file():
            assert file.read_bytes() == (path / file.name).read_bytes(), file.name
    # A further call only reads.
    assert make_games(path) == read_manifest(folder)


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("games.jsonl", lambda data: data.replace(b'"number":130', b'"number":139')),
        ("games.jsonl", lambda data: data.replace(b"\n", b"\n\n", 1)),
        ("games.jsonl", lambda data: data[: len(data) // 2]),
        ("games.jsonl", lambda data: b""),
        ("parts/blocks.jsonl", lambda data: data.replace(b'"read":600', b'"read":601')),
        ("parts/train-00000.safetensors", lambda data: data[:-1]),
    ],
)
def test_damaged_games_are_named(
    file: str, damage: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stage was killed after its games had been read."""
    with monkeypatch.context() as patch:
        patch.setattr("dualmctx.pipeline.value.dataset.finish", lambda *_, **__: None)
        make_games(tmp_path)
    whole = (tmp_path / file).read_bytes()
    (tmp_path / file).write_bytes(damage(whole))
    assert damage(whole) != whole
    with pytest.raises(UserError, match=file):
        make_games(tmp_path)
    assert (tmp_path / file).read_bytes() == damage(whole)
    (tmp_path / file).write_bytes(whole)
    assert make_games(tmp_path).counts["read"] == OPTIONS.number


def test_games_of_other_policies_or_options_are_refused(folder: Path) -> None:
    for options, inputs in ((OPTIONS, {"a": 2}), (OPTIONS._replace(seed=4), {"a": 1})):
        with pytest.raises(ValueError, match="has another configuration"):
            make_games(folder, options, inputs=inputs)


def test_default_openings_reach_the_longest_game_of_the_supervised_policy(tmp_path: Path) -> None:
    options = OPTIONS._replace(number=128, max_opening_plies=None)
    manifest = make_games(tmp_path / "games", options)
    # The lowest cells win in the seventh move: 0 1 2 3 4 5 6.
    assert manifest.settings["max_opening_plies"] == 6
    assert max(line.get("opening", 0) + 1 for line in lines_of(tmp_path / "games")) == 6


def test_games_without_a_position_are_an_error(tmp_path: Path) -> None:
    """With U above the length of every game, all of them are dropped."""
    options = OPTIONS._replace(number=20, max_opening_plies=100_000)
    with pytest.raises(ValueError, match="choose a smaller largest U than 100000, or more plies"):
        make_games(tmp_path / "games", options)


def test_policies_that_are_nan_are_reported(tmp_path: Path) -> None:
    broken = POLICIES._replace(reinforced=jnp.full(9, jnp.nan))
    with pytest.raises(ValueError, match="is NaN or infinite; use another checkpoint"):
        make_games(tmp_path / "games", OPTIONS._replace(number=128), policies=broken)
