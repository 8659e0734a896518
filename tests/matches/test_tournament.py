"""Tournaments: saved games, resumption, and the games that the host plays."""

import dataclasses
import functools
import json
import pathlib
import random
import re
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
from dualmctx import AlphaZero, make_network
from dualmctx.errors import UserError
from dualmctx.matches.arena import make_games
from dualmctx.matches.game_file import Game, count_results, read_games, reopen_games
from dualmctx.matches.host_games import play_on_host
from dualmctx.matches.openings import empty_openings, open_openings, to_action_rows
from dualmctx.matches.players import (
    Mover,
    Player,
    batched_move_fn,
    host_mover,
    perfect_player,
    random_player,
    search_player,
)
from dualmctx.matches.tournament import (
    Tournament,
    pair_keys,
    play_batches,
    play_tournament,
    round_robin,
)
from dualmctx.matches.usage import sample_positions, seconds_per_move
from dualmctx.models.network import Network
from dualmctx.runs.journal import write_rows

ENV = games.make("connect2")
OPENINGS = ((), (0,), (1,), (2,), (3,))
SEARCH = AlphaZero(5)


@functools.cache
def network() -> tuple[Network, Any]:
    made = make_network(ENV.num_actions, ENV.observation_shape, width=4, num_blocks=2)
    return made, made.init(jax.random.PRNGKey(0), jnp.zeros((1, *ENV.observation_shape)))


def free_cell(history: list[int], seed: int) -> int:
    return random.Random(seed).choice([cell for cell in range(4) if cell not in history])


HOST = Player("host", host_mover(free_cell), about={"kind": "any free cell"})


def tournament(**changes: Any) -> Tournament:
    players = (search_player("net", ENV, *network(), SEARCH), perfect_player(ENV), HOST)
    made = Tournament(ENV, players, OPENINGS, round_robin(3), seed=1, batch_size=2)
    return dataclasses.replace(made, **changes)


def play_all(folder: pathlib.Path, **changes: Any) -> list[Game]:
    return [x for games in play_batches(tournament(**changes), folder) for x in games]


class Whole(NamedTuple):
    """A tournament without interruption: its folder, the games that it yielded, its files."""

    folder: pathlib.Path
    games: list[Game]
    files: dict[str, bytes]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    folder = tmp_path_factory.mktemp("whole") / "new"
    return Whole(folder, play_all(folder), {x.name: x.read_bytes() for x in folder.iterdir()})


@pytest.fixture
def folder(whole: Whole, tmp_path: pathlib.Path) -> pathlib.Path:
    """A copy of the tournament's folder."""
    for name, content in whole.files.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


def plain_result(moves: tuple[int, ...]) -> int:
    """Plays Connect2 in plain Python; returns the result of the first side."""
    cells = [0] * 4
    for ply, cell in enumerate(moves):
        assert cells[cell] == 0
        cells[cell] = 1 if ply % 2 == 0 else -1
        won = any(cells[i] == cells[i + 1] == cells[cell] for i in range(3))
        assert not won or ply == len(moves) - 1
    assert won or len(moves) == 4
    return cells[moves[-1]] if won else 0


@pytest.mark.slow
def test_each_pairing_plays_each_opening_on_both_sides(whole: Whole) -> None:
    expected = [
        (names[::side], pair)
        for start in (0, 2, 4)
        for names in (("net", "perfect"), ("host", "net"), ("host", "perfect"))
        for pair in range(start, min(start + 2, 5))
        for side in (1, -1)
    ]
    assert [(game.players, game.pair) for game in whole.games] == expected
    for game in whole.games:
        assert game.moves[: game.opening] == OPENINGS[game.pair]
        assert game.result == plain_result(game.moves)
        chosen = range(game.opening, len(game.moves))
        assert game.num_chosen == tuple(sum(ply % 2 == side for ply in chosen) for side in (0, 1))
        assert game.is_over
        assert game.seed == 1
    assert read_games(whole.folder / "games.jsonl") == whole.games
    # Pairs with the same number share an opening.
    results = count_results(("host", "net", "perfect"), whole.games)
    assert results.by_opening.sum((1, 2, 3, 4)).tolist() == [3] * 5
    # The pairings are the default, and no folder is needed.
    made = tournament(players=list(tournament().players), pairings=())
    assert list(made.pairings) == [(0, 1), (0, 2), (1, 2)]
    assert play_tournament(made) == whole.games


