"""`dualmctx compare`: from a command line to games, budgets and a report."""

import dataclasses
import functools
import io
import json
import math
import os
import shlex
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
from documents import blocks, read, shell_lines
from dualmctx.commands import compare, tournament_progress
from dualmctx.commands import load_players as loading
from dualmctx.commands.budgets import Budgets, read_budgets, set_budgets, write_budgets
from dualmctx.commands.flags import parse_flags
from dualmctx.commands.load_players import LoadedPlayers, load_players
from dualmctx.commands.main import main
from dualmctx.commands.opening_rules import choose_openings
from dualmctx.console import Console
from dualmctx.matches.game_file import Game, count_results, read_games
from dualmctx.matches.player_spec import parse_player
from dualmctx.matches.report import report as match_report
from dualmctx.policies import REGISTRY
from dualmctx.policies.budgets import split
from dualmctx.policies.costs import MoveCost
from dualmctx.ratings.elo import rate
from dualmctx.ratings.sprt import Sprt, judge_sequentially
from dualmctx.reports.numbers import show_elo
from untrained import export_untrained

ROOT = Path(__file__).parents[2]
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
    export_untrained(folder / "tic.safetensors", "tic-tac-toe")
    chain = ("--search.variant", "chain", "--network.num-blocks", "4")
    export_untrained(folder / "four.safetensors", "connect-four", *chain)
    return folder


@pytest.fixture(scope="module", autouse=True)
def shared_programs() -> Any:
    """Loads each network once, so that commands share compiled programs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "load_trained", functools.cache(loading.load_trained))
        yield


@pytest.fixture
def no_timing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skips the measurement of seconds, which would compile every search again."""
    for module in (compare, match_report):
        monkeypatch.setattr(module, "seconds_per_move", lambda env, player, positions: 0.001)


def run(files: Path, *arguments: str) -> int:
    given = ("--checkpoint", str(files / "connect2.safetensors"))
    return main([*arguments, *given])


