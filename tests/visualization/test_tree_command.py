"""The command `dualmctx tree`: files, positions, and messages for bad input."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import games
from dualmctx import Dual
from dualmctx.commands.main import main
from dualmctx.commands.tree import Given, describe_search, read_given
from refusals import refused
from untrained import export_untrained

SEARCH = ("--variant", "alphazero", "--simulations", "6")


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(
        export_untrained(tmp_path_factory.mktemp("tree") / "connect2.safetensors", "connect2")
    )


@pytest.mark.slow
def test_a_search_is_drawn(network: str, tmp_path: Path, capfd: Any) -> None:
    one = tmp_path / "one.svg"
    assert main(["tree", network, "2 3", *SEARCH, "--out", str(one)]) == 0
    said = capfd.readouterr()
    assert (said.out, said.err) == ("", f"{one}\n")
    assert list(tmp_path.iterdir()) == [one]
    assert "connect2 after 2 3: alphazero, 6 simulations</title>" in one.read_text()
    assert ">N 7</text>" in one.read_text()

    file = tmp_path / "search.html"
    assert main(["tree", network, "2", *SEARCH, "--out", str(file)]) == 0
    data = re.findall(r'id="recording">(.*?)</script>', file.read_text(encoding="utf-8"))
    recording = json.loads(data[0])
    assert (recording["moves"], recording["simulations"]) == (["2"], [6])
    assert recording["network"] == network


def test_searches_with_several_trees_have_a_number_for_each() -> None:
    assert describe_search(Dual((10, 4), 2), None) == "dual, 10 and 4 simulations"
    assert describe_search(Dual((10, 4), 2), "dual:num_rounds=2") == (
        "dual:num_rounds=2, 10 and 4 simulations"
    )


def test_a_file_is_never_replaced(network: str, tmp_path: Path, capfd: Any) -> None:
    file = tmp_path / "tree.svg"
    file.write_text("mine")
    message = refused(["tree", network, "--out", str(file)], capfd)
    assert message == f"dualmctx tree: {file} exists; choose another file\n"
    assert file.read_text() == "mine"


def test_complete_games_are_drawn_from_the_name_of_the_game(tmp_path: Path) -> None:
    file = tmp_path / "nim.dot"
    small = ("--game-parameters", "pile", "4", "max_take", "2")
    assert main(["tree", "nim", *small, "--complete", "--out", str(file)]) == 0
    assert "nim: all 12 histories, 5 of them finished games" in file.read_text()
    assert file.read_text().count("peripheries=2") == 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("2", "2"), "move 2, '2', is illegal; legal moves are 1, 3, 4"),
        (("2", "1", "3"), "the game is over after 2 1 3; give a position with a legal move"),
        (("--out", "tree.png"), "must be a file that ends in .svg, .dot or .html"),
        (("--max-nodes", "0"), "max_nodes is 0; it must be at least 1"),
        (("--network-only",), "network_only grows no tree; leave it out"),
        (("--devices", "2"), "devices is 2; leave it out"),
        (("--compare",), "compare is True; write to a file that ends in .html"),
        (("--out", "a.html", "--max-nodes", "3"), "max_nodes is 3; leave it out; the page has"),
        (("--game-parameters", "pile", "3"), "game_parameters is pile 3; leave it out"),
        (("--simulations", "300000000"), "run fewer simulations"),
        (("connect2", "--complete", "--max-nodes", "52"), "more than max_nodes, 52; choose"),
        (("chess", "--complete"), "no solver for 'chess'"),
        (("connect2", "2", "--complete"), "position is 2; leave it out with --complete"),
        (("connect2", "--simulations", "4", "--complete"), "simulations is 4; leave it out with"),
        (("connect2", "--out", "a.html", "--complete"), "out is a.html; it must be a file that"),
        (("nim", "--game-parameters", "x", "1", "--complete"), "nim has no parameter 'x'"),
    ],
)
def test_bad_input_gives_one_message(
    network: str, arguments: tuple[str, ...], message: str, tmp_path: Path, capfd: Any
) -> None:
    out = () if "--out" in arguments else ("--out", str(tmp_path / "tree.svg"))
    checkpoint = () if "--complete" in arguments else (network,)
    assert message in refused(["tree", *checkpoint, *arguments, *out], capfd)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, capfd: Any) -> None:
    (tmp_path / "file").write_text("")
    out = str(tmp_path / "file" / "tree.svg")
    message = refused(["tree", "connect2", "--complete", "--out", out], capfd)
    assert str(tmp_path / "file") in message


FEN = "rnbqk/ppppp/5/PPPPP/RNBQK w - - 0 1"


def test_positions_are_moves_or_fens() -> None:
    chess, connect2 = games.make("gardner_chess"), games.make("connect2")
    assert read_given(connect2, ("2", "3"), None) == Given("2 3", None)
    assert read_given(chess, tuple(FEN.split()), None) == Given("", FEN)
    assert read_given(chess, ("b2b3",), FEN) == Given("b2b3", FEN)
    assert Given("b2b3", FEN).text == f" from {FEN} after b2b3"
    assert Given("", None).text == " at the start"
    with pytest.raises(ValueError, match=r"and the position is the FEN .*; give one of them"):
        read_given(chess, (FEN,), FEN)