def test_positions_of_games_are_sampled_and_players_timed_in_them(whole: Whole) -> None:
    positions = sample_positions(whole.games, 6, seed=0)
    known = {x.moves[:ply] for x in whole.games for ply in range(x.opening, len(x.moves))}
    assert len(positions) == 6
    assert set(positions) <= known
    for player in tournament().players[1:]:
        assert seconds_per_move(ENV, player, positions) > 0


@pytest.mark.parametrize("kept", [0, 3.5])
def test_resumed_tournament_plays_the_same_games(
    kept: float, whole: Whole, folder: pathlib.Path
) -> None:
    """Simulates a kill after `kept` games, also in the middle of a line or of a pair."""
    file = folder / "games.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    part = lines[int(kept)][: int(len(lines[0]) * (kept % 1))]
    file.write_bytes(b"".join(lines[: int(kept)]) + part)
    assert play_all(folder) == whole.games[int(kept) // 2 * 2 :]
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == whole.files
    assert play_all(folder) == []


@pytest.mark.slow
def test_players_and_openings_can_be_added(whole: Whole, tmp_path: pathlib.Path) -> None:
    few: dict[str, Any] = {"players": tournament().players[:0:-1], "pairings": round_robin(2)}
    first = play_all(tmp_path, **few, openings=OPENINGS[:3])
    rest = play_all(tmp_path)
    assert sorted([*first, *rest]) == sorted(whole.games)
    settings = json.loads((tmp_path / "config.json").read_text())
    assert settings == json.loads(whole.files["config.json"])


def test_different_tournament_in_folder_raises(whole: Whole, folder: pathlib.Path) -> None:
    other_host = dataclasses.replace(HOST, about={})
    kind = "kind (any free cell → None)"
    for changes, line in (
        ({"seed": 2, "about": {"pile": 3}}, "pile (None → 3), seed (1 → 2)"),
        ({"openings": ((1,), (0,))}, "openings.0 ([] → [1])"),
        ({"players": (other_host, random_player()), "pairings": ()}, f"players.host.{kind}"),
    ):
        expected = f"the run in {folder} has another configuration: {line}; "
        with pytest.raises(UserError, match=f"^{re.escape(expected)}"):
            play_all(folder, **changes)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == whole.files


ROW = {
    **{"players": ["a", "b"], "pair": 0, "seed": 0, "opening": 0, "moves": [0, 1, 2]},
    **{"result": 0, "is_over": True, "num_chosen": [2, 1]},
}


def test_damaged_files_are_refused(whole: Whole, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "games.jsonl"
    write_rows(file, [ROW, ROW | {"players": ["a"]}])
    before = file.read_bytes()
    for read in (read_games, reopen_games):
        with pytest.raises(UserError, match=r"games.jsonl, line 2 is \{[^\n]+; it must be an obj"):
            read(file)
    assert file.read_bytes() == before
    with pytest.raises(UserError, match=r"none\.jsonl does not exist$"):
        read_games(tmp_path / "none.jsonl")
    write_rows(
        file, [ROW | {"players": game.players, "pair": game.pair} for game in whole.games[2:]]
    )
    line = r"^games.jsonl has pair 1 of net and perfect instead of pair 0"
    with pytest.raises(UserError, match=line):
        next(play_batches(tournament(), tmp_path))


def test_damaged_settings_are_named(folder: pathlib.Path) -> None:
    file = folder / "config.json"
    whole = json.loads(file.read_text())
    for damage, line in (
        ({"openings": 3}, r"openings is 3; it must be a list, each element a list, each element"),
        ({"players": {"host": 1}}, "players is .*; it must be names, each with an object"),
    ):
        file.write_text(json.dumps(whole | damage))
        with pytest.raises(UserError, match=f"config.json: {line}"):
            next(play_batches(tournament(), folder))
        assert json.loads(file.read_text()) == whole | damage


# In the first position Black is to move, and White has two queens against a king.
HANDICAPS = (
    ("k4/5/2KQ1/4Q/5 b - - 0 20",),
    ("k4/5/2KQ1/4Q/5 w - - 0 20",),
    ("rnbqk/ppppp/5/PPPPP/RNB1K w - - 0 1", 307),
    (307, 1042),
)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"players": (HOST, HOST)}, "name 'host' is empty or duplicate; player names must differ"),
        ({"players": (HOST,), "pairings": ()}, "number of players is 1; pass at least two, or one"),
        ({"pairings": ((0, 3),)}, "pairing is (0, 3); it must be two indices from 0 to 2"),
        ({"pairings": ((0, 1), (1, 0))}, "two players have two pairings; add openings instead"),
        ({"batch_size": 0}, "batch_size is 0; it must be at least 1"),
        ({"openings": ()}, "there are no openings; pass at least one, which may be ()"),
        ({"max_plies": 1, "openings": ((0,),)}, "max_plies is 1; it must exceed the longest ope"),
        ({"openings": ((1, 1),)}, "opening [1, 1]: move 2, '2', is illegal"),
        ({"openings": ((0, 3, 1),)}, "the game is over after opening [0, 3, 1]; leave it out"),
        ({"openings": (HANDICAPS[0],)}, f"opening {[*HANDICAPS[0]]}: connect2 has no FEN: it is"),
    ],
)
def test_invalid_tournament_raises(changes: dict, line: str) -> None:
    with pytest.raises(UserError, match=f"^{re.escape(line)}"):
        tournament(**changes)