@pytest.fixture(scope="module")
def whole(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a comparison without interruption."""
    folder = tmp_path_factory.mktemp("whole") / "out"
    assert run(files, *COMMAND, "--out", str(folder)) == 0
    return folder


def content(folder: Path) -> dict[str, Any]:
    """Reads a report without the fields that depend on the clock and the command."""
    report = json.loads((folder / "report.json").read_text())
    del report["settings"]["command"]
    del report["doublings"]
    for row in report["players"]:
        del row["seconds"], row["simulations_a_second"]
    return report


@pytest.mark.slow
def test_report_is_written_and_printed(files: Path, whole: Path, capfd: Any) -> None:
    out = str(whole)
    assert run(files, *COMMAND, "--out", out, "--resume") == 0
    shown = capfd.readouterr().out
    written = {"config.json", "budgets.json", "tournament.json", "games.jsonl"}
    written |= {"report.json", "report.html", "elo.png", "costs.png"}
    assert {file.name for file in whole.iterdir()} == written
    report = json.loads((whole / "report.json").read_text())
    page = (whole / "report.html").read_text()
    assert "http" not in page
    for row in report["players"]:
        assert row["name"] in shown
        assert f'<td class="name">{row["name"]}</td>' in page
        assert 0 < row["seconds"] < 10
    assert run(files, "compare") == 2
    assert "number of players is 0; name at least two players" in capfd.readouterr().err
    assert f"in {out}: report.html, report.json, elo.png, costs.png, games.jsonl" in shown
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
        ["dualmctx", *COMMAND, "--out", out, "--checkpoint", str(files / "connect2.safetensors")]
    )
    assert report["versions"]["jax"]


def stop_after(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Raises KeyboardInterrupt after a number of batches of a tournament."""
    play_all = tournament_progress.play_batches

    def play(*given: Any) -> Any:
        chunks = play_all(*given)
        for _ in range(number):
            yield next(chunks)
        raise KeyboardInterrupt

    monkeypatch.setattr(tournament_progress, "play_batches", play)


def test_interrupted_comparison_can_be_resumed(
    files: Path, whole: Path, tmp_path: Path, no_timing: None, capfd: Any
) -> None:
    out = tmp_path / "an out"
    with pytest.MonkeyPatch.context() as patch:
        stop_after(2, patch)
        assert run(files, *COMMAND, "--out", str(out)) == 130
    said = capfd.readouterr().err.splitlines()[-1]
    assert f"compare: stopped: games so far are in {out / 'games.jsonl'}; to continue: " in said
    assert len(read_games(out / "games.jsonl")) == 16
    assert not (out / "report.json").exists()
    program, *arguments = shlex.split(said.split("to continue: ")[1])
    assert (program, main(arguments)) == ("dualmctx", 0)
    assert (out / "games.jsonl").read_bytes() == (whole / "games.jsonl").read_bytes()
    assert content(out) == content(whole)


def test_a_comparison_without_games_names_no_file(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    """As after Ctrl-C while the searches are compiled."""
    stop_after(0, monkeypatch)
    assert run(files, *COMMAND, "--out", str(tmp_path / "out")) == 130
    said = capfd.readouterr().err.splitlines()[-1]
    assert "compare: stopped: no game is finished; to continue: dualmctx compare " in said
    assert not (tmp_path / "out/games.jsonl").exists()


def test_folder_is_locked_during_the_games(
    files: Path, whole: Path, tmp_path: Path, no_timing: None, capfd: Any
) -> None:
    out, play_all, codes = tmp_path / "out", tournament_progress.play_batches, []

    def play(*given: Any) -> Any:
        patch.undo()
        chunks = play_all(*given)
        yield next(chunks)
        codes.append(run(files, *COMMAND, "--out", str(out), "--resume"))
        yield from chunks

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tournament_progress, "play_batches", play)
        assert run(files, *COMMAND, "--out", str(out)) == 0
    assert codes == [2]
    assert f"compare: {out} is being written by process {os.getpid()} on" in capfd.readouterr().err
    assert (out / "games.jsonl").read_bytes() == (whole / "games.jsonl").read_bytes()


@pytest.mark.slow
def test_players_and_games_can_be_added(
    files: Path, whole: Path, tmp_path: Path, no_timing: None
) -> None:
    out = str(tmp_path / "out")
    few, flags = ("compare", *PLAYERS[1:]), ("--out", out, "--opening-plies", "1", "2")
    assert run(files, *few, *flags, "--games", "8") == 0
    # The batch of 4 pairs is kept.
    assert run(files, *few, PLAYERS[0], *flags, "--games", "20", "--resume") == 0
    found = content(tmp_path / "out")
    assert sorted(read_games(tmp_path / "out" / "games.jsonl")) == sorted(
        read_games(whole / "games.jsonl")
    )
    assert sorted(row["wins"] for row in found["players"]) == sorted(
        row["wins"] for row in content(whole)["players"]
    )
    assert run(files, *few, *flags, "--games", "8", "--resume") == 0
    assert [row["name"] for row in content(tmp_path / "out")["players"]] == ["random", "perfect"]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            ["--seed", "1", "--budget", "network", "--resume"],
            "has another configuration: budget (simulations → network), seed (0 → 1)",
        ),
        (["--opening-plies", "1", "--resume"], "configuration: opening_plies ([1, 2] → [1])"),
        (["--batch", "5", "--resume"], "has another configuration: batch (4 → 5)"),
        ([], "exists and is not empty; choose another folder"),
    ],
)
def test_resuming_with_other_settings_fails(
    changes: list[str], line: str, files: Path, whole: Path, capfd: Any
) -> None:
    before = (whole / "games.jsonl").read_bytes()
    assert run(files, *COMMAND, "--out", str(whole), *changes) == 2
    said = capfd.readouterr().err
    assert said.startswith("dualmctx compare: ")
    assert line in said
    assert said.count("\n") == 1
    assert (whole / "games.jsonl").read_bytes() == before


