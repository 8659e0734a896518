"""Commands of the Go Text Protocol for Go alone: handicap stones, and the status of stones."""

import contextlib
import re

import pytest
from test_gtp import GNUGO, Client

from dualmctx.programs.gtp import GtpProgram, GtpRefusalError
from dualmctx.protocols.gtp_text import handicap_points, most_handicap_points


def test_handicap_stones_are_placed_before_a_game() -> None:
    client = Client("go_9x9")
    assert client.ask("fixed_handicap 3") == "G7 C3 C7"
    rows = client.ask("gogui-rules_board").splitlines()
    assert (rows[2], rows[6], "".join(rows).count("X")) == ("..X...X..", "..X......", 3)
    assert client.ask("gogui-rules_side_to_move") == "white"
    assert client.refuse("undo") == "cannot undo"
    client.ask("play w E5", "undo")
    for line in ("fixed_handicap 2", "place_free_handicap 2", "set_free_handicap A1 B1"):
        assert client.refuse(line) == "board not empty"
    client.ask("clear_board", "set_free_handicap a1 J9")
    assert client.ask("gogui-rules_board").splitlines()[8] == "X........"
    client.ask("clear_board")
    for line, reason in {
        "fixed_handicap 1": "invalid number of stones: 1 on a board of size 9",
        "fixed_handicap 10": "invalid number of stones: 10 on a board of size 9",
        "set_free_handicap A1": "bad vertex list: a handicap has at least two stones",
        "set_free_handicap A1 pass": "bad vertex list: 'pass': a pass is no stone",
        "set_free_handicap A1 A1": "bad vertex list: 'A1': illegal move: .*",
        "set_free_handicap A1 Z9": "bad vertex list: 'Z9': illegal move: .*",
        "place_free_handicap 1": "invalid number of stones: 1 on a board of size 9",
        "place_free_handicap 81": "invalid number of stones: 81 on a board of size 9",
    }.items():
        assert re.fullmatch(reason, client.refuse(line)), line
        assert client.game.actions == []
    assert len(client.ask("place_free_handicap 20").split()) == 9
    assert "fixed_handicap" not in Client("tic_tac_toe").ask("list_commands")


def test_all_stones_of_go_are_alive() -> None:
    client = Client("go_9x9")
    assert client.ask("play b J1", "play w A9", "final_status_list alive") == "A9 J1"
    assert client.ask("final_status_list dead") == client.ask("final_status_list seki") == ""
    assert "not alive, seki or dead" in client.refuse("final_status_list well")


@pytest.mark.skipif(GNUGO is None, reason="needs gnugo")
def test_fixed_handicap_stones_are_those_of_gnu_go() -> None:
    with contextlib.closing(GtpProgram(f"{GNUGO} --mode gtp", 60)) as referee:
        for size in (5, 7, 8, 9, 13, 19):
            referee.send(f"boardsize {size}")
            largest = most_handicap_points(size)
            assert largest == {5: 0, 7: 4, 8: 4}.get(size, 9)
            for number in range(2, largest + 1):
                referee.send("clear_board")
                expected = referee.send(f"fixed_handicap {number}").split()
                assert sorted(handicap_points(size, number)) == sorted(expected)
            referee.send("clear_board")
            with pytest.raises(GtpRefusalError, match="invalid handicap"):
                referee.send(f"fixed_handicap {largest + 1}")
