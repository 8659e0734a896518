"""The player stage: its network, its match, its openings and how it is resumed."""

import dataclasses
import json
from pathlib import Path
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
from dualmctx.commands import compare, evaluate, train
from dualmctx.datasets.records import open_records
from dualmctx.matches.game_file import read_games
from dualmctx.matches.movers import jit_choose
from dualmctx.matches.tournament import play_tournament
from dualmctx.matches.usage import sample_positions, seconds_per_move
from dualmctx.pipeline.exact_evals import search_keeping
from dualmctx.pipeline.exact_positions import exact_positions
from dualmctx.pipeline.options import PlayerOptions
from dualmctx.pipeline.parts import POLICY, ROLLOUT, VALUE, alphago_network, get_part, predict_value
from dualmctx.pipeline.player.match import (
    make_players,
    make_searchers,
    make_tournament,
)
from dualmctx.pipeline.player.openings import choose_openings
from dualmctx.pipeline.player.stage import assemble, count_batches, play_batch
from dualmctx.pipeline.stage import Inputs
from dualmctx.policies import AlphaGo, AlphaZero
from dualmctx.runs.checkpoint import open_writable_checkpoints
from dualmctx.runs.folder import create_run, read_config
from dualmctx.runs.network_record import with_architecture
from dualmctx.runs.saved_network import Trained, load_trained
from dualmctx.training.config import NetworkOptions

ENV = games.make("connect2")
NETWORK = alphago_network(ENV, NetworkOptions(trunk="mlp", width=8, num_blocks=1))
TTT = games.make("tic_tac_toe")
OPTIONS = PlayerOptions(num_simulations=3, num_games=8, opening_plies=(1, 2))


def make_params(seed: int) -> Any:
    """Returns random parameters; the heads of a new network are zero."""
    observation = jnp.zeros((1, *ENV.observation_shape))
    shapes = jax.eval_shape(NETWORK.init, jax.random.PRNGKey(0), observation)
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda x: jnp.asarray(rng.normal(0, 0.5, x.shape), x.dtype), shapes)


def make_input(seed: int) -> Trained:
    record = {"game": "connect2", "game_parameters": {}, "network": {}}
    record["search"] = {"variant": "alphago"}
    return Trained(ENV, NETWORK, make_params(seed), 5, with_architecture(record, NETWORK))


INPUTS = Inputs(supervised=make_input(1), value=make_input(2), reinforced=make_input(3))


def equal(one: Any, other: Any) -> bool:
    return all(jax.tree.leaves(jax.tree.map(np.array_equal, one, other)))


@pytest.mark.parametrize(("prior", "seed"), [("supervised", 1), ("reinforced", 3)])
def test_the_network_has_the_parts_of_its_stages(prior: str, seed: int) -> None:
    params = assemble(INPUTS, prior)
    for part, source in ((ROLLOUT, 1), (POLICY, seed), (VALUE, 2)):
        assert equal(get_part(params, part), get_part(make_params(source), part))


def test_a_missing_network_is_refused() -> None:
    with pytest.raises(
        ValueError, match="prior is reinforced; name the run of --pipeline reinforce"
    ):
        assemble(INPUTS._replace(reinforced=None), "reinforced")


def test_players_differ_in_lambda_alone() -> None:
    options = PlayerOptions(rollout_mixes=(0.0, 0.25), num_simulations=7, c_puct=2.0)
    searchers = make_searchers(NETWORK, make_params(1), options, make_input(4))
    policies = {x.name: x.policy for x in searchers}
    assert [*policies] == ["lambda 0", "lambda 0.25", "opponent"]
    found: Any = policies["lambda 0.25"]
    assert isinstance(found, AlphaGo)
    assert (found.num_simulations, found.puct.c_puct, found.rollout_mix) == (7, 2.0, 0.25)
    assert isinstance(policies["opponent"], AlphaZero)
    assert policies["opponent"].num_simulations == 7
    assert equal(searchers[-1].params, make_params(4))
    players = make_players(ENV, NETWORK, make_params(1), searchers)
    assert [x.name for x in players] == [*policies, "policy", "rollout policy"]
    blocks = [player.cost and player.cost.blocks for player in players]
    # The policy and the value network have one block each, the rollout policy has none.
    assert (blocks[0], blocks[-2:]) == (7 * 2, [1, 0])


def test_games_times_and_evals_share_one_program_for_each_player(tmp_path: Path) -> None:
    # Players without a search compile fast; the width is that of no other test.
    network = alphago_network(ENV, NetworkOptions(trunk="mlp", width=9, num_blocks=1))
    observation = jnp.zeros((1, *ENV.observation_shape))
    params = network.init(jax.random.PRNGKey(0), observation)
    players = make_players(ENV, network, params, [])
    tournament = make_tournament(ENV, players, [(0,), (1,), (0, 1)], 0, {})
    played = play_tournament(tournament)
    positions = exact_positions(ENV)
    assert positions is not None
    histories = sample_positions(played, tournament.batch_size, 0)
    for player in players:
        assert seconds_per_move(ENV, player, histories) > 0
        assert 0 < search_keeping(player, positions, tournament.batch_size) < 1
        program: Any = jit_choose(cast(Any, player.mover))
        assert program._cache_size() == 1
    # One program for the whole games of a pairing plays the same games.
    in_one = dataclasses.replace(tournament, move_by_move=False)
    assert play_tournament(in_one) == played


