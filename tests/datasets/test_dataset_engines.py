"""Games of engines as data sets: seeds, resuming, perfect play, programs that speak GTP."""

import json
import multiprocessing
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import games
from dualmctx.commands.main import main
from dualmctx.datasets import load_dataset, read_manifest
from dualmctx.datasets.engines import EngineSpec
from dualmctx.datasets.self_play import PlayedGame, PlayOptions, play_games
from dualmctx.types import Failure
from installed import gtp_results, needs
from made_data_sets import content, make

ALL = ("--validation", "0", "--test", "0")
FAKE = Path(__file__).parents[1] / "programs" / "fake_gtp.py"


def run(*arguments: Any) -> int:
    return main(["dataset", *map(str, arguments)])


def play_with(
    tmp_path: Path, fault: str, number: int = 2, game: str = "tic_tac_toe", **options: Any
) -> tuple[list[PlayedGame], list[str]]:
    """Lets the fake program play; returns the games and the commands that it has received."""
    log = tmp_path / f"{fault}.log"
    seed = "{seed}" if fault == "random" else ""
    command = f"{shlex.join([sys.executable, str(FAKE), str(log), fault])} {seed}"
    engine = EngineSpec("gtp", command=command, timeout=60.0).build(make(game))
    played = []
    for index in range(number):
        engine.begin()
        played += play_games(make(game), engine.choose, [index], PlayOptions(**options))
    engine.close()
    return played, log.read_text().splitlines()


SHORT = ["boardsize 3", "clear_board", "genmove B", "genmove W"]
WHOLE = [*SHORT[:2], *(["genmove B", "genmove W"] * 4)[:7]]
CRASHED = "the program ended with exit code 3 at 'genmove W'"
REFUSED = "the program refused 'genmove W': not now"
NONSENSE = "the program's move is 'z9', which is not a move of tic_tac_toe"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "game", "moves", "result", "error", "commands"),
    [
        # The first free cell: X completes the anti-diagonal of 1 2 3 / 4 5 6 / 7.
        ("none", "tic_tac_toe", [0, 1, 2, 3, 4, 5, 6], 1.0, None, WHOLE),
        ("none", "go_9x9", [81, 81], -1.0, None, ["boardsize 9", "komi 7.5", *SHORT[1:]]),
        ("resign", "tic_tac_toe", [0], 1.0, None, SHORT),
        ("crash", "tic_tac_toe", [0], None, CRASHED, SHORT),
        ("illegal", "tic_tac_toe", [0], None, "the engine's move 2, 1, is not legal", SHORT),
        ("nonsense", "tic_tac_toe", [0], None, NONSENSE, SHORT),
        ("refuse", "tic_tac_toe", [0], None, REFUSED, SHORT),
    ],
)
def test_a_gtp_program_plays_games_and_a_fault_ends_one_only(
    fault: str,
    game: str,
    moves: list[int],
    result: float | None,
    error: str | None,
    commands: list[str],
    tmp_path: Path,
) -> None:
    played, found = play_with(tmp_path, fault, game=game)
    assert played == [PlayedGame(number, moves, [], result, error) for number in range(2)]
    assert found == 2 * commands


def test_a_gtp_program_is_told_of_random_moves(tmp_path: Path) -> None:
    [game], commands = play_with(tmp_path, "none", 1, opening_plies=(3,), seed=1)
    assert game.random == [0, 1, 2]
    names = [str(move + 1) for move in game.moves]
    opening = [f"play {color} {name}" for color, name in zip("BWB", names, strict=False)]
    assert commands[2:6] == [*opening, "genmove W"]


@pytest.mark.parametrize(
    ("game", "history", "answer"),
    [
        ("othello", [19, 64], 0),
        ("go_9x9", [0, 81], Failure("refused", "the program refused 'play W pass': not now")),
    ],
)
def test_a_program_of_othello_may_not_know_a_pass(
    game: str, history: list[int], answer: int | Failure, tmp_path: Path
) -> None:
    """GRhino passes by itself, and refuses `play` with a pass; only Go needs every pass."""
    command = shlex.join([sys.executable, str(FAKE), str(tmp_path / "log"), "no-pass"])
    engine = EngineSpec("gtp", command=command, timeout=60.0).build(make(game))
    assert engine.choose([history], [0]) == [answer]
    engine.close()


