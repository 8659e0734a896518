"""The measurements of `benchmarks.claims`: openings, games, windows, differences, resumption."""

import json
import pathlib
from typing import Any

import bitbully
import numpy as np
import pytest

import games
from benchmarks import claims
from benchmarks.connect_four import (
    label,
    make_solver,
    move_values,
    quiet_openings,
    random_positions,
)
from dualmctx.matches import Game

SOLVER = make_solver()


def perfect_discs(moves: list[int]) -> int:
    """Plays perfectly to the end; returns how many discs the winner has used."""
    while not bitbully.Board(moves).is_game_over():
        scores = SOLVER.score_all_moves(bitbully.Board(moves))
        moves = [*moves, max(scores, key=lambda column: scores[column])]
    return (len(moves) + 1) // 2


def test_quiet_openings_are_drawn_or_won_late() -> None:
    for drawn in (True, False):
        openings = quiet_openings(SOLVER, 4, 3, drawn=drawn)
        assert len({*openings}) == 4
        assert all(6 <= len(moves) <= 10 for moves in openings)
        values = label(SOLVER, [[*moves] for moves in openings]).values
        assert {*np.abs(values)} == {0.0 if drawn else 1.0}
        assert drawn or all(perfect_discs([*moves]) >= 16 for moves in openings)


def test_in_hard_positions_the_network_alone_loses_value() -> None:
    env = games.make(claims.GAME)
    subject = claims.cheap(env)
    data = claims.hard_positions(SOLVER, subject, 6, 3)
    logits, _ = subject[0].apply(subject[1], games.replay(env, data.histories).observation)[-1]
    moves = np.argmax(np.where(data.legal, logits, -np.inf), axis=1)
    assert not data.keeping[np.arange(6), moves].any()
    # At most one position of a game: none begins another one.
    starts = ["".join(map(str, x[x >= 0])) for x in data.histories]
    assert len({*starts}) == 6
    assert not any(x != y and x.startswith(y) for x in starts for y in starts)


def played(moves: list[int], opening: int, players: tuple[str, str], result: int) -> Game:
    return Game(players, 0, 0, opening, tuple(moves), result, True, (0, 0))


def test_a_game_is_described_from_the_view_of_the_search() -> None:
    # The second side fails to block column 4, and then the first side wins there.
    opening, rest = [3, 0, 3, 0], [3, 6, 3]
    before = [move_values(SOLVER, [*opening, *rest[:x]]) for x in range(3)]
    # Some first moves lose the win; then the second side is lost, and all moves keep the win.
    assert [bool(np.nanmin(x) < np.nanmax(x)) for x in before] == [True, False, False]
    moves = [*opening, *rest]
    first = played(moves, 4, ("search", claims.WEAK), 1)
    assert claims.describe(SOLVER, first) == ("won side", "search", (1.0, 1.0, 0.0, 0.0, 0.5))
    second = played(moves, 4, (claims.WEAK, "search"), 1)
    assert claims.describe(SOLVER, second) == ("lost side", "search", (0.0, 1.0, 0.0, 0.0, 0.0))
    itself = played(moves, 4, ("search", "search"), 1)
    assert claims.describe(SOLVER, itself) == ("itself", "search", (1.0, 1.0, 0.0, 0.0, 0.25))


def test_errors_are_counted_for_the_side_that_makes_them() -> None:
    # From the start, only column 3 wins: column 0 gives the win away.
    assert np.nanmax(move_values(SOLVER, [])) == 1 > move_values(SOLVER, [])[0]
    game = played([0, 3], 0, ("search", claims.WEAK), 0)
    case, name, numbers = claims.describe(SOLVER, game)
    assert (case, name, numbers[:4]) == ("won side", "search", (0.5, 0.0, 1.0, 0.0))
    other = claims.describe(SOLVER, played([0, 3], 0, (claims.WEAK, "search"), 0))
    assert (other[0], other[2][:4]) == ("lost side", (0.5, 0.0, 0.0, 1.0))
    both = claims.describe(SOLVER, played([0, 3], 0, ("search", "search"), 0))
    assert both[2][2:4] == (1.0, 0.0)


def test_a_window_writes_its_edges_only() -> None:
    env, data = games.make(claims.GAME), random_positions(SOLVER, 4, 5)
    searches = claims.window_searches("engine", 12, (1, 12))
    found = claims.measure(searches, claims.cheap(env), data, 2)
    whole, one, deep = (found[x] for x in (claims.BASE, "window 1", "window 12"))
    assert whole["steps"] == whole["updates"]
    assert min(whole["steps"]) > 1
    assert one["updates"] == [1, 1]
    assert min(one["steps"]) > 1
    # No simulation is longer than this window.
    assert (deep["steps"], deep["updates"]) == (whole["steps"], whole["updates"])
    assert deep["moves"] == whole["moves"] == whole["passes"] == deep["passes"]
    assert len(whole["moves"]) == 4
    assert all(len(x["seconds"]) == 2 and min(x["seconds"]) > 0 for x in found.values())


def test_kept_moves_are_counted_by_seed_and_stage() -> None:
    data = label(SOLVER, [[3, 0, 3, 0], [3, 0, 3, 0, 3], [], [3]])
    best = np.array([3, 1, 0, 3])
    found = claims.kept_of(data, best, 2)
    # The second position is lost, and the third move gives the win away.
    assert (found["kept"], found["early"], found["late"]) == ([1.0, 0.5], 0.5, 1.0)


def test_differences_are_paired_by_seed() -> None:
    # Changes of 0.1, 0.2 and 0.3: a mean of 0.2, a standard error of 0.0577, and t = 4.303.
    shown = claims.difference([0.6, 0.6, 0.6], [0.5, 0.4, 0.3])
    assert shown == "(+0.200 ± 0.248)"


@pytest.mark.slow
def test_the_benchmark_continues_after_a_stop(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, arguments = tmp_path / "rows.json", ["connect-four", "--quick", "--out"]
    folder = str(tmp_path / "run")

    def stop(*given: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(claims, "play_matches", stop)
        with pytest.raises(SystemExit, match="the same command continues"):
            claims.main([*arguments, folder])
    # The searches from positions are kept.
    monkeypatch.setattr(claims, "measure", stop)
    claims.main([*arguments, folder, "--json", str(file)])
    rows = json.loads(file.read_text())["rows"]
    cases = [(row["part"], row["case"]) for row in rows]
    expected = {("contempt", 4): 2, ("window", 6): 2, ("engine", 6): 2, ("matches", "lost side"): 2}
    expected |= {("matches", "won side"): 2, ("matches", "itself"): 2}
    assert {x: cases.count(x) for x in cases} == expected
    assert [row["games"] for row in rows if row["part"] == "matches"] == [4] * 6
    shown = capsys.readouterr().out
    assert all(f"{part}, {case}" in shown for part, case in expected)
