"""Data sets: round trip, splits, duplicates, statistics, resuming, loading."""

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
from dualmctx.datasets import load_dataset, read_manifest, read_shard
from dualmctx.datasets.build import Recipe, build_shards, split_of
from dualmctx.datasets.checking import game_key, position_keys
from dualmctx.datasets.records import open_records
from dualmctx.datasets.shards import SPLITS, shard_paths
from dualmctx.errors import UserError
from made_data_sets import build, content, make, play_randomly, result_of, write_games

ALL = {"validation": 0.0, "test": 0.0}


@pytest.fixture(scope="module")
def played() -> list[list[int]]:
    return play_randomly("tic_tac_toe", 60)


@pytest.fixture(scope="module")
def folder(played: list[list[int]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data")
    build(path / "set", "tic_tac_toe", [write_games(path / "games.jsonl", played)], **ALL)
    return path / "set"


@pytest.mark.slow
def test_loaded_positions_are_those_of_the_games(played: list[list[int]], folder: Path) -> None:
    """Each state is that of a replay of the moves before it; each value is the final result."""
    env, number = make("tic_tac_toe"), 0
    by_key = {game_key(env, np.array(moves), None): moves for moves in reversed(played)}
    for batch in load_dataset(folder, env=env, batch_size=50):
        x, plies = batch.positions, np.asarray(batch.plies)
        moves = [by_key[int(key)] for key in batch.game_keys]
        rows = np.full((len(plies), 9), -1)
        for row, game, ply in zip(rows, moves, plies, strict=True):
            row[:ply] = game[:ply]
        states = games.replay(env, rows)
        np.testing.assert_array_equal(x.observation, states.observation)
        np.testing.assert_array_equal(x.legal_action_mask, states.legal_action_mask)
        chosen = [game[ply] for game, ply in zip(moves, plies, strict=True)]
        np.testing.assert_array_equal(x.policy, np.eye(9)[chosen])
        signs = 1 - 2 * (plies % 2)
        np.testing.assert_array_equal(x.value, signs * [result_of(game) for game in moves])
        assert np.asarray(x.has_value).all()
        number += len(plies)
    assert number == sum(map(len, by_key.values()))


def test_statistics_are_hand_counts(tmp_path: Path) -> None:
    # The third game is the first one mirrored; the last one has a move of the opening.
    rows = [[0, 3, 1, 4, 2], [4, 0, 3, 1, 8, 2], [2, 5, 1, 4, 0]]
    last = {"moves": [4, 0, 8, 1, 5, 2], "opening": 1, "result": 1}
    file = write_games(tmp_path / "x.jsonl", [*rows, last])
    manifest = build(tmp_path / "set", "tic_tac_toe", [file], **ALL)
    assert manifest.counts == {
        **{"read": 4, "bad": 0, "duplicates": 1, "without_result": 0},
        **{"without_positions": 0, "contradicted": 1},
    }
    train = manifest.splits["train"]
    assert (train["games"], train["positions"], train["rows"]) == (3, 5 + 6 + 5, 16)
    assert train["results"] == {"first_wins": 1, "draws": 0, "second_wins": 2, "unknown": 0}
    assert train["lengths"] == {"5": 1, "6": 2}
    moves = [*rows[0], *rows[1], *last["moves"][1:]]
    assert train["moves"] == np.bincount(moves, minlength=9).tolist()
    assert manifest.files[0]["games"] == 4
    assert manifest.splits["test"]["games"] == manifest.splits["validation"]["shards"] == 0
    # Three positions occur twice: the start, 4, and 4 0.
    assert manifest.distinct["train"] == 13


def test_split_depends_on_the_game_alone(played: list[list[int]], tmp_path: Path) -> None:
    shares = {"validation": 0.2, "test": 0.3}
    first = write_games(tmp_path / "a.jsonl", played[:20])
    few = build(tmp_path / "few", "tic_tac_toe", [first], **shares)
    all_games = write_games(tmp_path / "b.jsonl", played[::-1])
    more = build(tmp_path / "more", "tic_tac_toe", [all_games], **shares)
    assert few.counts["read"] < more.counts["read"]
    found = {}
    for name in ("few", "more"):
        for split in SPLITS:
            for path in shard_paths(tmp_path / name, split):
                for key in read_shard(path).game_keys.tolist():
                    assert found.setdefault(key, split) == split == split_of(key, 0.2, 0.3)
    assert set(found.values()) == set(SPLITS)
    keys = np.random.default_rng(0).integers(2**64, size=10_000, dtype=np.uint64).tolist()
    counts = [[split_of(key, 0.2, 0.3) for key in keys].count(split) for split in SPLITS]
    np.testing.assert_allclose(counts, [5000, 2000, 3000], atol=150)


def test_symmetric_games_and_positions_have_equal_keys(
    played: list[list[int]], tmp_path: Path
) -> None:
    env, played = make("tic_tac_toe"), played[:3]
    table = games.symmetries(env).action
    images = [np.argsort(row)[moves].tolist() for moves in played for row in table]
    keys = {game_key(env, np.array(image), None) for image in images}
    assert len(keys) == 3
    file = write_games(tmp_path / "x.jsonl", images)
    manifest = build(tmp_path / "set", "tic_tac_toe", [file], **ALL)
    assert manifest.counts["duplicates"] == len(images) - 3


def test_a_kill_and_a_resumption_give_the_same_bytes(
    played: list[list[int]], tmp_path: Path
) -> None:
    file = write_games(tmp_path / "x.jsonl", [*played[:30], [0, 0], *played[30:], [9]])
    options = {"block": 16, "validation": 0.2, "test": 0.2}
    build(tmp_path / "whole", "tic_tac_toe", [file], merge=True, **options)
    expected = content(tmp_path / "whole")
    assert len(json.loads(expected["dataset.json"])["files"]) == 1
    assert sum(name.startswith("train") for name in expected) == 4
    for kill_after in (0, 3):
        killed = tmp_path / f"killed-{kill_after}"
        killed.mkdir()
        records, recipe = [open_records(file)], Recipe("tic_tac_toe", **options)
        blocks = build_shards(make("tic_tac_toe"), records, killed, recipe)
        for _ in range(kill_after):
            next(blocks)
        # A kill may leave a shard of the next block, half a row, and a half-written file.
        (killed / "parts").mkdir(exist_ok=True)
        (killed / "parts" / "train-00009.safetensors").write_bytes(b"damaged")
        with (killed / "parts" / "blocks.jsonl").open("ab") as blocks:
            blocks.write(b'{"number":')
        build(killed, "tic_tac_toe", [file], merge=True, **options)
        assert content(killed) == expected


def test_merging_keeps_counts_and_means(
    played: list[list[int]], folder: Path, tmp_path: Path
) -> None:
    file = write_games(tmp_path / "x.jsonl", played)
    merged = build(tmp_path / "set", "tic_tac_toe", [file], merge=True, block=8, **ALL)
    single = read_manifest(folder)
    assert merged.num_positions == single.num_positions
    assert merged.distinct == single.distinct
    groups: dict[int, list[float]] = {}
    for path in shard_paths(folder, "train"):
        shard = read_shard(path)
        for key, value in zip(shard.move_keys.tolist(), shard.values.tolist(), strict=True):
            groups.setdefault(key, []).append(value)
    found = [read_shard(path) for path in shard_paths(tmp_path / "set", "train")]
    rows = [x for s in found for x in zip(s.move_keys, s.counts, s.values, strict=True)]
    assert len(rows) == len(groups) == merged.splits["train"]["rows"]
    for key, count, value in rows:
        assert count == len(groups[int(key)])
        assert value == pytest.approx(np.mean(groups[int(key)]), abs=1e-6)


def test_move_keys_are_equal_for_symmetric_moves_of_a_symmetric_position(tmp_path: Path) -> None:
    """All corners are one first move of tic-tac-toe, and so are all edges."""
    rest = {0: [4, 1, 3, 2], 2: [4, 5, 1, 8], 1: [4, 0, 8, 7], 3: [4, 0, 8, 5]}
    rows = [[first, *moves] for first, moves in rest.items()]
    file = write_games(tmp_path / "x.jsonl", [{"moves": row, "result": 0} for row in rows])
    build(tmp_path / "set", "tic_tac_toe", [file], **ALL)
    [path] = shard_paths(tmp_path / "set", "train")
    shard = read_shard(path)
    starts = shard.plies == 0
    assert len(set(shard.keys[starts].tolist())) == 1
    assert len(set(shard.move_keys[starts].tolist())) == 2


def test_batches_are_full_and_their_order_depends_on_seed_and_epoch_only(folder: Path) -> None:
    env = make("tic_tac_toe")

    def order(**options: int) -> list[tuple[int, int]]:
        batches = load_dataset(folder, env=env, batch_size=64, buffer_bytes=2_000, **options)
        return [
            (int(k), int(p)) for x in batches for k, p in zip(x.game_keys, x.plies, strict=True)
        ]

    total = read_manifest(folder).num_positions
    for drop_last in (False, True):
        batches = load_dataset(folder, env=env, batch_size=64, drop_last=drop_last)
        rest = [total % 64] * (not drop_last)
        assert [len(x.plies) for x in batches] == [64] * (total // 64) + rest
    first = order(seed=3)
    assert first == order(seed=3)
    for other in (order(seed=4), order(seed=3, epoch=1), order(shuffle=False)):
        assert other != first
        assert sorted(other) == sorted(first)


def test_one_position_of_each_game_is_sampled_uniformly(folder: Path) -> None:
    env, plies = make("tic_tac_toe"), []
    num_games = read_manifest(folder).splits["train"]["games"]
    for epoch in range(20):
        [batch] = load_dataset(folder, env=env, one_per_game=True, epoch=epoch)
        assert len(set(batch.game_keys.tolist())) == len(batch.plies) == num_games
        plies += np.asarray(batch.plies).tolist()
    # Every game has at least five moves.
    counts = np.bincount(plies, minlength=9)[:5]
    assert counts.min() > 0.6 * counts.max()


def test_augmentation_gives_symmetric_positions(folder: Path) -> None:
    env = make("tic_tac_toe")
    tables = games.symmetries(env)
    batches = [list(load_dataset(folder, env=env, batch_size=40, augment=x)) for x in (False, True)]
    changed = 0
    for plain, moved in zip(*batches, strict=True):
        before, after = plain.positions, moved.positions
        np.testing.assert_array_equal(before.value, after.value)
        flat = np.asarray(before.observation).reshape(len(before.value), -1)
        same = np.stack(
            [
                (flat[:, o] == np.asarray(after.observation).reshape(flat.shape)).all(axis=1)
                & (np.asarray(before.policy)[:, a] == np.asarray(after.policy)).all(axis=1)
                for o, a in zip(*tables, strict=True)
            ]
        )
        assert same.any(axis=0).all()
        changed += (~same[0]).sum()
    assert changed > 0


def test_options_and_games_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a complete data set"):
        load_dataset(tmp_path)
    build(tmp_path / "set", "nim", [write_games(tmp_path / "x.jsonl", [[2] * 6 + [1]])], **ALL)
    for options, message in (
        ({"env": make("tic_tac_toe")}, "is a data set of nim, not of tic_tac_toe"),
        ({"split": "test"}, "has no positions in the split test; use more games"),
        ({"split": "dev"}, "split is 'dev'; it must be one of train, validation"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"one_per_game": "last"}, "one_per_game is 'last'; it must be"),
        ({"env": make("nim"), "augment": True}, "has no symmetries"),
        ({"env": games.make("nim", pile=6)}, "are not legal in nim; use the parameters"),
        ({"env": games.make("nim", max_take=2)}, "3 actions, but the game has 2; use the same"),
    ):
        with pytest.raises(UserError, match=message):
            list(load_dataset(tmp_path / "set", **options))


def test_values_are_unknown_before_a_random_move_and_without_a_result(tmp_path: Path) -> None:
    rows = [
        {"moves": [0, 3, 1, 4, 2], "random": [2]},
        {"moves": [4, 0], "result": None},
    ]
    file = write_games(tmp_path / "x.jsonl", rows)
    env = make("tic_tac_toe")
    build(tmp_path / "set", "tic_tac_toe", [file], unknown_results="keep", **ALL)
    [batch] = load_dataset(tmp_path / "set", env=env, shuffle=False)
    x = batch.positions
    assert np.asarray(batch.plies).tolist() == [0, 1, 0, 1, 3, 4]
    assert np.asarray(x.has_value).tolist() == [False] * 4 + [True] * 2
    assert np.asarray(x.value).tolist() == [0, 0, 0, 0, -1, 1]
    assert jax.tree.leaves(x)[0].shape[0] == 6
    skipped = build(tmp_path / "other", "tic_tac_toe", [file], **ALL)
    assert (skipped.counts["without_result"], skipped.splits["train"]["games"]) == (1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [bool, jnp.float32])
def test_keys_of_different_positions_differ(dtype: Any) -> None:
    """The low bits of the floats 0 and 1 are 0; the key must not depend on low bits alone."""
    env = make("tic_tac_toe")
    start = env.init(jax.random.PRNGKey(0))
    rows = np.random.default_rng(0).integers(2, size=(4096, *start.observation.shape))
    rows = np.unique(rows, axis=0)
    states = jax.tree.map(lambda x: jnp.broadcast_to(x, (len(rows), *x.shape)), start)
    states = states.replace(observation=jnp.asarray(rows, dtype))
    keys = np.asarray(position_keys(env)(states, jnp.zeros(len(rows), jnp.int32)).position)
    images = rows.reshape(len(rows), -1)[:, games.symmetries(env).observation]
    assert len(np.unique(keys, axis=0)) == len({min(map(bytes, x)) for x in images})
