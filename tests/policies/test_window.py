"""The window is computed from the size of the game."""

from typing import Any

import pytest

from benchmarks.paper_setup import GAMES, Size, make_algorithms
from dualmctx import Backup, window_for
from oracle import plain_rules as plain

RULES = {"hsr": plain.HSR(4, 4, 16), "nim": plain.Nim(20, 3)}


def count_states(rules: Any) -> tuple[int, int]:
    """Counts the reachable states, and the plies of the longest game."""
    states = level = {rules.start()}
    plies = 0
    while level := {
        after
        for state in level
        if rules.result(state) is None
        for after in rules.moves(state).values()
    }:
        states = states | level
        plies += 1
    return len(states), plies


@pytest.mark.parametrize(("game", "window"), [("hsr", 3), ("nim", 2), ("connect-four", 15)])
def test_windows_of_paper_games(game: str, window: int) -> None:
    row = GAMES[game]
    if game in RULES:
        assert (row.num_states, row.max_plies) == count_states(RULES[game])
    assert window_for(row.num_states, row.max_plies) == window
    dual: Any = make_algorithms(row, Size())["dual"].policy
    assert dual.backup == Backup(window=window)


def test_window_grows_with_logarithm() -> None:
    found = [window_for(2**bits, 1000) for bits in (0, 1, 6, 10, 20, 40, 80)]
    assert found == [2, 2, 2, 4, 7, 14, 28]
    # No game is longer than its longest one.
    assert window_for(2**80, 20) == 20
    assert window_for(10**170, 1) == 1


@pytest.mark.parametrize(
    ("numbers", "line"),
    [
        ((0, 5), "num_states is 0; it must be a whole number, at least 1"),
        ((2.5, 5), "num_states is 2.5; it must be a whole number, at least 1"),
        ((True, 5), "num_states is True; it must be a whole number, at least 1"),
        ((5, 4.0), "max_depth is 4.0; it must be a whole number, at least 1"),
        ((5, 0), "max_depth is 0; it must be at least 1"),
    ],
)
def test_bad_sizes_are_refused(numbers: Any, line: str) -> None:
    with pytest.raises(ValueError, match=f"^{line}$"):
        window_for(*numbers)