def test_a_seed_in_the_command_makes_games_reproducible(tmp_path: Path) -> None:
    one, _ = play_with(tmp_path, "random", 3)
    other, _ = play_with(tmp_path, "random", 3)
    assert one == other
    assert one[0].moves != one[1].moves


def choose_first_legal(histories: list[list[int]], seeds: list[int]) -> list[int | Failure]:
    return [min(set(range(9)) - set(history)) for history in histories]


def test_openings_and_random_moves_follow_the_options() -> None:
    env = make("tic_tac_toe")
    options = PlayOptions(seed=5, opening_plies=(1, 2), random_share=0.25)
    played = play_games(env, choose_first_legal, range(64), options)
    openings = [next(x for x in range(9) if x not in game.random) for game in played]
    assert set(openings) >= {1, 2}
    later = [sum(ply >= 2 for ply in game.random) / (len(game.moves) - 2) for game in played]
    assert 0.15 < np.mean(later) < 0.35
    # A game depends on its number and the seed only.
    assert play_games(env, choose_first_legal, range(40, 44), options) == played[40:44]
    assert play_games(env, choose_first_legal, range(64), options._replace(seed=6)) != played
    cut = play_games(env, choose_first_legal, range(4), PlayOptions(max_plies=4))
    assert [(len(game.moves), game.result) for game in cut] == [(4, None)] * 4


def test_a_game_that_is_over_in_its_opening_is_sampled_again() -> None:
    env = make("connect2")
    options = PlayOptions(opening_plies=(3,))

    def choose(histories: list[list[int]], seeds: list[int]) -> list[int | Failure]:
        return [min(set(range(4)) - set(history)) for history in histories]

    played = play_games(env, choose, range(32), options)
    assert all(game.random == [0, 1, 2] and len(game.moves) == 4 for game in played)


@pytest.mark.slow
@pytest.mark.parametrize("game", ["tic_tac_toe", "hsr"])
def test_perfect_games_keep_the_value(game: str, tmp_path: Path) -> None:
    """Moves are optimal, and values after the last random move are those of the solution."""
    env, solution = make(game), games.solve(make(game))
    flags = ("--from", "perfect", "--games", 64, "--batch", 16, "--random-share", 0.2, *ALL)
    assert run(game, *flags, "--out", tmp_path / "set") == 0
    positions, known = 0, 0
    by_observation = {
        x.tobytes() + y.tobytes(): index
        for index, (x, y) in enumerate(_observe(env, solution.histories))
    }
    for batch in load_dataset(tmp_path / "set", env=env):
        x = batch.positions
        for o, legal, policy, value, has_value in zip(
            *map(np.asarray, (x.observation, x.legal_action_mask, x.policy, x.value, x.has_value)),
            strict=True,
        ):
            index = by_observation[o.tobytes() + legal.tobytes()]
            assert solution.optimal_actions[index, policy.argmax()]
            positions, known = positions + 1, known + has_value
            assert not has_value or value == solution.values[index]
    assert 0 < known < positions


def _observe(env: Any, histories: np.ndarray) -> Any:
    states = games.replay(env, histories)
    return zip(np.asarray(states.observation), np.asarray(states.legal_action_mask), strict=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("connect_four", "--from", "perfect"), "the engine bitbully"),
        (("othello", "--from", "perfect"), "no solver for 'othello'"),
        (("hex", "--from", "openspiel-mcts"), "OpenSpiel's MCTS supports connect_four"),
        (("hsr", "--from", "bitbully"), "bitbully supports connect_four, not hsr"),
        (("gardner_chess", "--from", "gtp", "--gtp-command", "x"), "has no moves of gardner_chess"),
        (("go_9x9", "--from", "gtp", "--gtp-command", "no-such -x"), "no program 'no-such'"),
        (("go_9x9", "--from", "gtp", "--gtp-command", "'"), "it cannot be parsed"),
        (("go_9x9", "--from", "gtp", "--gtp-command", "false"), "ended with exit code 1"),
        (("hsr", "--from", "network", "--checkpoint", "nim"), "nim plays nim, not hsr"),
    ],
)
def test_engines_that_do_not_fit_are_refused(
    arguments: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments, "--out", tmp_path / "set") == 2
    [line] = capsys.readouterr().err.splitlines()
    assert message in line
    assert not (tmp_path / "set").exists()


