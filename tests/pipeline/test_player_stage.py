"""The player stage: its network, its match, its openings and how it is resumed."""

import dataclasses
import json
import shlex
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import games
from dualmctx.commands import evaluate
from dualmctx.datasets.records import open_records
from dualmctx.matches.game_file import read_games
from dualmctx.matches.tournament import Tournament, play_tournament
from dualmctx.matches.usage import Budgets
from dualmctx.pipeline.options import PlayerOptions
from dualmctx.pipeline.parts import (
    POLICY,
    ROLLOUT,
    VALUE,
    alphago_network,
    get_part,
    make_value_fn,
)
from dualmctx.pipeline.player import (
    assemble,
    choose_openings,
    count_batches,
    play_batch,
    policy_players,
    search_players,
)
from dualmctx.pipeline.stage import Inputs
from dualmctx.runs.network_record import with_architecture
from dualmctx.runs.saved_network import Trained
from dualmctx.training.config import NetworkOptions
from fake_stage import Finished
from untrained import random_params

ENV = games.make("connect2")
NETWORK = alphago_network(ENV, NetworkOptions(trunk="mlp", width=8, num_blocks=1))
OPENINGS = [(0,), (1,), (0, 1)]


def make_input(seed: int) -> Trained:
    """Returns a network with random parameters."""
    params = random_params(NETWORK, ENV.observation_shape, seed)
    record = {"game": "connect2", "game_parameters": {}, "network": {}}
    record["search"] = {"variant": "alphago"}
    return Trained(ENV, NETWORK, params, 5, with_architecture(record, NETWORK))


NETWORKS = {seed: make_input(seed) for seed in (1, 2, 3)}
PARAMS = NETWORKS[1].params
INPUTS = Inputs(supervised=NETWORKS[1], value=NETWORKS[2])


def test_the_network_has_the_parts_of_its_stages() -> None:
    """The tests of all stages have the other prior."""
    params = assemble(INPUTS, "supervised")
    for part, source in ((ROLLOUT, 1), (POLICY, 1), (VALUE, 2)):
        expected = get_part(NETWORKS[source].params, part)
        jax.tree.map(np.testing.assert_array_equal, get_part(params, part), expected)
    with pytest.raises(
        ValueError, match="prior is reinforced; name the run of --pipeline reinforce"
    ):
        assemble(INPUTS, "reinforced")


def test_players_differ_in_lambda_alone() -> None:
    options = PlayerOptions(rollout_mixes=(0.0, 0.25), num_simulations=7, c_puct=2.0)
    searchers = search_players(ENV, NETWORK, PARAMS, options, NETWORKS[3])
    assert [x.name for x in searchers] == ["lambda 0", "lambda 0.25", "opponent"]
    searches = [x.about["search"] for x in searchers]
    assert [x["variant"] for x in searches] == ["alphago", "alphago", "alphazero"]
    assert [x["num_simulations"] for x in searches] == [7, 7, 7]
    assert {x for x in searches[0] if searches[0][x] != searches[1][x]} == {"rollout_mix"}
    assert (searches[1]["rollout_mix"], searches[1]["puct"]["c_puct"]) == (0.25, 2.0)
    assert searchers[-1].params is NETWORKS[3].params
    blocks = [x.cost and x.cost.blocks for x in (searchers[0], *policy_players(NETWORK, PARAMS))]
    # The policy and the value network have one block each, the rollout policy has none.
    assert blocks == [7 * 2, 1, 0]


@pytest.mark.slow
def test_batches_are_played_once_and_read_again(tmp_path: Path) -> None:
    # Players without a search compile fast.
    policy, rollout = policy_players(NETWORK, PARAMS)
    other = dataclasses.replace(policy, name="other", params=NETWORKS[2].params)
    tournament = Tournament(ENV, (policy, rollout, other), OPENINGS, batch_size=3)
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