def test_player_can_play_against_itself(tmp_path: pathlib.Path) -> None:
    assert round_robin(2, with_self=True) == ((0, 0), (0, 1), (1, 1))
    changes = {"players": (random_player(),), "pairings": round_robin(1, with_self=True)}
    changes |= {"openings": tuple(empty_openings(40)), "batch_size": 40}
    played = play_all(tmp_path, **changes)
    assert len(played) == 80
    # The two games of a pair sample independently.
    assert sum(a.moves != b.moves for a, b in zip(played[::2], played[1::2], strict=True)) > 20


@pytest.mark.slow
def test_host_games_match_device_games() -> None:
    def start(params: Any, state: Any) -> Any:
        """Returns counts of the cells chosen by the opponent and by the player itself."""
        return jnp.zeros((*state.current_player.shape, 2, 4), jnp.int32)

    def choose(params: Any, rng_key: Any, state: Any, seen: Any) -> tuple[Any, Any]:
        near = jnp.roll(seen[:, 0], 1, axis=-1) * 3.0 - jnp.roll(seen[:, 1], 1, axis=-1)
        logits = jnp.where(state.legal_action_mask, near + params, -jnp.inf)
        action = jax.vmap(jax.random.categorical)(rng_key, logits).astype(jnp.int32)
        return action, seen.at[:, 1].add(jax.nn.one_hot(action, 4, dtype=jnp.int32))

    def observe(seen: Any, action: Any) -> Any:
        return seen.at[:, 0].add(jax.nn.one_hot(action, 4, dtype=jnp.int32))

    movers = Mover(start, choose, observe), batched_move_fn(games.random_player())
    params = (jnp.array([0.0, 1.0, 0.0, 2.0]), None)
    numbers, openings = np.arange(20), to_action_rows([(), (0,), (3,), ()] * 5)
    keys = pair_keys(0, "a", "b", numbers)
    others = [pair_keys(seed, *names, numbers) for seed, names in ((1, "ab"), (0, "ac"), (0, "bc"))]
    assert len(np.unique(np.concatenate([keys, *others]), axis=0)) == 80
    expected = jax.jit(make_games(ENV, movers, max_plies=6))(params, keys, openings)
    found, failures = play_on_host(ENV, movers, params, keys, openings, 6)
    assert failures == {}
    jax.tree.map(np.testing.assert_array_equal, found, jax.device_get(expected))


