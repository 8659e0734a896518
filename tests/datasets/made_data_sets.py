"""Random games as records, and small data sets, for tests of data sets."""

import functools
import json
from pathlib import Path
from typing import Any

import jax
import numpy as np

import games
from dualmctx.commands.main import main
from dualmctx.datasets.build import Recipe, build_shards, finish
from dualmctx.datasets.manifest import Manifest
from dualmctx.datasets.records import open_records

ALL = ("--validation", "0", "--test", "0")
"""The flags of data sets in which all games are for training."""


def run(*arguments: Any) -> int:
    return main(["dataset", *map(str, arguments)])


@functools.cache
def make(game: str) -> Any:
    """Makes each game once, so that programs compile once."""
    return games.make(game)


def play_randomly(game: str, number: int, seed: int = 0) -> list[list[int]]:
    """Plays random games to their end, one by one; much slower than the package, and simpler."""
    env, rng = make(game), np.random.default_rng(seed)
    init, step = jax.jit(env.init), jax.jit(env.step)
    played = []
    for _ in range(number):
        state, moves = init(jax.random.PRNGKey(0)), []
        while not state.terminated:
            moves.append(int(rng.choice(np.flatnonzero(state.legal_action_mask))))
            state = step(state, moves[-1])
        played.append(moves)
    return played


def result_of(moves: list[int]) -> float:
    """Returns the first player's result of tic-tac-toe so far."""
    lines = [*(range(i, i + 3) for i in (0, 3, 6)), *(range(i, 9, 3) for i in range(3))]
    lines += [range(0, 9, 4), range(2, 7, 2)]
    for player, value in ((0, 1.0), (1, -1.0)):
        if any(set(line) <= set(moves[player::2]) for line in lines):
            return value
    return 0.0


def write_games(path: Path, played: list[Any]) -> Path:
    rows = [game if isinstance(game, dict) else {"moves": game} for game in played]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def build(folder: Path, game: str, files: list[Path], **options: Any) -> Manifest:
    """Makes a data set in a folder, which may hold an interrupted one."""
    folder.mkdir(exist_ok=True)
    env, records = make(game), [open_records(file) for file in files]
    recipe = Recipe(game, **options)
    for _ in build_shards(env, records, folder, recipe):
        pass
    return finish(env, folder, records, recipe, {})


def content(folder: Path) -> dict[str, bytes]:
    return {str(x.relative_to(folder)): x.read_bytes() for x in folder.rglob("*") if x.is_file()}
