"""Tournaments: saved games, resumption, openings, and players of other libraries."""

import dataclasses
import functools
import json
import pathlib
import random
import re
import sys
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
from documents import table
from dualmctx import AlphaGo, AlphaZero, Chain, Dual, make_network
from dualmctx.errors import UserError
from dualmctx.matches import tournament as tournaments
from dualmctx.matches.arena import make_games
from dualmctx.matches.external_players import host_mover, openspiel_mcts, perfect_connect_four
from dualmctx.matches.game_file import Game, append_games, count_results, read_games, reopen_games
from dualmctx.matches.host_games import play_on_host
from dualmctx.matches.movers import Mover, batched_move_fn
from dualmctx.matches.openings import (
    accept_balanced,
    empty_openings,
    find_starts,
    position_digests,
    random_openings,
    to_action_rows,
)
from dualmctx.matches.players import Player, perfect_player, random_player, search_player
from dualmctx.matches.tournament import (
    Tournament,
    pair_keys,
    play_batches,
    play_tournament,
    round_robin,
)
from dualmctx.matches.usage import count_usage, sample_positions, seconds_per_move
from dualmctx.models.network import Network, SeparateTrunks
from dualmctx.policies.costs import FREE, MoveCost, move_cost
from dualmctx.ratings.elo import rate
from dualmctx.runs.journal import write_rows
from policy_table import COUNTS, VALUE_DEPTHS

ENV = games.make("connect2")
OPENINGS = ((), (0,), (1,), (2,), (3,))
START = "rnbqk/ppppp/5/PPPPP/RNBQK w - - 0 1"
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


def test_tournament_without_a_folder_returns_its_games(whole: tuple[bytes, list[Game]]) -> None:
    names = [player.name for player in tournament().players]
    made = tournament(players=list(tournament().players), pairings=())
    assert list(made.pairings) == [(0, 1), (0, 2), (1, 2)]
    assert play_tournament(made) == whole[1]
    assert count_results(names, whole[1]).players == tuple(names)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, list[Game]]:
    """Returns the file of a tournament without interruption, and the games that it yielded."""
    folder = tmp_path_factory.mktemp("whole") / "new"
    played = play_all(folder)
    return (folder / "games.jsonl").read_bytes(), played


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


def test_each_pairing_plays_each_opening_on_both_sides(whole: Any) -> None:
    _, played = whole
    expected = [
        (names[::side], pair)
        for start in (0, 2, 4)
        for names in (("net", "perfect"), ("host", "net"), ("host", "perfect"))
        for pair in range(start, min(start + 2, 5))
        for side in (1, -1)
    ]
    assert [(game.players, game.pair) for game in played] == expected
    for game in played:
        opening = OPENINGS[game.pair]
        assert game.moves[: game.opening] == opening
        assert game.result == plain_result(game.moves)
        chosen = range(game.opening, len(game.moves))
        assert game.num_chosen == tuple(sum(ply % 2 == side for ply in chosen) for side in (0, 1))
        assert game.is_over
        assert game.seed == 1


