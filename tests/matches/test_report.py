"""The report of a tournament, compared with numbers counted by hand."""

import html
import itertools
import re
import sys
from typing import Any

import numpy as np
import pytest

from dualmctx.matches.game_file import Game
from dualmctx.matches.openings import Start
from dualmctx.matches.players import HostMover, Player
from dualmctx.matches.report.answer import count_games, find_repetitions
from dualmctx.matches.report.page import draw_pictures, make_page
from dualmctx.matches.report.report import Played, make_report
from dualmctx.models.costs import FREE, MoveCost
from dualmctx.ratings.sprt import Sprt, judge
from dualmctx.reports.numbers import show_interval, show_number

NAMES = ("<b>&$x_1$", "small", "lost")
HOST = HostMover(lambda histories, seeds: [0 for _ in histories])
COSTS = (MoveCost(40, 40, 80), MoveCost(10, 10, 20), FREE)
SECONDS = dict(zip(NAMES, (0.002, 0.001, 0.0005), strict=True))
# Of the first player of each two: results on the first side and on the second, pair by pair.
OUTCOMES = {
    (0, 1): [(1, 1)] * 30 + [(1, 0)] * 12 + [(-1, 0)] * 6 + [(0, -1)] * 5,
    (0, 2): [(1, 1)] * 44 + [(1, -1)] * 6,
    (1, 2): [(1, 1)] * 40 + [(-1, 1)] * 9 + [(0, 1)],
}


def make_games(players: tuple[str, str], results: list[tuple[int, int]]) -> list[Game]:
    made = []
    for pair, (first, second) in enumerate(results):
        for names, result in ((players, first), (players[::-1], -second)):
            is_over = result != 0
            made.append(Game(names, pair, 0, 1, (pair, 7, 7), result, is_over, (0, 2)))
    return made


GAMES = [
    game
    for (i, j), results in OUTCOMES.items()
    for game in make_games((NAMES[i], NAMES[j]), results)
]
ENTRANTS = tuple(Player(name, HOST, cost=cost) for name, cost in zip(NAMES, COSTS, strict=True))
# After the first move the second side moves.
STARTS = {(move,): Start(1, bytes([move])) for move in range(60)}


@pytest.fixture(scope="module")
def played() -> Played:
    test = Sprt(0, 10)
    told = (True, [NAMES[:2]], None, test, judge(test, np.ones(5)))
    return Played(ENTRANTS, GAMES, STARTS, SECONDS, *told)


@pytest.fixture(scope="module")
def report(played: Played) -> dict[str, Any]:
    pytest.importorskip("pyspiel")
    settings = {"game": "connect2", "batch": 4}
    budget = {"asked": [4, 3], "simulations": [8, 6], "measured": []}
    row = budget | {"measured": [{"simulations": [4, 3], "seconds": 0.25}]}
    budgets = {
        "rule": "seconds",
        "reference": "small",
        "target": 0.5,
        "players": dict(zip(NAMES, (budget, row, budget | {"asked": None}), strict=True)),
    }
    told = {"settings": settings, "versions": {}, "machine": {}, "budgets": budgets}
    return told | make_report(played)


def test_tables_equal_counts_by_hand(report: dict[str, Any]) -> None:
    for i, j in itertools.product(range(3), repeat=2):
        both, side = [], []
        for game in GAMES:
            if game.players == (NAMES[i], NAMES[j]):
                both.append(game.result)
                side.append(game.result)
            elif game.players == (NAMES[j], NAMES[i]):
                both.append(-game.result)
        for table, results in (("crosstable", both), ("by_side", side)):
            found = report[table][i][j]
            if i == j:
                assert found is None
                continue
            counts = {"wins": results.count(1), "draws": results.count(0)}
            counts["losses"] = len(results) - sum(counts.values())
            points = (len(results) + sum(results)) / 2
            assert found == counts | {"points": points}


