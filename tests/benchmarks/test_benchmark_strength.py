"""`python -m benchmarks.strength`: its shares, its players, its messages."""

import pathlib
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from benchmark_results import result_of

import games
from benchmarks import connect_four, strength
from dualmctx.commands.load_players import LoadedPlayers, PlayerBuilder
from dualmctx.matches.player_spec import parse_player
from dualmctx.matches.players import HostMover, Player
from dualmctx.types import Failure


def test_strength_differences_are_paired_by_position() -> None:
    first = np.array([True, True, False, False])
    row = strength.compare("games", "other", np.array([True, False, True, True]), first)
    assert (row.number, row.keeps[0], row.better, row.worse) == (4, 0.75, 2, 1)
    # Changes of 0, -100, 100 and 100: a mean of 25, a standard error of 47.87. Student's t with 3
    # degrees of freedom has 3.182.
    assert (row.difference, row.half_width) == (25, pytest.approx(152.35, abs=0.01))
    assert strength.compare("games", "one", first[:1], first[:1]).half_width == np.inf


@pytest.mark.slow
def test_strength_benchmark_compares_players(tmp_path: pathlib.Path) -> None:
    players, names = ("perfect", "four=alphazero", "random"), ("perfect", "four", "random")
    found = result_of(tmp_path, strength, "connect-four", *players, "--quick")
    rows = found["rows"]
    assert [(row["positions"], row["player"]) for row in rows] == [
        (kind, name) for kind in ("random", "games") for name in names
    ]
    assert found["players"]["four"]["search"]["num_simulations"] == 4
    for row in rows:
        share, low, high = row["keeps"]
        assert 0 <= low <= share <= high <= 1
        # The perfect player keeps the value everywhere.
        assert (row["better"], row["worse"]) == (0, round(8 * (1 - share)))
        assert row["difference"] == 100 * (share - 1)
    assert rows[0]["keeps"][0] == rows[3]["keeps"][0] == 1
    # In each contested position some move loses value.
    assert 0 < found["random_moves"]["games"] < 1


def test_strength_benchmark_asks_programs_for_some_moves_at_a_time(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    positions, calls = connect_four.random_positions(20, seed=3), list[Any]()
    connect_four.write_positions(tmp_path / "p.csv", positions)

    def choose(histories: list[list[Any]], seeds: list[int]) -> list[int | Failure]:
        calls.append(len(histories))
        resigned = Failure("resigned", "the program resigned")
        return [int(positions.keeping[x].argmax()) if x % 4 else resigned for x in seeds]

    mover = HostMover(choose, lambda: calls.append("begin"), lambda: calls.append("close"))
    player = PlayerBuilder(parse_player("p"), None, lambda _: Player("p", mover), mover.close)
    loaded = LoadedPlayers(games.make("connect_four"), {}, (player,), None)
    monkeypatch.setattr(strength, "load_players", lambda *_: loaded)
    flags = ["connect-four", "p", "--positions", str(tmp_path / "p.csv")]
    [row] = result_of(tmp_path, strength, *flags)["rows"]
    assert row["keeps"][0] == 0.75
    assert calls == ["begin", 16, "begin", 4, "close"]


def test_a_stopped_benchmark_that_keeps_nothing_does_not_promise_to_continue(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(strength, "find_positions", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(SystemExit, match=r"^130$"):
        strength.main(["connect-four", "random"])
    assert capsys.readouterr().err.endswith(": stopped\n")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["connect-four"], "the following arguments are required: PLAYER"),
        (["nim", "own"], "game is connect_four; the networks play nim"),
        (["connect-four", "alphazero:leaves=2"], "no option leaves"),
        (["connect-four", "own", "--seed", "-1"], "seed is -1"),
        (["connect-four", "own", "--positions", "no-such.csv"], "No such file or directory"),
    ],
)
def test_strength_benchmark_refuses_bad_input(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture
) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        strength.main(arguments)
    said = capsys.readouterr().err
    assert line in said, said
    assert "Traceback" not in said
