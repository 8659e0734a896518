"""`dualmctx compare`: from a command line to games, budgets and a report."""

import contextlib
import dataclasses
import functools
import io
import itertools
import json
import math
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from documents import blocks, read, shell_lines
from dualmctx.commands import compare, tournament_progress
from dualmctx.commands import load_players as loading
from dualmctx.commands.budgets import build_player, read_budgets, set_budgets
from dualmctx.commands.load_players import LoadedPlayers, load_players
from dualmctx.commands.main import main
from dualmctx.commands.opening_rules import choose_openings
from dualmctx.console import Console
from dualmctx.errors import UserError
from dualmctx.matches.game_file import Game, count_results, read_games
from dualmctx.matches.player_spec import parse_player
from dualmctx.matches.report import report as match_report
from dualmctx.models.costs import MoveCost, split
from dualmctx.ratings.elo import rate
from dualmctx.ratings.sprt import Sprt, judge_sequentially
from dualmctx.reports.numbers import show_elo
from refusals import refused
from untrained import export_untrained

PAGE = read("docs/compare.md")
PLAYERS = ("net=alphazero:simulations=4", "random", "perfect")
FLAGS = ("--games", "20", "--opening-plies", "1", "2", "--batch", "4")
COMMAND = ("compare", *PLAYERS, *FLAGS)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Untrained networks."""
    folder = tmp_path_factory.mktemp("networks")
    export_untrained(
        folder / "connect2.safetensors", "connect2", "--search.num-simulations", "4", "3"
    )
    chain = ("--search.variant", "chain", "--network.num-blocks", "4")
    export_untrained(folder / "four.safetensors", "connect-four", *chain)
    return folder


@pytest.fixture(scope="module", autouse=True)
def shared_programs() -> Iterator[None]:
    """Loads each network once, so that commands share compiled programs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "load_trained", functools.cache(loading.load_trained))
        yield


@pytest.fixture
def no_timing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skips the measurement of seconds, which would compile every search again."""
    for module in (compare, match_report):
        monkeypatch.setattr(module, "seconds_per_move", lambda env, player, positions: 0.001)


def skip_report(patch: pytest.MonkeyPatch) -> None:
    for name in ("measure_played", "write_report", "print_report"):
        patch.setattr(compare, name, Mock())


@pytest.fixture
def no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plays the games only."""
    skip_report(monkeypatch)


def with_network(files: Path, *arguments: str) -> list[str]:
    return [*arguments, "--checkpoint", str(files / "connect2.safetensors")]


def run(files: Path, *arguments: str) -> int:
    return main(with_network(files, *arguments))