def test_the_row_of_a_player_has_its_results_and_its_cost(report: dict[str, Any]) -> None:
    first, small, lost = report["players"]
    mine = [game for game in GAMES if "small" in game.players]
    assert small["wins"] + small["draws"] + small["losses"] == len(mine) == 206
    points = sum((1 + game.result * (1 if game.players[0] == "small" else -1)) / 2 for game in mine)
    assert small["score"] == pytest.approx(points / 206)
    assert (small["simulations"], small["evaluations"], small["blocks"]) == (10, 10, 20)
    assert small["simulations_a_second"] == pytest.approx(10_000)
    # The second of the two had chosen both moves.
    assert small["moves"] == 2 * sum(game.players[1] == "small" for game in mine)
    assert first["simulations_a_second"] == pytest.approx(20_000)
    assert lost["simulations_a_second"] is None
    assert first["mass"] == pytest.approx(1, abs=1e-3)
    assert first["low"] < first["elo"] < first["high"]


def test_sides_are_rated_separately(report: dict[str, Any], played: Played) -> None:
    rows = report["ratings_by_side"]["players"]
    assert [x["name"] for x in rows] == [f"{x} ({y})" for y in ("first", "second") for x in NAMES]
    # Games of a player with itself change only the results by side. Anchors move all ratings.
    mirror = make_games(("small", "small"), [(1, -1), (1, 0)])
    alone = make_report(played._replace(by_side=False, games=[*GAMES, *mirror]))
    assert alone["ratings_by_side"] is None
    for name in ("ratings", "crosstable", "alpha_rank"):
        assert alone[name] == report[name]
    assert alone["by_side"][1][1] == {"wins": 3, "draws": 1, "losses": 0, "points": 3.5}
    anchored = make_report(played._replace(anchor="small"))["ratings_by_side"]
    assert anchored["anchor"] == ("small (first)",)
    zero = rows[1]["elo"]
    assert abs(zero) > 1
    for before, row in zip(rows, anchored["players"], strict=True):
        assert row["elo"] == (before["elo"] and pytest.approx(before["elo"] - zero))


def test_warnings_name_their_reasons(report: dict[str, Any], played: Played) -> None:
    drawn = sum(game.result == 0 for game in GAMES)
    assert report["games"] == {"played": 306, "distinct": 306, "cut_short": drawn}
    assert report["warnings"] == [f"{drawn} games were cut short and count as drawn."]
    same = [game._replace(moves=(1,), is_over=True) for game in GAMES if "lost" not in game.players]
    pair = played._replace(players=ENTRANTS[:2], games=same[:40], by_side=False, test=None)
    # The first 20 pairs were all won, and the first player is the anchor.
    few, repeated, unbounded = make_report(pair)["warnings"]
    assert "only 40 games" in few
    assert f"2 of 40 games of {NAMES[0]} and small are distinct" in repeated
    assert unbounded.endswith("the interval of small.")


def test_a_pair_of_games_of_a_player_against_itself_counts_once() -> None:
    for openings, is_repeated in ((range(50), False), ([3] * 50, True)):
        both = [
            Game(("small", "small"), pair, 0, 1, (opening, 7), 1, True, (0, 1))
            for pair, opening in enumerate(openings)
            for _ in range(2)
        ]
        assert (("small", "small") in find_repetitions(both, STARTS)) == is_repeated


def test_many_repeated_pairings_are_summarised() -> None:
    names = "abcd"
    games = [
        Game(sides, pair, 0, 1, (3, 7), 1, True, (0, 1))
        for one, other in itertools.combinations(names, 2)
        for pair in range(60)
        for sides in ((one, other), (other, one))
    ]
    players = tuple(Player(name, HOST) for name in names)
    report = make_report(Played(players, games, STARTS, dict.fromkeys(names, 0.1), anchor="a"))
    repeated = [line for line in report["warnings"] if "repeat" in line]
    assert len(repeated) == 4
    assert "2 of 120 games of a and b are distinct" in repeated[0]
    assert repeated[-1] == "The games of 3 more pairings repeat each other in the same way."
    assert report["answer"]["weaker"] == []