def states_after(env: Any, openings: Any) -> Any:
    rows = [[*x, *[-1] * (4 - len(x))] for x in openings]
    return games.replay(env, np.array(rows, np.int32))


@pytest.mark.slow
def test_openings_are_drawn_or_else_random_where_the_game_is_solved() -> None:
    few = PlayerOptions(num_games=6, opening_plies=(1, 2))
    found = choose_openings(ENV, NETWORK, None, few, 0)
    assert (found.rule, found.note, len(found.openings)) == ("balanced", "", 3)
    solution = games.solve(ENV)
    codes = np.asarray(jax.vmap(solution.code_fn)(states_after(ENV, found.openings)))
    assert (solution.code_values[codes] == 0).all()
    found = choose_openings(ENV, NETWORK, None, dataclasses.replace(few, num_games=100), 0)
    assert found.rule == "random"
    assert "balanced openings, so random ones are played; there are only" in found.note
    assert len(set(found.openings)) == len(found.openings) < 50


def test_openings_of_other_games_are_balanced_by_the_value_network(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(games, "is_solvable", lambda env: False)
    params = NETWORKS[2].params
    options = PlayerOptions(num_games=2, opening_plies=(1, 2))
    found = choose_openings(ENV, NETWORK, params, options, 0)
    assert found.rule == "balanced"
    observation = states_after(ENV, found.openings).observation
    values = make_value_fn(NETWORK)(get_part(params, VALUE), observation)
    assert (np.abs(values) <= 0.2).all()


@pytest.mark.slow
def test_the_stage_plays_a_match_and_saves_a_network(pipeline: Finished, tmp_path: Path) -> None:
    out = pipeline.out / "player"
    assert "player: 36 games, 16 simulations per move" in pipeline.said
    summary = json.loads((out / "summary.json").read_text())
    names = {"lambda 0.5", "policy", "rollout policy", "opponent"}
    assert {row["name"] for row in summary["players"]} == names
    assert all(0 <= row["keeping"] <= 1 and row["seconds"] > 0 for row in summary["players"])
    assert 0 < summary["exact/chance_keeping"] < 1
    games_file = out / "tournament" / "games.jsonl"
    played = read_games(games_file)
    assert len(played) == 36
    # The first row is of the first two players, from the view of the first one.
    row = json.loads((out / "metrics.jsonl").read_text().splitlines()[0])
    pairing = [game for game in played if {*game.players} == {"lambda 0.5", "opponent"}]
    signs = [1 if game.players[0] == "lambda 0.5" else -1 for game in pairing]
    results = [sign * game.result for sign, game in zip(signs, pairing, strict=True)]
    assert [row[x] for x in ("wins", "draws", "losses")] == [results.count(x) for x in (1, 0, -1)]
    # The games can become a data set, which checks the parameters of the game.
    assert open_records(games_file)[2:4] == ("connect2", {})
    assert "lambda 0.5" in (out / "tournament" / "report.html").read_text()
    # Budgets have the fields of those of `dualmctx compare`.
    report = json.loads((out / "tournament" / "report.json").read_text())
    budgets = report["budgets"]
    assert set(budgets) == {x.name for x in dataclasses.fields(Budgets)}
    resume = ["dualmctx", "train", "--resume", str(out)]
    assert shlex.split(report["settings"]["command"]) == resume
    unscaled = {"target": None, "measured": []}
    assert budgets["players"]["lambda 0.5"] == {"asked": [16], "simulations": [16]} | unscaled
    assert budgets["players"]["policy"] == {"asked": None, "simulations": None} | unscaled
    assert (out / "curve.png").read_bytes().startswith(b"\x89PNG")
    # Other commands search with the network of the stage.
    position, results = tmp_path / "position.jsonl", tmp_path / "values.jsonl"
    position.write_text('{"moves": [0]}\n')
    assert evaluate.main([str(out), str(position), "--out", str(results)]) == 0
    assert json.loads(results.read_text().splitlines()[0])["value"] is not None