def test_batches_are_played_once_and_read_again(tmp_path: Path) -> None:
    params = make_params(1)
    # Players without a search compile fast.
    policy, rollout = make_players(ENV, NETWORK, params, [])
    other = dataclasses.replace(policy, name="other", params=make_params(2))
    tournament = make_tournament(ENV, (policy, rollout, other), [(0,), (1,), (0, 1)], 0, {})
    number = count_batches(tournament)
    assert number == 3
    first = [play_batch(tournament, tmp_path, x) for x in range(2)]
    # A kill may leave a part of a batch.
    file = tmp_path / "games.jsonl"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-2]))
    again = [play_batch(tournament, tmp_path, x) for x in range(number)]
    assert again[:2] == first
    played = [game for batch in again for game in batch]
    assert played == read_games(file) == play_tournament(tournament)
    # Without the file, earlier batches are played too.
    file.unlink()
    assert play_batch(tournament, tmp_path, 2) == again[2]
    assert played == read_games(file)


def test_openings_are_drawn_where_the_game_is_solved() -> None:
    options = PlayerOptions(num_games=40)
    found = choose_openings(TTT, NETWORK, None, options, 0)
    assert (found.rule, found.note, len(found.openings)) == ("balanced", "", 20)
    solution = games.solve(TTT)
    rows = [[*x, *[-1] * (4 - len(x))] for x in map(list, found.openings)]
    states = games.replay(TTT, np.array(rows, np.int32))
    codes = np.asarray(jax.vmap(solution.code_fn)(states))
    assert (solution.code_values[codes] == 0).all()


@pytest.mark.slow
def test_few_balanced_openings_are_replaced_by_random_ones() -> None:
    found = choose_openings(ENV, NETWORK, None, PlayerOptions(num_games=100), 0)
    assert found.rule == "random"
    assert "balanced openings, so random ones are played; there are only" in found.note
    assert len(set(found.openings)) == len(found.openings) < 50


def test_openings_of_other_games_are_balanced_by_the_value_network(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(games, "is_solvable", lambda env: False)
    params = make_params(2)
    options = PlayerOptions(num_games=2, opening_plies=(1, 2))
    found = choose_openings(ENV, NETWORK, params, options, 0)
    assert found.rule == "balanced"
    rows = [[*x, *[-1] * (2 - len(x))] for x in map(list, found.openings)]
    states = games.replay(ENV, np.array(rows, np.int32))
    assert (np.abs(predict_value(NETWORK, params, states.observation)) <= 0.2).all()


def save(trained: Trained, folder: Path) -> str:
    """Writes the folder of a run."""
    run = create_run(folder, trained.record)
    checkpoints = open_writable_checkpoints(run.checkpoints, config=read_config(folder))
    checkpoints.save(5, {"params": trained.params})
    checkpoints.wait()
    return str(folder)


@pytest.mark.slow
def test_the_stage_plays_a_match_and_saves_a_network(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "player"
    command = ["connect2", "--pipeline", "player", "--out", str(out)]
    for number, name in enumerate(("supervised", "value", "opponent"), start=1):
        command += [f"--{name}", save(make_input(number), tmp_path / name)]
    command += ["--player.num-games", "8", "--player.num-simulations", "3"]
    assert train.main(command) == 0
    shown = capfd.readouterr().out
    assert "player: 120 games, 3 simulations per move" in shown
    summary = json.loads((out / "summary.json").read_text())
    names = {"lambda 0", "lambda 0.5", "lambda 1", "policy", "rollout policy", "opponent"}
    assert {row["name"] for row in summary["players"]} == names
    assert all(0 <= row["keeping"] <= 1 and row["seconds"] > 0 for row in summary["players"])
    assert 0 < summary["exact/random_keeping"] < 1
    games_file = out / "tournament" / "games.jsonl"
    played = read_games(games_file)
    assert len(played) == 120
    # The first row is of the first two players, from the view of the first one.
    row = json.loads((out / "metrics.jsonl").read_text().splitlines()[0])
    pairing = [game for game in played if {*game.players} == {"lambda 0", "lambda 0.5"}]
    signs = [1 if game.players[0] == "lambda 0" else -1 for game in pairing]
    results = [sign * game.result for sign, game in zip(signs, pairing, strict=True)]
    assert [row[x] for x in ("wins", "draws", "losses")] == [results.count(x) for x in (1, 0, -1)]
    # The games can become a data set, which checks the parameters of the game.
    assert open_records(games_file)[2:4] == ("connect2", {})
    assert "lambda 0.5" in (out / "tournament" / "report.html").read_text()
    assert (out / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert equal(load_trained(out).params, assemble(INPUTS, "supervised"))
    pair = [f"{out}+own", f"{out}+policy:head=0"]
    flags = ["--games", "4", "--opening-plies", "1"]
    assert compare.main([*pair, *flags, "--out", str(tmp_path / "compared")]) == 0
    position = tmp_path / "position.jsonl"
    position.write_text('{"moves": [0]}\n')
    assert evaluate.main([str(out), str(position), "--out", str(tmp_path / "values.jsonl")]) == 0
