"""Games on the page of a report: their data, and the viewer, run by Chromium."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import browser
import games
from dualmctx.errors import UserError
from dualmctx.matches.game_file import Game
from dualmctx.matches.report import replays as module
from dualmctx.matches.report.replays import choose_games, make_replays
from dualmctx.pages import bundle_modules
from games.pictures import picture


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
    numbers = [[x.pair for x in chosen[::2] if {*x.players} == {*both}] for both in ("ab", "bc")]
    assert all(pairs == [*range(len(pairs))] for pairs in numbers)
    assert len(numbers[0]) - len(numbers[1]) in (0, 1)
    # One pair is always shown, however long.
    long = [game_of("ab", i // 2, (0,) * 5000, 1) for i in range(4)]
    assert choose_games(long) == long[:2]
    assert choose_games([]) == []


def test_games_without_a_drawing_have_their_moves(
    env: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(state: Any) -> None:
        raise UserError("no drawing")

    monkeypatch.setattr(module, "picture", fail)
    found = make_replays(env, [game_of("ab", 0, (1, 3, 2), 1)] * 2)
    assert found["undrawn"] == "no drawing"
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


@contextlib.contextmanager
def open_replays(chromium: Any, found: dict[str, Any]) -> Iterator[Any]:
    """Opens a page with the games of a report alone."""
    script = bundle_modules(Path(module.__file__).parent, "replay.js")
    with browser.open_page(chromium) as page:
        page.set_content(f'<div id="viewer"></div><script>"use strict";\n{script}</script>')
        page.evaluate(
            "data => module_replay_js.startViewer(document.getElementById('viewer'), data)", found
        )
        yield page


@pytest.mark.slow
def test_the_viewer_decodes_and_describes_every_position(
    chromium: Any, found: dict[str, Any]
) -> None:
    with open_replays(chromium, found) as page:
        boards, texts = page.evaluate(
            """data => { const { decodeBoards, describePosition } = module_replay_js; return [
              data.games.map(decodeBoards), data.games.map((game) =>
                [0, 1, 2, game.moves.length].map((place) => describePosition(game, place)))]; }""",
            found,
        )
        titles = page.locator(".choice option").all_inner_texts()
    assert boards == [decode(game) for game in found["games"]]
    assert titles[::3] == ["1. a – b: 1–0, 3 moves", "4. b – a: ½–½, 2 moves"]
    assert texts[0] == [
        "Start: a has the first side, b the second.",
        "Move 1 of 3: 2, given by the opening. b moves next.",
        "Move 2 of 3: b played 4. a moves next.",
        "Move 3 of 3: a played 3. a won.",
    ]
    drawn = ["The game is drawn.", "The game was cut short and counts as drawn."]
    assert [rows[-1].split(". ")[-1] for rows in texts] == ["a won.", "a won.", *drawn]


def shown_with(found: dict[str, Any], cells: list[str], **more: Any) -> dict[str, Any]:
    """Returns a game of one position with two columns, of which the second cell is marked."""
    game = found["games"][0] | {"start": [*range(len(cells))], "width": 2, "changes": [[]]}
    game |= {"moves": ["1"], "marked": [[1]], "shown": [0, 0], "opening": 1, "sides": [0, 1]}
    labels = {"row_labels": ["2", "1"], "column_labels": ["a", "b"]}
    return found | {"games": [game], "cells": cells, "captions": ["caption"]} | labels | more


@pytest.mark.slow
def test_the_viewer_draws_stones_letters_and_pieces(chromium: Any, found: dict[str, Any]) -> None:
    with open_replays(chromium, shown_with(found, ["x", "o", "<k>", ""])) as page:
        board = page.locator(".board")
        assert board.get_attribute("aria-label") == "caption. x o / <k>"
        assert board.locator(".cell").count() == 3
        assert board.locator(".marked .stone-second").count() == 1
        assert board.locator(".stone-first").count() == 1
        assert board.locator("text").all_text_contents() == ["2", "1", "a", "b", "<k>"]
    chess = shown_with(found, ["K", "k", ".", "Q"], is_chess=True, game="gardner_chess")
    with open_replays(chromium, chess) as page:
        # Pieces of both sides are solid symbols; a1 is a dark square.
        white, black = (page.locator(f".piece-{side}") for side in ("white", "black"))
        assert white.all_text_contents() == ["♚\ufe0e", "♛\ufe0e"]
        assert black.all_text_contents() == ["♚\ufe0e"]
        shades = page.locator(".cell").evaluate_all("cells => cells.map((x) => x.classList[1])")
        assert shades == ["light", "dark", "dark", "light"]


@pytest.mark.slow
def test_the_viewer_follows_keys_and_buttons(chromium: Any, found: dict[str, Any]) -> None:
    with open_replays(chromium, found) as page:

        def status() -> str:
            return page.inner_text(".status").split(":")[0]

        # The first position that the players chose from. Other keys do nothing.
        assert status() == "Move 1 of 3"
        keys = ("ArrowRight", 2), ("ArrowLeft", 1), ("ArrowRight", 2), ("ArrowRight", 3)
        for key, shown in (*keys, ("ArrowRight", 3), ("a", 3)):
            page.keyboard.press(key)
            assert status() == f"Move {shown} of 3"
        for name, shown in (
            (".back", 2),
            (".last", 3),
            (".moves button >> nth=0", 1),
            (".next", 2),
        ):
            page.locator(name).click()
            assert status() == f"Move {shown} of 3"
        page.locator(".first").click()
        assert status() == "Start"
        page.locator(".choice").select_option("1")
        page.locator(".last").click()
        page.keyboard.press("Control+ArrowLeft")
        assert status() == "Move 4 of 4"