@pytest.mark.slow
def test_games_can_be_added_and_a_kill_loses_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ("tic_tac_toe", "--from", "perfect", "--batch", 16, "--seed", 3, "--block", 16)
    assert run(*flags, "--games", 50, "--out", tmp_path / "whole") == 0
    grown = tmp_path / "grown"
    assert run(*flags, "--games", 21, "--out", grown) == 0
    more = (*flags, "--games", 50, "--out", grown, "--resume")
    assert run(*more, "--validation", 0.1) == 2
    assert run(*flags, "--games", 20, "--out", grown, "--resume") == 2
    assert "games is 20, but the data set" in capsys.readouterr().err
    assert read_manifest(grown).counts["read"] == 21
    for name in ("make_games", "discard_data_set", "build_shards", "finish"):
        with monkeypatch.context() as patch:
            patch.setattr(f"dualmctx.datasets.make.{name}", _kill)
            with pytest.raises(Killed):
                run(*more)
    assert run(*more) == 0
    assert content(grown) == content(tmp_path / "whole")
    assert read_manifest(grown).counts["read"] == 50


class Killed(BaseException):
    """Stops a command at once; no command catches it."""


def _kill(*_: Any, **__: Any) -> None:
    raise Killed


@pytest.mark.slow
def test_processes_do_not_change_the_games_and_a_kill_loses_none(tmp_path: Path) -> None:
    pytest.importorskip("pyspiel")
    flags = [
        *("connect_four", "--from", "openspiel-mcts", "--simulations", "60", "--games", "12"),
        *("--opening-plies", "2"),
    ]
    assert run(*flags, "--processes", 1, "--out", tmp_path / "whole") == 0
    expected = content(tmp_path / "whole")
    # Processes take seconds to start, so only one of the two runs continues with them.
    for number, processes in ((signal.SIGKILL, 1), (signal.SIGTERM, 2)):
        killed = tmp_path / f"killed-{number}"
        command = [sys.executable, "-m", "dualmctx", "dataset", *flags, "--processes", "2"]
        process = subprocess.Popen([*command, "--out", str(killed)], stderr=subprocess.PIPE)
        file = killed / "games.jsonl"
        while process.poll() is None and not (file.exists() and b"\n" in file.read_bytes()):
            time.sleep(0.05)
        os.kill(process.pid, number)
        _, errors = process.communicate(timeout=60)
        if number == signal.SIGTERM:
            assert process.returncode == 130
            assert b"to continue: dualmctx dataset connect_four" in errors
        assert run(*flags, "--processes", processes, "--out", killed, "--resume") == 0
        assert content(killed) == expected
    assert multiprocessing.active_children() == []


GNU_GO = "gnugo --mode gtp --level 1 --chinese-rules --positional-superko --seed {seed}"
INSTALLED = pytest.mark.parametrize(
    ("game", "command"),
    [
        ("go_9x9", f"{GNU_GO} --play-out-aftermath --capture-all-dead"),
        ("othello", "gtp-rhino"),
    ],
)


@pytest.mark.slow
@INSTALLED
def test_installed_programs_play_games_to_the_end(game: str, command: str, tmp_path: Path) -> None:
    """The results are those of the programs' own scores; random moves may be passes."""
    needs(command.split()[0])
    flags = ("--from", "gtp", "--gtp-command", command, "--games", 3, "--random-share", 0.1)
    assert run(game, *flags, "--out", tmp_path / "set", *ALL) == 0
    played = [json.loads(x) for x in (tmp_path / "set" / "games.jsonl").read_text().splitlines()]
    results = [line["result"] for line in played]
    assert gtp_results(make(game), command, [line["moves"] for line in played]) == results