def test_different_player_with_the_same_name_fails(
    files: Path, whole: Path, tmp_path: Path, capfd: Any
) -> None:
    out = tmp_path / "out"
    shutil.copytree(whole, out)
    for player, line in [
        ("net=alphazero:simulations=4:c_puct=2", "about.search.puct.c_puct (1.25 → 2.0); choose"),
        ("net=gumbel:simulations=4", "about.search.variant (alphazero → gumbel); choose"),
    ]:
        arguments = ("compare", player, *PLAYERS[1:], *FLAGS, "--resume", "--out", str(out))
        assert run(files, *arguments) == 2
        said = capfd.readouterr().err
        assert "has a different player 'net': " in said
        assert line in said


@pytest.mark.sampled(39)
@pytest.mark.parametrize(
    ("players", "line"),
    [
        ("random", "number of players is 1; name at least two players"),
        ("random random", "two players have the name 'random'; write NAME=... to rename one"),
        ("random duel", "player 'duel': its search is duel; it must be one of dual, chain, "),
        ("random duel", "contempt, own, policy, random, perfect, openspiel"),
        (
            "random none/at/all+dual",
            "none/at/all is neither a run's folder, nor an exported .safetensors",
        ),
        ("random dual:rounds=2", "player 'dual:rounds=2': dual has no option rounds; it has simu"),
        ("random dual:num_rounds=x", "'dual:num_rounds=x': "),
        ("random dual:num_rounds=400", "num_rounds is 400; it must be "),
        ("random gumbel:qtransform=1", "gumbel has no option qtransform; it has simulations, max_"),
        ("random dual:simulations=1,2,3", "num_simulations is 1 2 3; it must be two numbers"),
        ("random alphazero:simulations=1,2", "player 'alphazero:simulations=1,2': num_simulations"),
        ("random chain", "player 'chain': head_depths is 1 2; it must name at least 3 depths"),
        ("random random:simulations=5", "player 'random:simulations=5': random has no options"),
        (
            "random dual openspiel",
            "player 'openspiel': OpenSpiel's MCTS supports connect_four, othello, ",
        ),
        ("random dual --anchor dull", "anchor is dull; it must be one of random, dual"),
        ("random dual --games 3", "games is 3; it must be even and at least 2"),
        ("random dual --games 400 --opening-plies 1", "found only 4 of 200 openings of 1 plies in"),
        ("random dual --simulations 0", "simulations is 0; it must be at least 1"),
        ("random dual --batch 2147483648", "batch is 2147483648; it must be at most 2147483647"),
        ("random dual --seed -1", "seed is -1; it must be from 0 to 4294967295"),
        ("random dual perfect --sprt 0 10", "sprt tests two players; there are 3"),
        ("random dual --sprt 10 0", "elo1 is 0.0; it must be above elo0, which is 10.0"),
        ("random dual --game nim", "game is nim; the networks play connect2"),
        (
            "random dual --game-parameters pile 31",
            "pile is 31; the networks play connect2: remove",
        ),
        ("random dual --max-plies 2", "max_plies is 2; it must exceed the longest opening, 2"),
        (
            "random dual --opening-plies 3000000000",
            "; it must exceed the longest opening, 3000000000",
        ),
        (
            "random dual --opening-plies -3000000000",
            "plies is -3000000000; each length must be from 1 to",
        ),
        ("random dual --max-plies 3000000000", "3000000000; it must be from 1 to 2147483647"),
        (
            "random openspiel:uct_c=1:foo=2",
            "openspiel has no option foo; it has simulations, uct_c",
        ),
        ("random policy:simulations=5", "policy does not search, so it has no simulations"),
        ("random policy:width=5", "policy has no option width; it has head, temperature"),
        ("random policy:head=last", "head is 'last'; it must be a whole number"),
        ("random policy:head=2", "head is 2; it must be from -2 to 1"),
        ("random policy:temperature=hot", "temperature is 'hot'; it must be a number"),
        ("random policy:temperature=nan", "temperature is nan; it must be finite and at least 0"),
        ("random openspiel:uct_c=nan", "uct_c is 'nan'; it must be a finite number of at least 0"),
        ("random openspiel:uct_c=-1", "uct_c is '-1'; it must be a finite number of at least 0"),
        ("random openspiel:uct_c=one", "uct_c is 'one'; it must be a finite number of at least 0"),
        ("random dual --resume", "has no config.json, so there is no run there"),
    ],
)
def test_invalid_input_fails_with_one_line(
    players: str, line: str, files: Path, tmp_path: Path, capfd: Any
) -> None:
    out = tmp_path / "out"
    assert run(files, "compare", *FLAGS, "--out", str(out), *players.split()) == 2
    said = capfd.readouterr().err
    assert said.startswith("dualmctx compare: ")
    assert line in said
    assert said.count("\n") == 1
    assert not out.exists()