@pytest.fixture(scope="module")
def comparison(files: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a comparison without interruption, and its output."""
    folder = tmp_path_factory.mktemp("whole") / "out"
    with contextlib.redirect_stdout(io.StringIO()) as output:
        assert run(files, *COMMAND, "--out", str(folder)) == 0
    return folder, output.getvalue()


@pytest.fixture(scope="module")
def whole(comparison: tuple[Path, str]) -> Path:
    return comparison[0]


def test_report_is_written_and_printed(files, comparison):
    whole, shown = comparison
    written = {"config.json", "games.jsonl", "report.json", "report.html", "elo.png", "costs.png"}
    assert {file.name for file in whole.iterdir()} == written
    report = json.loads((whole / "report.json").read_text())
    page = (whole / "report.html").read_text()
    assert 'src="http' not in page
    assert 'href="http' not in page
    for row in report["players"]:
        assert row["name"] in shown
        assert f'<td class="name">{row["name"]}</td>' in page
        assert row["seconds"] > 0
    assert f"in {whole}: report.html, report.json, elo.png, costs.png, games.jsonl" in shown
    assert "Two players met in only 20 games, so intervals are wide." in shown
    assert (whole / "elo.png").read_bytes().startswith(b"\x89PNG")
    names = [row["name"] for row in report["players"]]
    assert names == ["net", "random", "perfect"]
    played = read_games(whole / "games.jsonl")
    assert len(played) == report["games"]["played"] == 60
    ratings = rate(count_results(names, played))
    assert [row["elo"] for row in report["players"]] == [row.elo for row in ratings.players]
    assert [row["blocks"] for row in report["players"]] == [4 * 2, 0, 0]
    assert report["settings"]["command"] == shlex.join(
        ["dualmctx", *COMMAND, "--out", str(whole), "--checkpoint", f"{files}/connect2.safetensors"]
    )
    assert report["versions"]["jax"]
    for name in (*report, *report["players"][0], *Game._fields):
        assert f"`{name}`" in PAGE, name
    for field in dataclasses.fields(compare.Options)[1:]:
        assert f"--{field.name.replace('_', '-')}" in PAGE, field.name


def test_players_and_games_can_be_added(files, whole, tmp_path, no_report):
    out = tmp_path / "out"
    few, flags = ("compare", *PLAYERS[1:]), ("--out", str(out), "--opening-plies", "1", "2")
    assert run(files, *few, *flags, "--games", "8") == 0
    # The batch of 4 pairs is kept.
    assert run(files, *few, PLAYERS[0], *flags, "--games", "20", "--resume") == 0
    found = read_games(out / "games.jsonl")
    assert sorted(found) == sorted(read_games(whole / "games.jsonl"))
    saved = (out / "config.json").read_bytes()
    assert run(files, *few, *flags, "--games", "8", "--resume") == 0
    assert read_games(out / "games.jsonl") == found
    assert (out / "config.json").read_bytes() == saved


@pytest.mark.parametrize(
    ("player", "changes", "line"),
    [
        (PLAYERS[0], "--batch 5", "another configuration: batch_size (4 → 5); resume"),
        (f"{PLAYERS[0]}:c_puct=2", "", "players.net.search.puct.c_puct (1.25 → 2.0); choose anoth"),
        ("net=random", "", "players.net.player (None → uniformly random), "),
    ],
)
def test_resuming_with_other_settings_fails(player, changes, line, files, whole, capfd):
    before = {file: file.read_bytes() for file in whole.iterdir()}
    flags = (*FLAGS, "--out", str(whole), "--resume", *changes.split())
    command = ("compare", player, *PLAYERS[1:], *flags)
    assert line in refused(with_network(files, *command), capfd)
    assert {file: file.read_bytes() for file in whole.iterdir()} == before


POSITIONS = {
    "illegal": ["1", "11"],
    "over": ["132"],
    "equal": ["14", "321", "23", "123"],
    "few": ["1", "2"],
}
"""Files of openings of Connect2; a text of digits is the moves of a line."""


@pytest.fixture(scope="module")
def positions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("positions")
    for name, lines in POSITIONS.items():
        write_positions(folder / f"{name}.jsonl", *({"moves": moves} for moves in lines))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("random", "number of players is 1; name at least two players"),
        ("random random", "two players have the name 'random'; write NAME=... to rename one"),
        ("random duel", "player 'duel': its search is duel; it must be one of dual, chain, "),
        ("random random:simulations=5", "player 'random:simulations=5': random has no options"),
        ("random openspiel:uct_c=nan", "uct_c is 'nan'; it must be a finite number of at least 0"),
        ("random policy:simulations=5", "policy does not search, so it has no simulations"),
        ("random dual --anchor dull", "anchor is dull; it must be one of random, dual"),
        ("random dual --games 3", "games is 3; it must be even and at least 2"),
        ("random dual perfect --sprt 0 10", "sprt tests two players; there are 3"),
        ("random dual --game nim", "game is nim; the networks play connect2"),
        ("random dual --game-parameters pile 31", "pile is 31; the networks play connect2: remove"),
        ("random dual --max-plies 2", "max_plies is 2; it must exceed the longest opening, 2"),
        ("a=FILES/four.safetensors+dual b=dual", "'b' plays connect2, the first network plays con"),
        ("illegal", "illegal.jsonl, line 2: move 2, '1', is illegal"),
        ("over", "over.jsonl, line 1: the game is over; remove the line"),
        ("equal", "equal.jsonl, line 4: the position is the same as in line 2, so the same games"),
        ("few", "games is 6, two per opening; "),
    ],
)
def test_invalid_input_fails_with_one_line(arguments, line, files, positions, tmp_path, capfd):
    if arguments in POSITIONS:
        arguments = f"random perfect --games 6 --openings {positions / arguments}.jsonl"
    out = tmp_path / "out"
    given = arguments.replace("FILES", str(files)).split()
    command = with_network(files, "compare", *FLAGS, "--out", str(out), *given)
    assert line in refused(command, capfd)
    assert not out.exists()


@pytest.mark.parametrize(
    ("players", "game", "line"),
    [
        ("random", None, "no player has a network; name the game with --game"),
        (
            "dual",
            None,
            "player 'dual' has no checkpoint; write CHECKPOINT+dual, or set --checkpoint",
        ),
        ("perfect", "go_9x9", "player 'perfect': no solver for 'go_9x9'"),
    ],
)
def test_players_without_a_network_need_a_game(players, game, line):
    with pytest.raises(UserError, match=f"^{re.escape(line)}"):
        load_players([parse_player(players)], None, game, {}, 85)


def load(files: Path, *players: str, name: str = "four", total: int = 85) -> LoadedPlayers:
    specs = [parse_player(player) for player in players]
    return load_players(specs, str(files / f"{name}.safetensors"), None, {}, total)


def no_clock(player: Any) -> float:
    raise AssertionError


def test_default_simulations_are_split_over_trees(files):
    texts = ("dual", "alphazero", "chain", "own:c_puct=3", "random", "gumbel", "dual:simulations=9")
    found = load(files, *texts)
    asked = [builder.simulations for builder in found.builders]
    assert asked == [(50, 35), (85,), (40, 25, 20), (40, 25, 20), None, (85,), (5, 4)]
    fewer = load(files, "dual", "alphazero", "own", total=10).builders
    assert [builder.simulations for builder in fewer] == [(6, 4), (10,), (40, 25, 20)]
    players = [builder.build(builder.simulations) for builder in found.builders]
    searches = [player.about.get("search") for player in players]
    # As in evals: no noise, the best move.
    assert all(x["root"]["dirichlet_fraction"] == 0 for x in searches if x and "root" in x)
    assert searches[3]["num_rounds"] == 5
    assert searches[3]["puct"] == searches[2]["puct"] | {"c_puct": 3.0}
    assert searches[5]["gumbel_scale"] == 0
    assert found.env is found.trained.env


@pytest.mark.slow
def test_policy_plays_the_most_probable_legal_move_of_a_head(files):
    players = "policy", "policy:head=0", "hot=policy:temperature=1"
    found = load(files, *players, name="connect2")
    last, first, hot = (builder.build(None) for builder in found.builders)
    assert found.trained is not None
    network, params = found.trained.network, found.trained.params
    states = jax.vmap(found.env.init)(jax.random.split(jax.random.PRNGKey(0), 64))
    # Cell 0 is then full, so its move is illegal.
    states = jax.vmap(found.env.step)(states, jnp.zeros(64, jnp.int32))
    legal = np.asarray(states.legal_action_mask)
    keys = jax.random.split(jax.random.PRNGKey(1), 64)
    outputs = network.apply(params, states.observation)
    for player, head in ((first, 0), (last, -1)):
        logits = np.where(legal, outputs[head].logits, -np.inf)
        assert (player.mover(params, keys, states) == logits.argmax(axis=1)).all()
    sampled = np.asarray(hot.mover(params, keys, states))
    assert len(set(sampled.tolist())) > 1
    assert legal[np.arange(64), sampled].all()
    depths = network.head_depths
    assert (last.cost, first.cost) == (MoveCost(0, 1, depths[-1]), MoveCost(0, 1, depths[0]))
    broken = jax.tree.map(lambda x: x * jnp.nan, params)
    assert (last.mover(broken, keys, states) == -1).all()


def test_network_budget_equalises_blocks(files):
    texts = ("dual:simulations=50,35", "alphazero", "chain", "random", "gumbel:simulations=7")
    found = load(files, *texts)
    budgets = set_budgets("network", found.builders, no_clock)
    assert (budgets.reference, budgets.target) == (texts[0], 50 * 1 + 35 * 3)
    players = {x.spec.name: build_player(budgets, x) for x in found.builders}
    # A further simulation would cost 4 blocks.
    for name in ("alphazero", "gumbel:simulations=7"):
        assert abs(players[name].cost.blocks - 155) <= 2
        assert budgets.players[name].simulations == (39,)
        assert players[name].about["budget"]["simulations"] == (39,)
    assert abs(players["chain"].cost.blocks - 155) <= 1
    assert budgets.players["random"].simulations is None
    assert "budget" not in players["random"].about
    shape = budgets.players["chain"].simulations
    assert shape == split(sum(shape), (40, 25, 20))
    endless = load(files, "dual", "alphago:rollout_length=none").builders
    with pytest.raises(UserError, match=r"^player 'alphago.*': [^\n]+ set rollout_length$"):
        set_budgets("network", endless, no_clock)


def clock(player: Any) -> float:
    """A simulated machine: a move has a fixed cost and a cost per block."""
    return 0.001 + 1e-5 * player.cost.blocks


def test_seconds_budget_is_measured_once_and_kept(files, tmp_path):
    names = "alphazero:simulations=100", "dual:simulations=6,4"
    found = load(files, *names, "random")
    budgets = set_budgets("seconds", found.builders, clock)
    assert (budgets.reference, budgets.target) == (names[0], pytest.approx(0.005))
    dual = budgets.players[names[1]]
    assert dual.measured[-1].simulations == dual.simulations
    assert dual.measured[-1].seconds == pytest.approx(0.005, rel=0.01)
    assert 2 <= len(dual.measured) <= 4
    players = {x.spec.name: {"about": build_player(budgets, x).about} for x in found.builders}
    record = {"format_version": 1, "players": players}
    (tmp_path / "config.json").write_text(json.dumps(record))
    saved = read_budgets(tmp_path)
    assert saved == {name: budgets.players[name] for name in names}
    # A new player gets the same cost, also if the reference is absent; others are not measured.
    more = load(files, "gumbel", names[1])
    joined = set_budgets("seconds", more.builders, clock, saved)
    assert (joined.reference, joined.target) == (names[0], budgets.target)
    assert joined.players["gumbel"].simulations == (100,)
    assert joined.players[names[1]] == dual
    # Other simulations are refused before anything is measured.
    moved = more.builders[1]._replace(simulations=(9, 9))
    with pytest.raises(UserError, match=r"has \(9, 9\) simulations, and \(6, 4\) in the saved"):
        set_budgets("seconds", [moved], no_clock, saved)
    players[names[1]]["about"]["budget"] = {"asked": 3}
    (tmp_path / "config.json").write_text(json.dumps(record))
    with pytest.raises(UserError, match=r"config.json: players is [^\n]+; it must be names, each"):
        read_budgets(tmp_path)


def test_opening_rules():
    """In Connect2 a first move to an edge leads to a draw, and one to the middle wins."""
    loaded = load_players([parse_player("random")], None, "connect2", {}, 85)
    assert choose_openings("start", loaded, 3, (4,), 0) == [(), (), ()]
    assert {*choose_openings("random", loaded, 4, (1,), 0)} == {(0,), (1,), (2,), (3,)}
    assert {*choose_openings("balanced", loaded, 2, (1,), 0)} == {(0,), (3,)}


def write_positions(file: Path, *rows: dict[str, Any]) -> Path:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@pytest.mark.slow
def test_games_start_from_a_file_of_positions(tmp_path, no_report, capfd):
    rows = [{"moves": "1"}, {"moves": [2, 0], "id": "two moves"}, {"moves": ""}, {"moves": "2"}]
    file = write_positions(tmp_path / "odds.jsonl", *rows)
    out = tmp_path / "out"
    command = ("compare", *PLAYERS[1:], "--game", "connect2", "--batch", "2", "--out", str(out))
    flags = ("--openings", str(file), "--games")
    # The default length of random openings does not apply.
    assert main([*command, *flags, "4", "--max-plies", "4"]) == 0
    played = read_games(out / "games.jsonl")
    assert [game.moves[: game.opening] for game in played] == [(0,), (0,), (2, 0), (2, 0)]
    assert [game.players for game in played[::2]] == [("perfect", "random")] * 2
    assert [game.players for game in played[1::2]] == [("random", "perfect")] * 2
    # The file may be moved and extended, but openings that have been played must not change.
    file = write_positions(tmp_path / "more.jsonl", rows[0], {"moves": "23"}, *rows[2:])
    resumed = [*command, "--openings", str(file), "--max-plies", "4", "--resume", "--games", "8"]
    line = f"the run in {out} has another configuration: openings.1 ([2, 0] → [1, 2]); resume"
    assert line in refused(resumed, capfd)
    write_positions(file, *rows[:3], {"moves": "3"})
    assert main(resumed) == 0
    assert read_games(out / "games.jsonl")[:4] == played


def test_unsolved_games_are_balanced_by_the_network(files, monkeypatch):
    made = load(files, "dual", "random", name="connect2")
    monkeypatch.setattr("games.is_solvable", lambda env: False)
    asked = []

    def make(trained: Any, policy: Any, **options: Any) -> Any:
        assert policy is None
        asked.append(options["batch_size"])
        # The value depends on whether the first cell is free.
        return lambda states: SimpleNamespace(value=0.5 * states.legal_action_mask[:, 0])

    monkeypatch.setattr("dualmctx.commands.opening_rules.build_evaluator", make)
    assert choose_openings("balanced", made, 1, (1,), 0) == [(0,)]
    assert asked
    with pytest.raises(UserError, match=r"^balanced openings need a network; use --openings r"):
        choose_openings("balanced", made._replace(trained=None), 1, (1,), 0)
    monkeypatch.undo()
    nim = load_players([parse_player("random")], None, "nim", {"pile": 6}, 85)
    with pytest.raises(UserError, match=r"^nim has no draws, so no opening is balanced; use --o"):
        choose_openings("balanced", nim, 1, (1,), 0)


SPRT = ("compare", "perfect", "random", "--game", "connect2", "--openings", "start", "--batch", "8")


@pytest.mark.slow
def test_decided_sprt_stops_the_games(tmp_path, no_timing, monkeypatch, capfd):
    command = [*SPRT, "--games", "400", "--sprt", "0", "60", "--out", str(tmp_path / "out")]
    assert main(command) == 0
    shown = capfd.readouterr().out
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    test, number = report["sprt"], report["games"]["played"]
    assert (test["accepted"], test["player"], test["opponent"]) == ("H1", "perfect", "random")
    # The batch that decides is completed.
    assert 2 * test["num_pairs"] <= number < 2 * test["num_pairs"] + 16 < 400
    assert number % 16 == 0
    assert "SPRT: H1 accepted after" in shown
    played = read_games(tmp_path / "out" / "games.jsonl")
    judged = played[: 2 * test["num_pairs"]]
    points = sum((1 + x.result * (1 if x.players[0] == "perfect" else -1)) / 2 for x in judged)
    assert test["elo"] == pytest.approx(400 * math.log10(points / (len(judged) - points)))
    assert f"Elo of the mean score, on which the test is based: {show_elo(test)}\n" in shown
    # The decision is final, even if more games are allowed.
    skip_report(monkeypatch)
    assert main([*command, "--games", "800", "--resume"]) == 0
    assert read_games(tmp_path / "out" / "games.jsonl") == played


def test_sprt_scores_pairs_for_the_tested_player():
    rows = []
    for pair, (first, second) in enumerate([(1, -1)] * 60 + [(-1, 1)] * 400):
        rows.append(Game(("a", "b"), pair, 0, 0, (), first, True, (1, 1)))
        rows.append(Game(("b", "a"), pair, 0, 0, (), second, True, (1, 1)))
    mirror = [game._replace(players=("a", "a")) for game in rows[:40]]
    found = tournament_progress.judge_games(Sprt(0, 20), "a", [*mirror, *rows])
    assert found == judge_sequentially(Sprt(0, 20), [2] * 60 + [-2] * 400)
    assert found.accepted == "H1"
    assert tournament_progress.judge_games(Sprt(0, 20), "b", rows).accepted == "H0"


@pytest.mark.slow
def test_players_of_an_asymmetric_game_also_play_themselves(tmp_path, no_report):
    """These games make the sides comparable."""
    game = ("--game", "hsr", "--game-parameters", "k", "2", "q", "2", "n", "4")
    flags = ("--games", "2", "--openings", "start", "--out", str(tmp_path / "out"))
    assert main(["compare", "random", "perfect", *game, *flags]) == 0
    played = [game.players for game in read_games(tmp_path / "out" / "games.jsonl")]
    assert {*played} == {*itertools.product(("random", "perfect"), repeat=2)}
    assert len(played) == 6


def test_progress_of_games(monkeypatch):
    """4 games in the 15 s since the first report, 54 are left; compilation does not count."""
    clock, said = [5.0], io.StringIO()
    monkeypatch.setattr("dualmctx.runs.progress.time.monotonic", lambda: clock[0])
    with tournament_progress.progress(100, 40, Console(file=said, width=200)) as show:
        for now, results in ((10.0, (1, 0)), (25.0, (1, 1, 0, -1))):
            clock[0] = now
            sides = zip(itertools.cycle([("a", "b"), ("b", "a")]), results, strict=False)
            show([Game(names, 0, 0, 0, (), result, True, (0, 0)) for names, result in sides])
    line = "games: 46/100  0:03:22 left  0.3 per second  a – b +2 =1 −1\n"
    assert said.getvalue() == line


@pytest.mark.slow
def test_first_documented_command_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, *arguments = shlex.split(shell_lines("docs/compare.md")[0])
    assert main(arguments) == 0
    assert (tmp_path / "runs/exact/report.html").exists()
    # The example of the page works on these games.
    [example] = blocks("docs/compare.md", "python")
    names: dict[str, Any] = {}
    exec(compile(example, "docs/compare.md", "exec"), names)
    assert names["states"].terminated.tolist() == [True]