def test_opening_rows_are_computed_once(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two pairings and three batches share the rows."""
    players = tuple(dataclasses.replace(HOST, name=name) for name in "abc")
    made = tournament(players=players, pairings=((0, 1), (0, 2)))
    rows = Mock(wraps=to_action_rows)
    monkeypatch.setattr(tournaments, "to_action_rows", rows)
    played = [game for games in play_batches(made, tmp_path) for game in games]
    assert rows.call_count == 1
    assert {game.pair: game.moves[: game.opening] for game in played} == dict(enumerate(OPENINGS))


def test_pairs_of_games_have_distinct_keys() -> None:
    numbers = np.arange(50)
    players = (("a", "b"), ("a", "c"), ("b", "c"), ("ab", ""), ("a", "a"))
    found = [pair_keys(seed, *names, numbers) for seed in (0, 1) for names in players]
    keys = np.concatenate(found)
    assert len(np.unique(keys, axis=0)) == len(keys) == 500
    # The key of a pair does not depend on the other pairs.
    np.testing.assert_array_equal(pair_keys(0, "a", "b", numbers[7:9]), found[0][7:9])


def test_saved_games_can_be_replayed(whole: Any, tmp_path: pathlib.Path) -> None:
    content, played = whole
    file = tmp_path / "games.jsonl"
    file.write_bytes(content)
    saved = read_games(file)
    assert saved == played
    rows = to_action_rows([game.moves for game in saved])
    states, start = games.replay(ENV, rows), games.replay(ENV, rows[:, :0])
    assert states.terminated.all()
    first = np.asarray(start.current_player)
    rewards = np.asarray(states.rewards)[np.arange(len(saved)), first]
    assert rewards.tolist() == [game.result for game in saved]


def test_results_count_pairs(whole: Any) -> None:
    _, played = whole
    results = count_results(("host", "net", "perfect"), played)
    expected = np.zeros((3, 3, 3, 3), int)
    for first, second in zip(played[::2], played[1::2], strict=True):
        i, j = (results.players.index(name) for name in first.players)
        expected[i, j, first.result + 1, 1 - second.result] += 1
    np.testing.assert_array_equal(results.pairs, expected)
    some = count_results(("perfect", "net"), played)
    np.testing.assert_array_equal(some.pairs, results.select(("perfect", "net")).pairs)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kept", [0, 1, 2, 3.5, 7, 12, 29.1])
def test_resumed_tournament_plays_the_same_games(
    kept: float, whole: Any, tmp_path: pathlib.Path
) -> None:
    """Simulates a kill after `kept` games, also in the middle of a line or of a pair."""
    content, played = whole
    play_all(
        tmp_path / "t", openings=OPENINGS[:1]
    )  # writes the settings; its games are overwritten below
    lines = content.splitlines(keepends=True)
    part = b"".join(lines[: int(kept)]) + lines[int(kept)][: int(len(lines[0]) * (kept % 1))]
    file = tmp_path / "t" / "games.jsonl"
    file.write_bytes(part)
    fresh = play_all(tmp_path / "t")
    assert file.read_bytes() == content
    assert fresh == played[int(kept) // 2 * 2 :]
    assert play_all(tmp_path / "t") == []


def test_players_and_openings_can_be_added(whole: Any, tmp_path: pathlib.Path) -> None:
    _, played = whole
    few = tournament().players[:0:-1]
    first = play_all(tmp_path, players=few, pairings=round_robin(2), openings=OPENINGS[:3])
    rest = play_all(tmp_path)
    by_name = {(game.players, game.pair): game for game in (*first, *rest)}
    assert by_name == {(game.players, game.pair): game for game in played}
    # A tournament with fewer players and openings does not change the files.
    assert play_all(tmp_path, players=few, pairings=round_robin(2), openings=OPENINGS[:3]) == []
    assert len(json.loads((tmp_path / "tournament.json").read_text())["openings"]) == 5


@pytest.mark.slow
def test_games_do_not_depend_on_batch_size(whole: Any, tmp_path: pathlib.Path) -> None:
    _, played = whole
    others = play_all(tmp_path, batch_size=5)
    assert sorted(others) == sorted(played)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"seed": 2, "batch_size": 3, "about": {"pile": 3}},
            "has different settings: about.pile (None → 3), batch_size (2 → 3), seed (1 → 2); "
            "choose another folder",
        ),
        (
            {"openings": ((1,), (0,))},
            "has different openings (pair 0: [] → [1]); choose another folder",
        ),
        (
            {"players": (dataclasses.replace(HOST, about={}),), "pairings": ()},
            "has a different player 'host': about.kind (any free cell → None); choose another "
            "name or folder",
        ),
    ],
)
def test_different_tournament_in_folder_raises(
    changes: dict, line: str, whole: Any, tmp_path: pathlib.Path
) -> None:
    next(play_batches(tournament(), tmp_path))
    (tmp_path / "games.jsonl").write_bytes(whole[0])
    with pytest.raises(ValueError, match=re.escape(f"the tournament in {tmp_path} {line}") + "$"):
        play_all(tmp_path, **changes)
    assert (tmp_path / "games.jsonl").read_bytes() == whole[0]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"players": (HOST, HOST)},
            "name 'host' is empty or duplicate; player names must differ",
        ),
        ({"pairings": ((0, 3),)}, "pairing is (0, 3); its indices must be from 0 to 2"),
        (
            {"pairings": ((0, 1), (1, 0))},
            "two players have two pairings; add openings instead",
        ),
        ({"batch_size": 0}, "batch_size is 0; it must be at least 1"),
        ({"openings": ()}, "there are no openings; pass at least one, which may be ()"),
        (
            {"max_plies": 2, "openings": ((0, 1),)},
            "max_plies is 2; it must exceed the longest opening, 2",
        ),
        ({"openings": ((1, 1),)}, "opening [1, 1]: move 2, '2', is illegal"),
        ({"openings": ((0, 3, 1),)}, "the game is over after opening [0, 3, 1]; leave it out"),
    ],
)
def test_invalid_tournament_raises(changes: dict, line: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(line)}$"):
        tournament(**changes)


def test_a_journal_of_something_else_is_refused(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "games.jsonl"
    for row in ({}, {"players": ["a"]}, {"number": 0, "moves": [1]}, GAME | {"players": ["a"]}):
        write_rows(file, [GAME, row])
        before = file.read_bytes()
        for read in (read_games, reopen_games):
            with pytest.raises(UserError, match=r"games.jsonl, line 2 is not a game: [^\n]+$"):
                read(file)
        assert file.read_bytes() == before


GAME = {
    **{"players": ["a", "b"], "pair": 0, "seed": 0, "opening": 0, "moves": [0, 1, 2]},
    **{"result": 0, "is_over": True, "num_chosen": [2, 1]},
}


def test_games_of_a_missing_file_are_an_error(tmp_path: pathlib.Path) -> None:
    with pytest.raises(UserError, match=r"games\.jsonl does not exist$"):
        read_games(tmp_path / "games.jsonl")
    assert reopen_games(tmp_path / "games.jsonl")[1] == []


def test_missing_pair_raises(whole: Any, tmp_path: pathlib.Path) -> None:
    next(play_batches(tournament(), tmp_path))
    write_rows(tmp_path / "games.jsonl", [game._asdict() for game in whole[1][2:]])
    with pytest.raises(
        ValueError, match=r"^games.jsonl has pair 1 of net and perfect instead of pair 0"
    ):
        next(play_batches(tournament(), tmp_path))


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", "\0" * 9, '{"openings": [], "players": 3}', '{"openings": 1, "players": {}}'],
)
def test_damaged_settings_are_named(content: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "tournament.json").write_text(content)
    with pytest.raises(UserError, match=r"tournament.json cannot be read \(.*; choose another"):
        next(play_batches(tournament(), tmp_path))
    assert (tmp_path / "tournament.json").read_text() == content


@pytest.mark.slow
def test_large_batches_play_the_same_games(tmp_path: pathlib.Path) -> None:
    """All games run in one batch, and are the same as in a small batch."""
    made = {
        "players": (search_player("net", ENV, *network(), SEARCH), random_player()),
        "pairings": ((0, 1),),
        "openings": OPENINGS[:2] * 1024,
        "batch_size": 2048,
    }
    [played] = play_batches(tournament(**made), tmp_path / "large")
    assert len(played) == 4096
    some = play_all(tmp_path / "small", **made | {"openings": OPENINGS[:2] * 4, "batch_size": 8})
    assert some == played[:16]
    assert len({game.moves for game in played}) > 10
    assert all(game.result == plain_result(game.moves) for game in played)


def test_round_robin_pairings() -> None:
    assert round_robin(3) == ((0, 1), (0, 2), (1, 2))
    assert round_robin(2, with_self=True) == ((0, 0), (0, 1), (1, 1))


def test_player_can_play_against_itself(tmp_path: pathlib.Path) -> None:
    opponent = random_player()
    changes = {"players": (opponent,), "pairings": round_robin(1, with_self=True)}
    played = play_all(tmp_path, **changes, openings=tuple(empty_openings(40)))
    assert len(played) == 80
    assert play_all(tmp_path, **changes, openings=tuple(empty_openings(40))) == []
    # The two games of a pair sample independently.
    assert sum(a.moves != b.moves for a, b in zip(played[::2], played[1::2], strict=True)) > 20


def test_perfect_play_is_rated_above_random_play(tmp_path: pathlib.Path) -> None:
    players = (random_player(), perfect_player(ENV))
    changes = {"players": players, "pairings": ((0, 1),), "openings": tuple(empty_openings(60))}
    played = play_all(tmp_path, **changes, batch_size=60)
    rows = rate(count_results(("random", "perfect"), played), anchor="random").players
    assert rows[1].low > 100
    assert rows[1].losses < rows[1].wins


def no_cells(params: Any, state: Any) -> Any:
    """Returns counts of the cells chosen by the opponent and by the player itself."""
    return jnp.zeros((*state.current_player.shape, 2, 4), jnp.int32)


def choose_by_memory(params: Any, rng_key: Any, state: Any, seen: Any) -> tuple[Any, Any]:
    near = jnp.roll(seen[:, 0], 1, axis=-1) * 3.0 - jnp.roll(seen[:, 1], 1, axis=-1)
    logits = jnp.where(state.legal_action_mask, near + params, -jnp.inf)
    action = jax.vmap(jax.random.categorical)(rng_key, logits).astype(jnp.int32)
    return action, seen.at[:, 1].add(jax.nn.one_hot(action, 4, dtype=jnp.int32))


def see(seen: Any, action: Any) -> Any:
    return seen.at[:, 0].add(jax.nn.one_hot(action, 4, dtype=jnp.int32))


@pytest.mark.slow
def test_host_games_match_device_games() -> None:
    movers = Mover(no_cells, choose_by_memory, see), batched_move_fn(games.random_player())
    params = (jnp.array([0.0, 1.0, 0.0, 2.0]), None)
    keys = pair_keys(0, "a", "b", np.arange(20))
    openings = to_action_rows([(), (0,), (3,), ()] * 5)
    expected = jax.jit(make_games(ENV, movers, max_plies=6))(params, keys, openings)
    found = play_on_host(ENV, movers, params, keys, openings, 6)
    jax.tree.map(np.testing.assert_array_equal, found, jax.device_get(expected))


def test_host_mover_is_called_only_on_its_turns() -> None:
    asked: list[tuple[tuple[int, ...], int]] = []

    def choose(histories: list[list[int]], seeds: list[int]) -> list[int]:
        asked.extend((tuple(x), seed) for x, seed in zip(histories, seeds, strict=True))
        return [*map(free_cell, histories, seeds)]

    mover = HOST.mover._replace(choose=choose)
    keys, openings = pair_keys(0, "a", "b", np.arange(3)), to_action_rows([(), (0,), (3,)])
    record = play_on_host(ENV, (mover, HOST.mover), (None, None), keys, openings, 9)
    expected = []
    for row in range(2):
        for actions, opening in zip(record.actions[row], openings, strict=True):
            moves = actions[actions >= 0].tolist()
            start = int(np.sum(opening >= 0))
            expected += [tuple(moves[:ply]) for ply in range(start, len(moves)) if ply % 2 == row]
    assert sorted(x for x, _ in asked) == sorted(expected)
    assert len({seed for _, seed in asked}) == len(asked)
    assert all(0 <= seed < 2**31 for _, seed in asked)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("search", [SEARCH, AlphaZero(5, reuse_capacity=3)])
@pytest.mark.parametrize("opponent", [HOST, random_player()], ids=["host", "device"])
def test_non_finite_network_ends_the_tournament(
    opponent: Player, search: Any, tmp_path: pathlib.Path
) -> None:
    made, params = network()
    broken = jax.tree.map(lambda x: jnp.full_like(x, jnp.nan), params)
    players = (
        search_player("net", ENV, made, broken, search),
        opponent,
        search_player("ok", ENV, made, params, SEARCH),
    )
    both = tournament(players=players, pairings=((1, 2), (0, 1)), openings=OPENINGS[:2])
    games = play_batches(both, tmp_path)
    assert len(next(games)) == 4
    with pytest.raises(ValueError, match=r"^player 'net' could not choose a move, .* NaN") as error:
        next(games)
    assert "another checkpoint" in str(error.value)
    assert "\n" not in str(error.value)
    assert len(read_games(tmp_path / "games.jsonl")) == 4


def test_players_share_programs_but_not_parameters(tmp_path: pathlib.Path) -> None:
    made, params = network()
    one, other = (search_player(name, ENV, made, params, SEARCH.for_evaluation()) for name in "ab")
    assert one.mover is other.mover
    assert search_player("c", ENV, made, params, SEARCH).mover is not one.mover
    assert (
        search_player("d", ENV, made, params, AlphaZero(5, reuse_capacity=3)).mover is not one.mover
    )

    def prefer(params: Any, rng_key: Any, state: Any) -> Any:
        legal = state.legal_action_mask
        return jnp.where(legal[:, params], params, jnp.argmax(legal, axis=-1))

    cells = {"left": 0, "middle": 2, "right": 3}
    players = tuple(Player(name, prefer, jnp.int32(cell)) for name, cell in cells.items())
    made = tournament(players=players, pairings=round_robin(3), openings=((),))
    before = tournaments._compile.cache_info().misses
    played = [game for games in play_batches(made, tmp_path) for game in games]
    assert len(played) == 6
    for game in played:
        assert game.moves[:2] == tuple(cells[name] for name in game.players)
    # All three pairings share one program.
    assert tournaments._compile.cache_info().misses == before + 1


@pytest.mark.parametrize(("name", "policy", "depths", "options"), COUNTS)
def test_costs_match_the_documented_table(
    name: str, policy: Any, depths: Any, options: dict
) -> None:
    row = next(
        row for row in table("docs/variants.md", "variant | formula") if name in row["variant"]
    )
    value_depth = VALUE_DEPTHS.get(name)
    network = (
        Network(9, head_depths=depths)
        if value_depth is None
        else SeparateTrunks(9, head_depths=depths, value_depth=value_depth)
    )
    blocks = int(row["blocks per move"].split(" = ")[1])
    cost = move_cost(policy, network, **options)
    assert cost.blocks == blocks
    budgets = policy.num_simulations
    assert cost.simulations == (sum(budgets) if isinstance(budgets, tuple) else budgets)


def test_unlimited_rollouts_have_no_fixed_cost() -> None:
    [policy] = [row[1] for row in COUNTS if row[0] == "rollouts of 10 moves"]
    network = Network(9, head_depths=(2, 4))
    assert move_cost(policy, network).evaluations == 85 * 11
    endless = dataclasses.replace(policy, rollout_length=None)
    assert move_cost(endless, network) == MoveCost(85, None, None)
    assert move_cost(dataclasses.replace(endless, rollout_mix=0.0), network).blocks == 340
    assert move_cost(Dual((3, 0), 1), network) == MoveCost(3, 3, 6)


def test_nodes_that_a_later_tree_must_find_by_itself_are_counted() -> None:
    network = Network(9, head_depths=(2, 4))
    # Without a first tree, Dual is AlphaZero with the final head.
    assert move_cost(Dual((0, 35)), network) == MoveCost(35, 70, 35 * 4)
    assert move_cost(Dual((5, 35)), network) == MoveCost(40, 70, 5 * 4 + 30 * 4)
    # Of four nodes in the third tree, all heads evaluate one of the first tree and three others.
    network = Network(9, head_depths=(1, 2, 4))
    assert move_cost(Chain((1, 1, 4), 1), network) == MoveCost(6, 12, 4 * (1 + 1 + 3))


def test_search_that_reads_no_value_does_not_pay_for_its_trunk() -> None:
    [policy] = [row[1] for row in COUNTS if row[0] == "rollouts of 10 moves"]
    blocks = {
        mix: [
            move_cost(dataclasses.replace(policy, rollout_mix=mix), network).blocks
            for network in (
                SeparateTrunks(9, head_depths=(2, 4)),
                SeparateTrunks(9, head_depths=(2, 4), value_depth=3),
            )
        ]
        for mix in (0.5, 1.0)
    }
    assert blocks == {0.5: [85 * 24, 85 * 27], 1.0: [85 * 24, 85 * 24]}


def test_separate_networks_resume_nothing_and_their_value_trunk_counts() -> None:
    separate = SeparateTrunks(9, head_depths=(2, 4), value_depth=3)
    assert move_cost(Dual((50, 35)), separate).blocks == 50 * 2 + 35 * (4 + 3)
    assert move_cost(AlphaZero(10), separate).blocks == 10 * (4 + 3)
    assert move_cost(AlphaZero(10, head=0), separate).blocks == 10 * 2
    one = SeparateTrunks(9, head_depths=(4,), value_depth=3)
    assert move_cost(AlphaGo(10, rollout_length=5), one).blocks == 10 * (4 + 3 + 5 * 4)


# In the first position Black is to move, and White has two queens against a king.
HANDICAPS = (
    ("k4/5/2KQ1/4Q/5 b - - 0 20",),
    ("k4/5/2KQ1/4Q/5 w - - 0 20",),
    ("rnbqk/ppppp/5/PPPPP/RNB1K w - - 0 1", 307),
    (307, 1042),
)


@pytest.mark.slow
def test_games_start_from_fens(tmp_path: pathlib.Path) -> None:
    env = games.make("gardner_chess")
    players = random_player("one"), random_player("other")
    made = Tournament(env, players, HANDICAPS, batch_size=4, max_plies=9)
    played = [game for some in play_batches(made, tmp_path) for game in some]
    assert read_games(tmp_path / "games.jsonl") == played
    assert [game.history(game.opening) for game in played[::2]] == list(HANDICAPS)
    assert [game.fen is None for game in played[::2]] == [False, False, False, True]
    fens = [games.read_fen(env, game.fen or START) for game in played]
    states, bad = games.replay_checked(
        env, to_action_rows([game.moves for game in played]), games.set_up(env, fens)
    )
    assert np.all(np.asarray(bad) == -1)
    assert np.asarray(states.terminated).tolist() == [game.is_over for game in played]
    # White, player 0 of these states, has the first side, also if Black is to move.
    assert np.asarray(states.rewards)[:, 0].tolist() == [game.result for game in played]
    assert {1} <= {game.result for game in played[:4]} <= {0, 1}
    assert [sum(game.num_chosen) for game in played] == [
        len(game.moves) - game.opening for game in played
    ]
    starts = find_starts(env, (game.history(game.opening) for game in played))
    assert [starts[opening].side for opening in HANDICAPS] == [1, 0, 1, 0]
    assert starts[HANDICAPS[0]].position != starts[HANDICAPS[1]].position
    assert seconds_per_move(env, players[0], sample_positions(played, 4, seed=0), repeats=1) > 0
    # Host movers receive only the actions.
    with pytest.raises(ValueError, match=r"^player 'host' runs on the host .* remove openings"):
        dataclasses.replace(made, players=(players[0], HOST))


def test_fen_opening_requires_a_game_with_fens() -> None:
    with pytest.raises(ValueError, match=r"^opening .*: connect2 has no FEN: it is for ch"):
        tournament(openings=(HANDICAPS[0],))


@pytest.mark.slow
def test_usage_counts_chosen_moves(whole: Any) -> None:
    _, played = whole
    players = tournament().players
    net, exact, host = count_usage(players, played)
    assert [row.name for row in (net, exact, host)] == ["net", "perfect", "host"]
    for row in (net, exact, host):
        mine = [game for game in played if row.name in game.players]
        moves = [
            len(
                range(
                    game.opening + (game.opening + game.players.index(row.name)) % 2,
                    len(game.moves),
                    2,
                )
            )
            for game in mine
        ]
        assert row.moves == sum(moves) > 0
    assert [row.evaluations for row in (net, exact, host)] == [5 * net.moves, 0, None]
    positions = sample_positions(played, 6, seed=0)
    known = {game.moves[:ply] for game in played for ply in range(game.opening, len(game.moves))}
    assert len(positions) == 6
    assert set(positions) <= known
    for player in players:
        assert 0 < seconds_per_move(ENV, player, positions, repeats=2) < 10


def test_random_openings_are_distinct_and_not_over() -> None:
    env = games.make("tic_tac_toe")
    found = random_openings(env, 100, plies=(1, 3), seed=0)
    # A position is the set of cells of each side.
    positions = {(frozenset(moves[::2]), frozenset(moves[1::2])) for moves in found}
    assert len(positions) == len(found) == 100
    assert {len(opening) for opening in found} == {1, 3}
    states, first_bad = games.replay_checked(env, to_action_rows(found))
    assert (first_bad == -1).all()
    assert not states.terminated.any()
    assert random_openings(env, 10, plies=(1, 3), seed=0) == found[:10]
    assert random_openings(env, 10, plies=(1, 3), seed=1) != found[:10]
    with pytest.raises(ValueError, match=r"^plies is 0; each length must be from 1 to"):
        random_openings(env, 1, plies=0, seed=0)


@pytest.mark.slow
def test_openings_are_limited_by_distinct_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The observation of Nim is the pile, so 20 stones minus 4 to 12 give nine positions."""
    nim = games.make("nim")

    def stones_taken(plies: Any, number: int) -> list[int]:
        found = random_openings(nim, number, plies=plies, seed=0)
        return sorted(sum(opening) + len(opening) for opening in found)

    assert stones_taken(4, 9) == list(range(4, 13))
    # One or two moves can take two or three stones.
    assert stones_taken((1, 2), 6) == list(range(1, 7))
    monkeypatch.setattr("dualmctx.matches.openings._MAX_BATCHES", 2)
    message = r"found only 9 of 10 openings of 4 plies in 2,048 .* ask for fewer openings"
    with pytest.raises(ValueError, match=message):
        stones_taken(4, 10)


def test_starts_contain_side_and_observed_position() -> None:
    starts = find_starts(ENV, [(0, 1, 2), (2, 1, 0), (0,), (), (3,), (0,)])
    assert [(*moves, start.side) for moves, start in starts.items()] == [
        (0, 1, 2, 1),
        (2, 1, 0, 1),
        (0, 1),
        (0,),
        (3, 1),
    ]
    assert starts[0, 1, 2] == starts[2, 1, 0]
    assert len({start.position for start in starts.values()}) == 4
    one, other = find_starts(games.make("nim"), [(1,), (0, 0)]).values()
    assert (one.side, other.side) == (1, 0)
    assert one.position == other.position


def test_position_digests_include_legal_actions() -> None:
    seen, legal = np.ones((3, 2)), np.array([[True, False], [True, True], [True, False]])
    found = position_digests(SimpleNamespace(observation=seen, legal_action_mask=legal))
    assert found[0] == found[2] != found[1]


def test_openings_can_be_filtered_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """In Connect2 an edge cell leads to a draw and a middle cell wins."""
    fit = accept_balanced(ENV)
    assert set(random_openings(ENV, 2, plies=1, seed=0, accept=fit)) == {(0,), (3,)}
    monkeypatch.setattr(games, "is_solvable", lambda env: False)
    fit = accept_balanced(ENV, lambda states: ~states.legal_action_mask[:, 0] * 0.5)
    assert set(random_openings(ENV, 3, plies=1, seed=0, accept=fit)) == {(1,), (2,), (3,)}
    monkeypatch.setattr("dualmctx.matches.openings._MAX_BATCHES", 2)
    with pytest.raises(ValueError, match=r"^found only 3 of 4 openings of 1 plies in 2,048 "):
        random_openings(ENV, 4, plies=1, seed=0, accept=fit)


def test_openspiel_mcts_plays_well() -> None:
    pytest.importorskip("pyspiel")
    env = games.make("tic_tac_toe")
    player = openspiel_mcts(env, 200)
    assert (player.name, player.cost) == ("mcts-200", MoveCost(200, 0, 0))
    solution = games.solve(env)
    index = [i for i in range(0, len(solution.values), 60) if len(solution.histories[i])]
    histories = [[int(x) for x in solution.histories[i] if x >= 0] for i in index]
    found = player.mover.choose(histories, list(range(len(index))))
    legal = solution.legal_actions[index, found]
    assert legal.all()
    assert solution.optimal_actions[index, found].mean() > 0.8
    # A choice depends only on its history and its seed.
    backwards = player.mover.choose(histories[::-1], list(range(len(index)))[::-1])
    assert backwards == found[::-1]
    with pytest.raises(
        ValueError, match=r"^OpenSpiel's MCTS supports connect_four, othello, tic_tac"
    ):
        openspiel_mcts(ENV, 10)
    with pytest.raises(ValueError, match=r"^num_simulations is 0; it must be at least 1$"):
        openspiel_mcts(env, 0)


def test_perfect_connect_four_finds_known_moves() -> None:
    pytest.importorskip("bitbully")
    env = games.make("connect_four")
    player = perfect_connect_four(env)
    assert player.cost == FREE
    # The centre wins; the second position has an immediate win; the third requires a block.
    histories = [[], [0, 6, 0, 6, 0, 6], [1, 0, 1, 0, 2, 0]]
    assert player.mover.choose(histories, [0, 1, 2]) == [3, 0, 0]
    with pytest.raises(ValueError, match=r"^bitbully supports connect_four, not connect2$"):
        perfect_connect_four(ENV)


@pytest.mark.parametrize(
    ("module", "make", "line"),
    [
        (
            "pyspiel",
            lambda env: openspiel_mcts(env, 9),
            r"^OpenSpiel's MCTS needs pyspiel: pip [^\n]+$",
        ),
        (
            "bitbully",
            perfect_connect_four,
            r"^the perfect player of Connect Four needs bitbully: [^\n]+",
        ),
    ],
)
def test_missing_package_raises_with_remedy(
    module: str, make: Any, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ValueError, match=line):
        make(games.make("connect_four"))


def test_append_games_extends_the_file(whole: Any, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "games.jsonl"
    journal, _ = reopen_games(file)
    for start in range(0, 6, 2):
        append_games(journal, whole[1][start : start + 2])
    assert file.read_bytes() == b"".join(whole[0].splitlines(keepends=True)[:6])