def test_all_players_must_play_the_same_known_game(files: Path, tmp_path: Path, capfd: Any) -> None:
    out = ("--out", str(tmp_path / "out"))
    for arguments, line in [
        (("random", "perfect"), "no player has a network; name the game with --game"),
        (("random", "dual"), "player 'dual' has no checkpoint; write CHECKPOINT+dual, or set "),
        (
            (f"a={files}/tic.safetensors+dual", f"b={files}/connect2.safetensors+dual"),
            "player 'b' plays connect2, the first network plays tic_tac_toe",
        ),
        (("random", "perfect", "--game", "go_9x9"), "player 'perfect': no solver for 'go_9x9'"),
    ]:
        assert main(["compare", *arguments, *out]) == 2
        assert line in capfd.readouterr().err


@pytest.mark.parametrize(
    ("module", "player", "line"),
    [
        (
            "bitbully",
            "perfect",
            "the perfect player of Connect Four needs bitbully: pip install bitbully "
            "bitbully-databases (AGPL)",
        ),
        (
            "pyspiel",
            "openspiel",
            'OpenSpiel\'s MCTS needs pyspiel: pip install "dualmctx[compare]"',
        ),
    ],
)
def test_missing_package_fails_with_one_line(
    module: str,
    player: str,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfd: Any,
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    arguments = ["compare", player, "random", "--game", "connect_four"]
    assert main([*arguments, "--out", str(tmp_path / "out")]) == 2
    said = capfd.readouterr().err
    assert said.startswith(f"dualmctx compare: player '{player}': {line}")
    assert said.count("\n") == 1


def test_game_parameters_must_match_the_network(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = loading.load_trained(str(files / "connect2.safetensors"))
    sized = trained._replace(record=trained.record | {"game_parameters": {"size": 4, "win": 2}})
    monkeypatch.setattr(loading, "load_trained", lambda *given, **options: sized)
    asked = [parse_player("dual")], "sized.safetensors", None
    found = load_players(*asked, {"size": 4}, 85)
    assert found.game_parameters == {"size": 4, "win": 2}
    line = r"^size is 5; the networks play connect2 size 4 win 2: remove"
    with pytest.raises(ValueError, match=line):
        load_players(*asked, {"size": 5}, 85)


def load(files: Path, *players: str, name: str = "four", total: int = 85) -> LoadedPlayers:
    specs = [parse_player(player) for player in players]
    return load_players(specs, str(files / f"{name}.safetensors"), None, {}, total)


def cost_of(found: LoadedPlayers, budgets: Budgets) -> dict[str, Any]:
    return {
        x.spec.name: x.build(budgets.players[x.spec.name].simulations).cost for x in found.builders
    }


def no_clock(player: Any) -> float:
    raise AssertionError


def test_default_simulations_are_split_over_trees(files: Path) -> None:
    found = load(
        files, "dual", "alphazero", "chain", "own", "random", "gumbel", "dual:simulations=9"
    )
    asked = [builder.simulations for builder in found.builders]
    assert asked == [(50, 35), (85,), (40, 25, 20), (40, 25, 20), None, (85,), (5, 4)]
    fewer = load(files, "dual", "alphazero", "own", total=10).builders
    assert [builder.simulations for builder in fewer] == [(6, 4), (10,), (40, 25, 20)]
    players = [builder.build(builder.simulations) for builder in found.builders]
    searches = [player.about.get("search") for player in players]
    # As in evals: no noise, the best move.
    assert all(x["root"]["dirichlet_fraction"] == 0 for x in searches if x and "root" in x)
    assert searches[3] == searches[2] | {"num_rounds": 5}
    assert searches[5]["gumbel_scale"] == 0
    assert found.env is found.trained.env


def test_player_options_set_policy_options(files: Path) -> None:
    texts = (
        "dual:window=3:num_rounds=7",
        "alphazero:regularized=act,search:reuse-capacity=8",
        "own:c_puct=3",
    )
    found = [x.build(None).about["search"] for x in load(files, *texts).builders]
    assert (found[0]["backup"]["window"], found[0]["num_rounds"]) == (3, 7)
    assert (found[1]["puct"]["regularized"], found[1]["reuse_capacity"]) == (["act", "search"], 8)
    assert (found[2]["puct"]["c_puct"], found[2]["variant"]) == (3.0, "chain")


def test_policy_plays_the_most_probable_legal_move_of_a_head(files: Path) -> None:
    found = load(files, "policy", "policy:head=0", "hot=policy:temperature=1")
    last, first, hot = (builder.build(None) for builder in found.builders)
    assert found.trained is not None
    network, params = found.trained.network, found.trained.params
    states = jax.vmap(found.env.init)(jax.random.split(jax.random.PRNGKey(0), 64))
    # Column 0 is then full, so its moves are illegal.
    for action in (0,) * 6:
        states = jax.vmap(found.env.step)(states, jnp.full(64, action))
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


# MPV needs separate networks.
@pytest.mark.parametrize("variant", sorted(REGISTRY.keys() - {"mpv"}))
def test_all_variants_can_be_players(variant: str, files: Path) -> None:
    [builder] = load(files, variant).builders
    assert builder.build(builder.simulations).about["search"]["variant"] == variant


def test_network_budget_equalises_blocks(files: Path) -> None:
    texts = ("dual:simulations=50,35", "alphazero", "chain", "random", "gumbel:simulations=7")
    found = load(files, *texts, name="four")
    budgets = set_budgets("network", found.builders, no_clock)
    assert (budgets.reference, budgets.target) == (texts[0], 50 * 1 + 35 * 3)
    costs = cost_of(found, budgets)
    # A further simulation would cost 4 blocks.
    for name in ("alphazero", "gumbel:simulations=7"):
        assert abs(costs[name].blocks - 155) <= 2
        assert budgets.players[name].simulations == (39,)
    assert abs(costs["chain"].blocks - 155) <= 1
    assert budgets.players["random"].simulations is None
    shape = budgets.players["chain"].simulations
    assert shape == split(sum(shape), (40, 25, 20))


def test_network_budget_requires_fixed_cost(files: Path) -> None:
    texts = ("dual", "alphago:rollout_length=none")
    with pytest.raises(ValueError, match=r"^player 'alphago.*': [^\n]+ set rollout_length$"):
        set_budgets("network", load(files, *texts).builders, no_clock)


def clock(player: Any) -> float:
    """A simulated machine: a move has a fixed cost and a cost per block."""
    return 0.001 + 1e-5 * player.cost.blocks


def test_seconds_budget_is_measured_once_and_saved(files: Path, tmp_path: Path) -> None:
    found = load(files, "alphazero:simulations=100", "dual:simulations=6,4", "random")
    budgets = set_budgets("seconds", found.builders, clock)
    assert (budgets.reference, budgets.target) == (
        "alphazero:simulations=100",
        pytest.approx(0.005),
    )
    dual = budgets.players["dual:simulations=6,4"]
    assert dual.measured[-1].simulations == dual.simulations
    assert dual.measured[-1].seconds == pytest.approx(0.005, rel=0.01)
    assert 2 <= len(dual.measured) <= 4
    write_budgets(tmp_path, budgets)
    known = read_budgets(tmp_path)
    assert known == budgets
    # A new player gets the same cost; other players are not measured again.
    more = load(files, "gumbel", "dual:simulations=6,4", "alphazero:simulations=100")
    joined = set_budgets("seconds", more.builders, clock, known)
    assert joined.players["gumbel"].simulations == (100,)
    assert joined.target == budgets.target
    for name in ("dual:simulations=6,4", "alphazero:simulations=100"):
        assert joined.players[name] == budgets.players[name]
    # An absent player keeps its budget.
    fewer = set_budgets("seconds", more.builders[:2], clock, known)
    assert "alphazero:simulations=100" not in fewer.players
    write_budgets(tmp_path, fewer)
    kept = read_budgets(tmp_path)
    assert kept is not None
    assert kept.players == joined.players | budgets.players
    changed = load(files, "alphazero:simulations=100", "dual:simulations=6,4", total=1)
    other = dataclasses.replace(changed.builders[1].spec, simulations=(9, 9))
    moved = changed.builders[1]._replace(spec=other, simulations=(9, 9))
    with pytest.raises(ValueError, match=r"had other simulations \(6 \+ 4 → 9 \+ 9\); choose"):
        set_budgets("seconds", [moved], no_clock, known)


def test_players_are_timed_with_the_tournament_batch(
    files: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    sizes = []

    def measure(env: Any, player: Any, positions: Any) -> float:
        sizes.append(len(positions))
        return clock(player)

    monkeypatch.setattr(compare, "seconds_per_move", measure)
    flags = ["alphazero:simulations=20", "dual", *FLAGS, "--budget", "seconds"]
    options = parse_flags(compare.Options(), flags, "", "")
    tournament, budgets = compare.prepare(options, load(files, *flags[:2], name="connect2"), 4)
    assert set(sizes) == {4}
    chosen = [player.cost.simulations for player in tournament.players]
    assert chosen == [sum(row.simulations) for row in budgets.players.values()]
    said = capfd.readouterr().err.splitlines()
    assert said[0] == "alphazero:simulations=20: 20 simulations, 1.40 ms per move"
    assert len(said) == len(sizes)


def test_opening_rules(files: Path) -> None:
    tic = load(files, "dual", "random", name="tic")
    assert choose_openings("start", tic, 3, (4,), 0) == [(), (), ()]
    found = choose_openings("balanced", tic, 20, (2, 3), 0)
    assert choose_openings("random", tic, 20, (2, 3), 0) != found
    solution = games.solve(tic.env)
    histories = [[int(x) for x in row if x >= 0] for row in solution.histories]
    values = dict(zip(map(stones, histories), solution.values, strict=True))
    assert {values[stones(opening)] for opening in found} == {0}


def write_positions(file: Path, *rows: dict[str, Any]) -> Path:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@pytest.mark.slow
def test_games_start_from_a_file_of_positions(tmp_path: Path, no_timing: None, capfd: Any) -> None:
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
    # The file may be moved and extended.
    file.rename(tmp_path / "more.jsonl")
    file = write_positions(tmp_path / "more.jsonl", *rows[:3], {"moves": "3"})
    resumed = [*command, "--openings", str(file), "--max-plies", "4", "--resume", "--games"]
    assert main([*resumed, "8"]) == 0
    assert read_games(out / "games.jsonl")[:4] == played
    # Openings that have been played must not change.
    before = (out / "games.jsonl").read_bytes()
    write_positions(file, rows[0], {"moves": "23"}, *rows[2:])
    capfd.readouterr()
    assert main([*resumed, "8"]) == 2
    line = f"the tournament in {out} has different openings (pair 1: [2, 0] → [1, 2]); choose"
    assert line in capfd.readouterr().err
    assert (out / "games.jsonl").read_bytes() == before
    assert main([*command, "--resume", "--games", "8", "--max-plies", "5"]) == 2
    assert "openings (file → random)" in capfd.readouterr().err


def test_openings_are_read_from_csv(tmp_path: Path, files: Path) -> None:
    file = tmp_path / "odds.csv"
    file.write_text('id,moves\n1,12\n2,"[2, 0]"\n')
    tic = load(files, "dual", "random", name="tic")
    assert choose_openings(str(file), tic, 2, (4,), 0) == [(0, 1), (2, 0)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("lines", "line"),
    [
        (["1", "11"], "FILE, line 2: move 2, '1', is illegal"),
        (["12", "131"], "FILE, line 2: move 3, '1', is illegal"),
        (
            ["12", "", "1425"],
            "FILE, line 3: move 4, '5', is not a move of connect2: write one of 1, ",
        ),
        (["132"], "FILE, line 1: the game is over; remove the line"),
        (["1324"], "FILE, line 1: move 4, '4', comes after the end of the game"),
        (
            ["14", "321", "23", "123"],
            "FILE, line 4: the position is the same as in line 2, so the same",
        ),
        (
            ["1", "2"],
            "games is 6, two per opening; FILE has only 2 positions: set --games to at most 4",
        ),
        ([], "FILE has no positions"),
        (["{"], "FILE, line 1: not JSON: "),
        (['{"fen": "8/8/8/8/8/8/8/8 w - - 0 1"}'], "FILE, line 1: connect2 has no FEN: it is for"),
    ],
)
def test_invalid_opening_file_fails_with_one_line(
    lines: list[str], line: str, tmp_path: Path, capfd: Any
) -> None:
    file, out = tmp_path / "odds.jsonl", tmp_path / "out"
    file.write_text("".join(_as_json(text) + "\n" for text in lines))
    command = ["compare", *PLAYERS[1:], "--game", "connect2", "--games", "6", "--out", str(out)]
    assert main([*command, "--openings", str(file)]) == 2
    said = capfd.readouterr().err
    assert said.startswith("dualmctx compare: ")
    assert line.replace("FILE", str(file)) in said
    assert said.count("\n") == 1
    assert not out.exists()


def _as_json(text: str) -> str:
    return json.dumps({"moves": text}) if text.isdigit() else text


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("none.jsonl", "openings is none.jsonl; the file does not exist"),
        ("odds.txt", "openings is odds.txt; it must be one of start, random, balanced, a .jsonl "),
        ("-", "openings is -; it must be one of start, random, balanced, a .jsonl file, a .csv"),
    ],
)
def test_unknown_opening_rule_fails(name: str, line: str, capfd: Any) -> None:
    assert main(["compare", "random", "perfect", "--game", "nim", "--openings", name]) == 2
    assert line in capfd.readouterr().err


def stones(moves: Any) -> tuple[frozenset, frozenset]:
    """Returns the cells that each side holds."""
    return frozenset(moves[::2]), frozenset(moves[1::2])


def test_unsolved_games_are_balanced_by_the_network(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    with pytest.raises(
        ValueError, match=r"^balanced openings need a network; use --openings random"
    ):
        choose_openings("balanced", made._replace(trained=None), 1, (1,), 0)


def test_games_without_draws_have_no_balanced_openings() -> None:
    nim = load_players([parse_player("random")], None, "nim", {"pile": 6}, 85)
    assert nim.game_parameters == {"pile": 6}
    with pytest.raises(
        ValueError, match=r"^nim has no draws, so no opening is balanced; use --openings"
    ):
        choose_openings("balanced", nim, 1, (1,), 0)


SPRT = ("compare", "perfect", "random", "--game", "connect2", "--openings", "start", "--batch", "8")


def test_decided_sprt_stops_the_games(tmp_path: Path, no_timing: None, capfd: Any) -> None:
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
    assert "H1 accepted after" in (tmp_path / "out" / "report.html").read_text()
    assert tournament_progress.judge_games(Sprt(0, 60), "perfect", judged[:-2]).accepted is None
    # The decision is final, even if more games are allowed.
    more = [*command, "--games", "800", "--resume"]
    assert main(more) == 0
    assert read_games(tmp_path / "out" / "games.jsonl") == played
    again = json.loads((tmp_path / "out" / "report.json").read_text())["sprt"]
    assert again == test
    before = (tmp_path / "out" / "report.json").read_bytes()
    capfd.readouterr()
    # The same name for another player: the saved games are not its games.
    other = [more[0], "perfect=random", *more[2:]]
    assert main(other) == 2
    assert "has a different player 'perfect': about" in capfd.readouterr().err
    assert (tmp_path / "out" / "report.json").read_bytes() == before


def test_sprt_scores_pairs_for_the_tested_player() -> None:
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
def test_asymmetric_sides_are_rated_separately(tmp_path: Path, no_timing: None) -> None:
    out = tmp_path / "out"
    game = ("--game", "hsr", "--game-parameters", "k", "2", "q", "2", "n", "4")
    flags = ("--games", "80", "--openings", "start", "--batch", "40", "--anchor", "random")
    assert main(["compare", "random", "perfect", *game, *flags, "--out", str(out)]) == 0
    report = json.loads((out / "report.json").read_text())
    sides = report["ratings_by_side"]["players"]
    assert [row["name"] for row in sides] == [
        "random (first)",
        "perfect (first)",
        "random (second)",
        "perfect (second)",
    ]
    # Includes games of each player against itself, which make the sides comparable.
    assert report["games"]["played"] == 240
    assert report["by_side"][0][0]["wins"] + report["by_side"][0][0]["losses"] == 80
    assert report["players"][0]["elo"] == sides[0]["elo"] == 0
    assert sides[2]["elo"] not in (None, 0)
    assert report["settings"]["game_parameters"] == {"k": 2, "q": 2, "n": 4}


def made(*results: int) -> list[Game]:
    return [
        Game((("a", "b"), ("b", "a"))[i % 2], 0, 0, 0, (), result, True, (0, 0))
        for i, result in enumerate(results)
    ]


def test_progress_in_a_log_file(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [5.0]
    monkeypatch.setattr("dualmctx.runs.progress.time.monotonic", lambda: clock[0])
    said = io.StringIO()
    with tournament_progress.progress(100, 40, Console(file=said, width=200)) as show:
        for now, results in ((10.0, (1, 0)), (25.0, (1, 1, 0, -1))):
            clock[0] = now
            show(made(*results))
    # 4 games in the 15 s since the first report, 54 are left; compilation does not count.
    assert said.getvalue() == "games: 46/100  0:03:22 left  0.3 per second  a – b +2 =1 −1\n"


def test_progress_on_a_terminal() -> None:
    said = io.StringIO()
    with tournament_progress.progress(
        100, 40, Console(file=said, force_terminal=True, width=120)
    ) as show:
        show(made(1, -1))
    assert "compiling" in said.getvalue()
    assert "42/100" in said.getvalue()
    assert "a – b +2 =0 −0" in said.getvalue()


@pytest.mark.slow
def test_documentation_describes_every_field(whole: Path) -> None:
    report = json.loads((whole / "report.json").read_text())
    for name in (*report, *report["players"][0]):
        assert f"`{name}`" in PAGE, name
    for field in dataclasses.fields(compare.Options):
        if field.name != "players":
            assert f"--{field.name.replace('_', '-')}" in PAGE, field.name


@pytest.mark.slow
def test_first_documented_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _, *arguments = shlex.split(shell_lines("docs/compare.md")[0])
    assert main(arguments) == 0
    assert (tmp_path / "runs/exact/report.html").exists()
    # The example of the page works on these games.
    [example] = blocks("docs/compare.md", "python")
    names: dict[str, Any] = {}
    exec(compile(example, "docs/compare.md", "exec"), names)
    assert names["states"].terminated.tolist() == [True]
    for field in Game._fields:
        assert f"`{field}`" in PAGE, field