def test_host_mover_is_called_only_on_its_turns() -> None:
    asked: list[tuple[tuple[int, ...], int]] = []

    def choose(histories: list[list[int]], seeds: list[int]) -> list[int]:
        asked.extend((tuple(x), seed) for x, seed in zip(histories, seeds, strict=True))
        return [*map(free_cell, histories, seeds)]

    mover = HOST.mover._replace(choose=choose)
    keys, openings = pair_keys(0, "a", "b", np.arange(3)), to_action_rows([(), (0,), (3,)])
    record, _ = play_on_host(ENV, (mover, HOST.mover), (None, None), keys, openings, 9)
    expected = []
    for row in range(2):
        for actions, opening in zip(record.actions[row], openings, strict=True):
            moves = actions[actions >= 0].tolist()
            start = int(np.sum(opening >= 0))
            expected += [tuple(moves[:ply]) for ply in range(start, len(moves)) if ply % 2 == row]
    assert sorted(x for x, _ in asked) == sorted(expected)
    assert len({seed for _, seed in asked}) == len(asked)
    assert all(0 <= seed < 2**31 for _, seed in asked)
    # The last batch has one pair; the pair that fills it is not played.
    asked.clear()
    players = HOST, Player("other", mover)
    played = play_tournament(tournament(players=players, pairings=(), openings=OPENINGS[:3]))
    assert len(asked) == sum(x.num_chosen[x.players.index("other")] for x in played)


@pytest.mark.slow
def test_non_finite_network_ends_the_tournament(tmp_path: pathlib.Path) -> None:
    made, params = network()
    broken = jax.tree.map(lambda x: jnp.full_like(x, jnp.nan), params)
    players = (search_player("net", ENV, made, broken, SEARCH), *tournament().players[1:])
    both = tournament(players=players, pairings=((1, 2), (0, 1)), openings=OPENINGS[:2])
    batches = play_batches(both, tmp_path)
    assert len(next(batches)) == 4
    line = r"^player 'net' could not choose a move, [^\n]* NaN [^\n]*another checkpoint[^\n]*$"
    with pytest.raises(UserError, match=line):
        next(batches)
    assert len(read_games(tmp_path / "games.jsonl")) == 4


@pytest.mark.slow
def test_players_share_programs_but_not_parameters(tmp_path: pathlib.Path) -> None:
    def player(search: Any) -> Player:
        return search_player("a", ENV, *network(), search)

    assert player(SEARCH.for_evaluation()).mover is player(SEARCH.for_evaluation()).mover
    assert player(SEARCH.for_evaluation()).mover is not player(SEARCH).mover
    traced: list[int] = []

    def prefer(params: Any, rng_key: Any, state: Any) -> Any:
        traced.append(len(state.current_player))
        legal = state.legal_action_mask
        return jnp.where(legal[:, params], params, jnp.argmax(legal, axis=-1))

    cells = {"left": 0, "middle": 2, "right": 3}
    players = tuple(Player(name, prefer, jnp.int32(cell)) for name, cell in cells.items())
    played = play_all(tmp_path, players=players, openings=((),))
    assert len(played) == 6
    for game in played:
        assert game.moves[:2] == tuple(cells[name] for name in game.players)
    assert traced == [2]


@pytest.mark.slow
def test_games_start_from_fens(tmp_path: pathlib.Path) -> None:
    env = games.make("gardner_chess")
    players = random_player("one"), random_player("other")
    made = Tournament(env, players, HANDICAPS, batch_size=4, max_plies=9)
    [played] = play_batches(made, tmp_path)
    assert read_games(tmp_path / "games.jsonl") == played
    assert [game.history(game.opening) for game in played[::2]] == list(HANDICAPS)
    assert [game.fen is None for game in played[::2]] == [False, False, False, True]
    lines = [*HANDICAPS, *(game.history(len(game.moves)) for game in played)]
    opened = open_openings(env, lines)
    assert not opened.errors
    assert opened.is_over[4:].tolist() == [game.is_over for game in played]
    # White, player 0 after a FEN, has the first side, also if Black is to move.
    rewards = opened.states_on_host.rewards[4:10, 0]
    assert rewards.tolist() == [game.result for game in played[:6]]
    assert {1} <= {game.result for game in played[:4]} <= {0, 1}
    assert opened.sides[:4].tolist() == [1, 0, 1, 0]
    # Host movers receive only the actions.
    with pytest.raises(UserError, match=r"^player 'host' runs on the host .* remove openings"):
        dataclasses.replace(made, players=(players[0], HOST))
