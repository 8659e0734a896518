"""The time of a move, and the clocks of GTP."""

import pytest

from dualmctx.protocols.clocks import EXPECTED_MOVES, Clock, GtpClocks


def test_a_move_gets_its_share_of_the_time() -> None:
    for clock, seconds in (
        (Clock(30.1), 30 / EXPECTED_MOVES),
        (Clock(30.1, 2.0), 30 / EXPECTED_MOVES + 1.6),
        (Clock(30.1, 0.0, 3), 10),
        # The last move before more time comes may use all, no other more than a half.
        (Clock(30.1, 0.0, 1), 30),
        (Clock(1.1, 10.0), 0.5),
        (Clock(0.05), 0),
        (Clock(-5, 0.1), 0),
    ):
        assert clock.seconds(0.1) == pytest.approx(seconds), clock
    # Time is never lost.
    remaining = 2.0
    for _ in range(300):
        remaining += 0.01 - Clock(remaining, 0.01).seconds(0.001) - 0.001
        assert remaining > 0


def test_byo_yomi_follows_the_main_time() -> None:
    clocks = GtpClocks(60, 10, 5)
    assert clocks.seconds(0, 0.0) == pytest.approx(60 / EXPECTED_MOVES)
    clocks.spend(0, 61.0)
    for _ in range(2):
        assert clocks.seconds(0, 0.0) == pytest.approx(2.0)
        for seconds in (2.0, 2.0, 2.0, 2.0, 1.0):
            clocks.spend(0, seconds)
    # The other side has not used its main time.
    assert clocks.seconds(1, 0.0) == pytest.approx(60 / EXPECTED_MOVES)
    clocks.set(1, 3, 2)
    assert clocks.seconds(1, 0.0) == pytest.approx(1.5)
    clocks.begin()
    assert clocks.seconds(1, 0.0) == pytest.approx(60 / EXPECTED_MOVES)


def test_there_may_be_no_limit() -> None:
    for clocks in (GtpClocks(), GtpClocks(60, 10, 0), GtpClocks(0, 1, 0)):
        assert clocks.seconds(0, 0.0) is None
        clocks.spend(0, 5.0)
        # The clock of one side is no limit of the other.
        clocks.set(1, 30, 3)
        assert (clocks.seconds(0, 0.0), clocks.seconds(1, 0.0)) == (None, 10.0)
    assert GtpClocks(0, 0, 0).seconds(0, 0.0) == 0.0
    assert GtpClocks(0, 10, 2).seconds(0, 0.0) == pytest.approx(5.0)