def test_a_game_is_repeated_from_the_same_position_by_the_same_moves() -> None:
    starts = {(0, 1, 2): Start(1, b"one"), (2, 1, 0): Start(1, b"one")}
    starts |= {(5,): Start(0, b"one"), (4, 4, 4): Start(1, b"other")}

    def game_of(players: str, opening: tuple[int, ...], move: int) -> Game:
        sides = players[0], players[1]
        return Game(sides, 0, 0, len(opening), (*opening, move), 1, True, (0, 1))

    first = game_of("ab", (0, 1, 2), 7)
    # On the other side, b moves again after opening 5.
    for same in (("ab", (2, 1, 0), 7), ("ba", (5,), 7)):
        assert count_games([first, game_of(*same)], starts)["distinct"] == 1
    for other in (
        *(("ab", (5,), 7), ("ba", (2, 1, 0), 7), ("ab", (2, 1, 0), 6)),
        *(("ab", (4, 4, 4), 7), ("cb", (2, 1, 0), 7)),
    ):
        assert count_games([first, game_of(*other)], starts)["distinct"] == 2


def test_missing_openspiel_and_times_that_drifted_give_warnings(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "open_spiel.python.egt", None)
    for seconds, number in ((0.0025, 3), (0.0021, 2)):
        times = dict(zip(NAMES, (0.002, seconds, 0.0001), strict=True))
        found = make_report(played._replace(seconds=times, timed=NAMES[:2]))
        assert len(found["warnings"]) == number
        drift = f"a move of small took 25 % longer than one of {NAMES[0]}"
        assert any(drift in line for line in found["warnings"]) == (number == 3)
        assert found["alpha_rank"] is None
        assert [row["mass"] for row in found["players"]] == [None] * 3
        assert 'pip install "dualmctx[compare]"' in found["warnings"][-1]


def test_a_doubling_is_the_slope_between_two_players(report: dict[str, Any]) -> None:
    first, small, _ = report["players"]
    by_cost = {row["cost"]: row for row in report["doublings"]}
    assert list(by_cost) == ["simulations", "blocks", "seconds"]
    for cost, doublings in (("simulations", 2), ("blocks", 2), ("seconds", 1)):
        row = by_cost[cost]
        assert row["players"] == NAMES[:2]
        slope = (first["elo"] - small["elo"]) / doublings
        assert row["elo"] == pytest.approx(slope)
        assert row["low"] < slope < row["high"]
        assert row["percent"] == pytest.approx(100 * (2 ** (1 / slope) - 1))


def test_the_page_links_to_no_other_file(report: dict[str, Any]) -> None:
    pictures = draw_pictures(report)
    moves = {"moves": ["</script>"], "opening": 0, "sides": [0, 1], "result": 1, "is_over": True}
    replays = {"games": [moves | {"players": NAMES[:2]}], "total": 306, "undrawn": "no drawing"}
    page = make_page(report, pictures, replays)
    assert not re.search(r"https?:|url\(|@import", page.replace("http://www.w3.org/2000/svg", ""))
    sources = re.findall(r"(?:src|href)=.(.{31})", page)
    assert sources == ["data:image/png;base64,iVBORw0KG"] * 2
    assert NAMES[0] not in page
    texts = [html.unescape(text) for text in re.split(r"<[^<>]*>", page)]
    for row in report["players"]:
        # In the tables of strength, costs and budgets, and numbered in those of results.
        assert texts.count(row["name"]) >= 3
        assert sum(re.sub(r"^\d\. ", "", x) == row["name"] != x for x in texts) == 2
        assert {show_interval(row), show_number(row["evaluations_in_all"])} <= {*texts}
    for words in (
        *("1 of the 306 games", "cannot be drawn: no drawing", "function startViewer"),
        *(r"\u003c/script>", "3 players, 306 games", "cost of small: 0.500 seconds per move"),
        *(f"H0: {NAMES[0]} leads small by 0 Elo", "Error rates: 0.05 and 0.05", "ten to one"),
        *("evaluations in all", "4 + 3: 250"),
    ):
        assert words in " ".join(texts)
