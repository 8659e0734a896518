"""Games of engines as data sets: seeds, resuming, perfect play, programs that speak GTP."""

import json
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

import games
from dualmctx.datasets import load_dataset, read_manifest
from dualmctx.datasets.self_play import PlayedGame, PlayOptions, play_games
from dualmctx.types import Failure
from made_data_sets import ALL, content, make, run

FAKE = Path(__file__).parents[1] / "programs" / "fake_gtp.py"


@pytest.mark.slow
def test_a_gtp_program_plays_the_same_games_in_any_number_of_processes(tmp_path: Path) -> None:
    """Each game starts the program anew, with a seed of its own, and tells it of random moves."""
    program = shlex.join([sys.executable, str(FAKE), str(tmp_path / "log"), "random"])
    flags = ("tic_tac_toe", "--from", f"gtp:{program} {{seed}}", *ALL)
    flags += ("--opening-plies", 1)
    assert run(*flags, "--games", 1, "--out", tmp_path / "grown") == 0
    [line] = (tmp_path / "grown" / "games.jsonl").read_text().splitlines()
    names = [str(move + 1) for move in json.loads(line)["moves"]]
    told = (tmp_path / "log").read_text().splitlines()
    begin = ["boardsize 3", "clear_board"]
    assert told[:4] == ["name", "version", *begin]
    assert told[4:8] == [*begin, f"play B {names[0]}", "genmove W"]
    more = (*flags, "--games", 7)
    assert run(*more, "--processes", 1, "--out", tmp_path / "grown", "--resume") == 0
    assert run(*more, "--processes", 3, "--out", tmp_path / "whole") == 0
    assert content(tmp_path / "grown") == content(tmp_path / "whole")


def test_a_fault_of_an_engine_ends_one_game(tmp_path: Path) -> None:
    """At the second move of a game, the engine resigns, crashes or moves to a taken cell."""
    faults = [Failure("resigned", "x"), Failure("crashed", "why"), 0]

    def choose(histories: list[list[int]], seeds: list[int]) -> list[int | Failure]:
        played = choose_first_legal(histories, seeds)
        if len(histories[0]) == 1:
            played[: len(faults)] = faults
        return played

    error = "the engine's move 2, 1, is not legal"
    assert play_games(make("tic_tac_toe"), choose, range(4), PlayOptions(), size=6) == [
        PlayedGame(0, [0], [], 1.0),
        PlayedGame(1, [0], [], None, "why"),
        PlayedGame(2, [0], [], None, error),
        PlayedGame(3, [0, 1, 2, 3, 4, 5, 6], [], 1.0),
    ]


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
    options = PlayOptions(opening_plies=(3,))
    played = play_games(make("connect2"), choose_first_legal, range(32), options)
    assert all(game.random == [0, 1, 2] and len(game.moves) == 4 for game in played)


@pytest.mark.slow
def test_perfect_games_keep_the_value(tmp_path: Path) -> None:
    """Moves are optimal, and values after the last random move are those of the solution."""
    env, solution = make("nim"), games.solve(make("nim"))
    flags = ("--from", "perfect", "--processes", 1, "--games", 64, "--random-share", 0.2, *ALL)
    assert run("nim", *flags, "--out", tmp_path / "set") == 0
    positions, known = 0, 0
    observations = np.asarray(games.replay(env, solution.histories).observation)
    by_observation = {x.tobytes(): index for index, x in enumerate(observations)}
    for batch in load_dataset(tmp_path / "set", env=env):
        x = batch.positions
        columns = map(np.asarray, (x.observation, x.policy, x.value, x.has_value))
        for observation, policy, value, has_value in zip(*columns, strict=True):
            index = by_observation[observation.tobytes()]
            assert solution.optimal_actions[index, policy.argmax()]
            positions, known = positions + 1, known + has_value
            assert not has_value or value == solution.values[index]
    assert 0 < known < positions


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("othello", "--from", "perfect"), "no solver for 'othello'"),
        (("go_9x9", "--from", "openspiel"), "OpenSpiel's MCTS supports connect_four"),
        (("go_9x9", "--from", "gtp:no-such -x"), "no program 'no-such'"),
        (("hsr", "--from", "nim+own"), "game is hsr; the networks play nim"),
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
    flags = ("tic_tac_toe", "--from", "perfect", "--processes", 1)
    flags += ("--batch", 16, "--seed", 3, "--block", 16)
    assert run(*flags, "--games", 50, "--out", tmp_path / "whole") == 0
    grown = tmp_path / "grown"
    assert run(*flags, "--games", 21, "--out", grown) == 0
    more = (*flags, "--games", 50, "--out", grown, "--resume")
    assert run(*more, "--validation", 0.1) == 2
    assert run(*flags, "--games", 20, "--out", grown, "--resume") == 2
    assert "games is 20, but the data set" in capsys.readouterr().err
    assert read_manifest(grown).counts["read"] == 21
    for name in ("make_games", "build_shards", "finish"):
        with monkeypatch.context() as patch:
            patch.setattr(f"dualmctx.datasets.make.{name}", Mock(side_effect=Killed))
            with pytest.raises(Killed):
                run(*more)
    with monkeypatch.context() as patch:
        patch.setattr("dualmctx.datasets.make.finish", Mock(side_effect=KeyboardInterrupt))
        assert run(*more) == 130
    assert "to continue: dualmctx dataset tic_tac_toe" in capsys.readouterr().err
    assert run(*more) == 0
    assert content(grown) == content(tmp_path / "whole")
    assert read_manifest(grown).counts["read"] == 50


class Killed(BaseException):
    """Stops a command at once; no command catches it."""


# Runs `python -m dualmctx`, but the games of the second batch are never written.
ONE_BATCH = """
import runpy, time
from dualmctx.runs.journal import Journal

append, journals = Journal.append, []

def append_once(self, rows):
    if journals:
        time.sleep(600)
    journals.append(self)
    append(self, rows)

Journal.append = append_once
runpy.run_module("dualmctx", run_name="__main__", alter_sys=True)
"""


@pytest.mark.slow
def test_processes_do_not_change_the_games_and_a_kill_loses_none(tmp_path: Path) -> None:
    pytest.importorskip("pyspiel")
    flags = [
        *("connect_four", "--from", "openspiel:simulations=60", "--games", "8"),
        *("--opening-plies", "2", "--batch", "2"),
    ]
    assert run(*flags, "--processes", 1, "--out", tmp_path / "whole") == 0
    expected = content(tmp_path / "whole")
    killed = tmp_path / "killed"
    command = [sys.executable, "-c", ONE_BATCH, "dataset", *flags, "--out", str(killed)]
    file = killed / "games.jsonl"
    for number, more in ((signal.SIGKILL, ()), (signal.SIGTERM, ("--resume",))):
        lines = file.read_bytes().count(b"\n") if file.exists() else 0
        process = subprocess.Popen([*command, "--processes", "2", *more], stderr=subprocess.PIPE)
        while process.poll() is None and not (
            file.exists() and file.read_bytes().count(b"\n") > lines
        ):
            time.sleep(0.02)
        process.send_signal(number)
        # It returns when no process is left that could write.
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"to continue: dualmctx dataset connect_four" in errors
    assert run(*flags, "--processes", 1, "--out", killed, "--resume") == 0
    assert content(killed) == expected
