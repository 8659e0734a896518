"""Games for the value network: phases, marks, results, dropped games, resuming."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chisquare

import games
from dualmctx.datasets import load_dataset, read_manifest, read_shard
from dualmctx.datasets.manifest import Manifest
from dualmctx.datasets.shards import shard_paths
from dualmctx.errors import UserError
from dualmctx.pipeline.config import ValueConfig
from dualmctx.pipeline.options import ValueOptions
from dualmctx.pipeline.value_games import Policies, make_value_games
from made_data_sets import result_of

ENV = games.make("tic_tac_toe")
OPTIONS = ValueOptions(
    num_games=600, max_opening_plies=8, games_per_batch=128, test_share=0.25, batch_size=20
)


def fixed_logits(params: jax.Array, observation: jax.Array) -> jax.Array:
    """A policy that is the same in all positions: its parameters are the logits."""
    return jnp.broadcast_to(params, (len(observation), 9))


# One policy takes the lowest legal cell, the other one the highest, with certainty.
LOWEST, HIGHEST = -1e3 * np.arange(9.0), 1e3 * np.arange(9.0)
POLICIES = Policies(fixed_logits, jnp.asarray(LOWEST), jnp.asarray(HIGHEST))
NAN = POLICIES._replace(reinforced=jnp.full(9, jnp.nan))


def make_games(
    folder: Path, policies: Policies = POLICIES, seed: int = 3, **changes: Any
) -> Manifest:
    options = dataclasses.replace(OPTIONS, **changes)
    config = ValueConfig(game="tic_tac_toe", seed=seed, value=options)
    return make_value_games(ENV, policies, config, folder, print)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("value") / "games"
    make_games(path)
    return path


def lines_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "games.jsonl").read_text().splitlines()]


def is_over(moves: list[int]) -> bool:
    return len(moves) == 9 or result_of(moves) != 0


def test_each_move_is_of_the_policy_of_its_phase(folder: Path) -> None:
    lines = lines_of(folder)
    assert [line["number"] for line in lines] == [*range(OPTIONS.num_games)]
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
        assert line["result"] == result_of(moves)
    # A random first move is any of nine, and the random moves come at uniform plies.
    assert counts.sum() > 45
    assert chisquare(counts).pvalue > 0.001
    openings = [line.get("opening", 0) + 1 for line in lines]
    assert openings == sorted(openings)
    counts = np.bincount(openings, minlength=9)[1:]
    assert len(counts) == OPTIONS.max_opening_plies
    assert chisquare(counts).pvalue > 0.001


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
                np.testing.assert_array_equal(values, sides * result_of(moves))
                kept.append(number - 1)
    assert len(set(kept)) == len(kept)
    dropped = [line for line in lines if len(line["moves"]) < line.get("opening", 0) + 2]
    assert manifest.counts["without_positions"] == len(dropped) > 0
    assert len(kept) == OPTIONS.num_games - len(dropped)
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
        wanted.append((opening, (1 - 2 * (opening % 2)) * result_of(line["moves"])))
    assert sorted(found) == sorted(wanted)


def test_games_that_are_missing_are_played_again(folder: Path, tmp_path: Path) -> None:
    """The data set continues as those of engines; here a kill has left 200 games of 600."""
    path = tmp_path / "killed"
    path.mkdir()
    (path / "config.json").write_bytes((folder / "config.json").read_bytes())
    lines = (folder / "games.jsonl").read_bytes().splitlines(keepends=True)
    (path / "games.jsonl").write_bytes(b"".join(lines[:200]) + lines[200][:20])
    make_games(path)
    for file in folder.iterdir():
        if file.is_file():
            assert file.read_bytes() == (path / file.name).read_bytes(), file.name
    # A further call only reads, and refuses games of other policies or options.
    assert make_games(path) == read_manifest(folder)
    for changes in ({"policies": NAN}, {"seed": 4}, {"max_plies": 99}):
        with pytest.raises(UserError, match="has another configuration"):
            make_games(path, **changes)


def test_default_openings_reach_the_longest_game_of_the_supervised_policy(tmp_path: Path) -> None:
    manifest = make_games(tmp_path / "games", num_games=128, max_opening_plies=None)
    # The lowest cells win in the seventh move: 0 1 2 3 4 5 6.
    assert manifest.settings["engine"]["max_opening_plies"] == 6
    assert max(line.get("opening", 0) + 1 for line in lines_of(tmp_path / "games")) == 6


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        # With U above the length of every game, all of them are dropped.
        (
            {"num_games": 20, "max_opening_plies": 1023},
            "a largest U below 1023 with .*-opening-plies, or more plies, in another folder",
        ),
        ({"num_games": 128, "policies": NAN}, "is NaN or infinite; use another checkpoint"),
    ],
)
def test_games_that_cannot_be_learned_are_an_error(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message):
        make_games(tmp_path / "games", **changes)
