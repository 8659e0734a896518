"""Openings: distinct positions, and positions of a value."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import games
from dualmctx.errors import UserError
from dualmctx.matches.openings import (
    accept_balanced,
    find_starts,
    position_digests,
    random_openings,
    to_action_rows,
)

ENV = games.make("connect2")


@pytest.mark.slow
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
    with pytest.raises(UserError, match=r"^plies is 0; each length must be from 1 to"):
        random_openings(env, 1, plies=0, seed=0)


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
    with pytest.raises(UserError, match=message):
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
