"""The report of a tournament, compared with numbers counted by hand."""

import itertools
import json
import math
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from dualmctx.matches.game_file import Game, count_results
from dualmctx.matches.openings import Start
from dualmctx.matches.player_spec import PlayerSpec, parse_player
from dualmctx.matches.players import HostMover, Player
from dualmctx.matches.report.answer import by_strength
from dualmctx.matches.report.page import make_page
from dualmctx.matches.report.plots import draw_costs, draw_elo, to_png
from dualmctx.matches.report.report import Played, make_report
from dualmctx.matches.report.warnings import count_games
from dualmctx.policies.budgets import scale_to_cost, scale_to_seconds, split
from dualmctx.policies.costs import FREE, MoveCost
from dualmctx.ratings.elo import elo_per_doubling, rate
from dualmctx.ratings.results import count_pairs
from dualmctx.ratings.sprt import Sprt, judge
from dualmctx.runs.numbers import show_elo, show_interval, show_number

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
RESULTS = count_results(NAMES, GAMES)


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
    names = [row["name"] for row in report["ratings_by_side"]["players"]]
    assert names == [f"{name} ({side})" for side in ("first", "second") for name in NAMES]
    assert make_report(played._replace(by_side=False))["ratings_by_side"] is None
    anchored = make_report(played._replace(anchor="small"))["ratings_by_side"]
    assert anchored["anchor"] == ("small (first)",)
    zero = report["ratings_by_side"]["players"][1]["elo"]
    assert abs(zero) > 1
    for before, row in zip(report["ratings_by_side"]["players"], anchored["players"], strict=True):
        assert row["elo"] == (before["elo"] and pytest.approx(before["elo"] - zero))


def test_games_of_a_player_with_itself_change_no_rating(played: Played) -> None:
    mirror = make_games(("small", "small"), [(1, -1), (1, 0)])
    one = make_report(played)
    other = make_report(played._replace(games=[*GAMES, *mirror]))
    for name in ("ratings", "crosstable", "alpha_rank"):
        assert one[name] == other[name]
    # Of the first side in a player's games with itself; there are four of them.
    assert other["by_side"][1][1] == {"wins": 3, "draws": 1, "losses": 0, "points": 3.5}


def test_warnings_name_their_reasons(report: dict[str, Any], played: Played) -> None:
    drawn = sum(game.result == 0 for game in GAMES)
    assert report["games"] == {"played": 306, "distinct": 306, "cut_short": drawn}
    assert report["warnings"] == [f"{drawn} games were cut short and count as drawn."]
    same = [game._replace(moves=(1,), is_over=True) for game in GAMES if game.players[0] != "lost"]
    same = [game for game in same if game.players[1] != "lost"][:40]
    assert count_games(same, STARTS)["distinct"] == 2
    pair = played._replace(players=ENTRANTS[:2], games=same, by_side=False, test=None)
    # The first 20 pairs were all won.
    few, repeated, unbounded = make_report(pair)["warnings"]
    assert "only 40 games" in few
    assert f"2 of 40 games of {NAMES[0]} and small are distinct" in repeated
    # The first is the anchor.
    assert unbounded.endswith("the interval of small.")


def test_a_pair_of_games_of_a_player_against_itself_counts_once(played: Played) -> None:
    def warned(openings: list[int]) -> bool:
        both = [
            Game(("small", "small"), pair, 0, 1, (opening, 7), 1, True, (0, 1))
            for pair, opening in enumerate(openings)
            for _ in range(2)
        ]
        found = make_report(played._replace(games=[*GAMES, *both]))["warnings"]
        return any("games of small and small are distinct" in line for line in found)

    assert not warned(list(range(50)))
    assert warned([3] * 50)


def test_many_repeated_pairings_are_summarised(played: Played) -> None:
    names = "abcd"
    games = [
        Game(sides, pair, 0, 1, (3, 7), 1, True, (0, 1))
        for one, other in itertools.combinations(names, 2)
        for pair in range(60)
        for sides in ((one, other), (other, one))
    ]
    players = tuple(Player(name, HOST) for name in names)
    report = make_report(
        Played(players, games, STARTS, dict.fromkeys(names, 0.1), anchor="a", by_side=False)
    )
    repeated = [line for line in report["warnings"] if "repeat" in line]
    assert len(repeated) == 4
    assert "2 of 120 games of a and b are distinct" in repeated[0]
    assert repeated[-1] == "The games of 3 more pairings repeat each other in the same way."
    assert report["answer"]["weaker"] == []


def test_a_game_is_repeated_from_the_same_position_by_the_same_moves() -> None:
    starts = {
        (0, 1, 2): Start(1, b"one"),
        (2, 1, 0): Start(1, b"one"),
        (5,): Start(0, b"one"),
        (4, 4, 4): Start(1, b"other"),
    }

    def played(players: str, opening: tuple[int, ...], move: int) -> Game:
        one, other = players
        return Game((one, other), 0, 0, len(opening), (*opening, move), 1, True, (0, 1))

    first = played("ab", (0, 1, 2), 7)
    for game, is_repeated in [
        (played("ab", (2, 1, 0), 7), True),
        # On the other side, but b moves again.
        (played("ba", (5,), 7), True),
        (played("ab", (5,), 7), False),
        (played("ba", (2, 1, 0), 7), False),
        (played("ab", (2, 1, 0), 6), False),
        (played("ab", (4, 4, 4), 7), False),
        (played("cb", (2, 1, 0), 7), False),
    ]:
        assert count_games([first, game], starts)["distinct"] == 2 - is_repeated


def test_times_per_move_that_drifted_give_a_warning(played: Played) -> None:
    times = dict(zip(NAMES, (0.002, 0.0025, 0.0001), strict=True))
    told = make_report(played._replace(seconds=times, timed=NAMES[:2]))["warnings"]
    assert f"a move of small took 25 % longer than one of {NAMES[0]}" in told[1]
    times["small"] = 0.0021
    assert len(make_report(played._replace(seconds=times, timed=NAMES[:2]))["warnings"]) == 1


def test_a_report_without_openspiel_lacks_alpha_rank(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(results: Any) -> None:
        raise ModuleNotFoundError("α-rank needs OpenSpiel")

    monkeypatch.setattr("dualmctx.matches.report.report.alpha_rank", refuse)
    found = make_report(played)
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


def test_a_doubling_is_the_least_squares_line() -> None:
    rng = np.random.default_rng(0)
    names, costs = tuple("abcd"), (100.0, 10.0, 40.0, 20.0)
    pairs = [
        (one, other, *rng.integers(-1, 2, 2).tolist())
        for one, other in itertools.combinations(names, 2)
        for _ in range(30)
    ]
    results = count_pairs(names, pairs)
    elo = {row.name: row.elo for row in rate(results).players}
    chosen = ("d", "a", "c")
    x = [math.log2(costs[names.index(name)]) for name in chosen]
    expected = np.polyfit(x, [elo[name] for name in chosen], 1)[0]
    found = elo_per_doubling(results, chosen, [costs[names.index(name)] for name in chosen])
    assert found.elo == pytest.approx(expected)


def test_elo_per_doubling_may_be_unbounded() -> None:
    results = count_pairs("ab", [("a", "b", 1, 1)] * 20)
    found = elo_per_doubling(results, "ab", [2.0, 1.0])
    assert found[1:] == (None, None, None, None)
    # One opening says nothing of the next one.
    results = count_pairs("ab", [("a", "b", 1, 0)] * 20, [0] * 20)
    found = elo_per_doubling(results, "ab", [2.0, 1.0])
    assert found.elo is not None
    assert (found.low, found.high) == (None, None)


@pytest.mark.parametrize("pairs", [[(1, 1)] * 20 + [(0, 1)], [(1, -1)] * 20])
def test_a_doubling_has_a_wide_interval_where_hardly_anything_varies(pairs: Any) -> None:
    """A player who has lost no game of 42 may yet lose a tenth of them; 20 pairs may be luck."""
    results = count_pairs("ab", [("a", "b", *pair) for pair in pairs])
    found = elo_per_doubling(results, "ab", [2.0, 1.0])
    assert found.low < found.elo - 50
    assert found.high > found.elo + 50
    assert found.low < 400 * math.log10(0.9 / 0.1)


class Page(HTMLParser):
    """Checks that tags close; collects text and sources."""

    def __init__(self) -> None:
        super().__init__()
        self.open, self.text, self.sources = [], [], []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.sources += [value for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_the_page_links_to_no_other_file(report: dict[str, Any]) -> None:
    ranked = by_strength(report["players"])
    pictures = {"elo": to_png(draw_elo(ranked)), "costs": to_png(draw_costs(ranked))}
    assert all(picture.startswith(b"\x89PNG") for picture in pictures.values())
    moves = {"moves": ["</script>"], "opening": 0, "sides": [0, 1], "result": 1, "is_over": True}
    replays = {"games": [moves | {"players": NAMES[:2]}], "total": 306, "undrawn": "no drawing"}
    html = make_page(report, pictures, replays)
    assert "http" not in html.replace("http://www.w3.org/2000/svg", "")
    page = Page()
    page.feed(html)
    assert page.open == []
    assert len(page.sources) == 2
    assert all(source.startswith("data:image/png;base64,iVBOR") for source in page.sources)
    for row in ranked:
        # In the tables of strength, costs and budgets, and numbered in those of results.
        assert page.text.count(row["name"]) >= 3
        numbered = [text for text in page.text if re.fullmatch(r"\d\. (.+)", text)]
        assert sum(text.endswith(f". {row['name']}") for text in numbered) == 2
        assert show_interval(row) in page.text
    text = " ".join(page.text)
    for words in (
        *(
            "1 of the 306 games",
            "cannot be drawn: no drawing",
            "function startViewer",
            r"\u003c/script\u003e",
        ),
        *("3 players, 306 games", "cost of small: 0.500 seconds per move", "H0"),
        *(f"Elo of the mean score of {NAMES[0]} in these games: 0.", "odds of ten to one"),
        "evaluations in all",
    ):
        assert words in text
    for row in ranked:
        assert show_number(row["evaluations_in_all"]) in page.text
    assert "4 + 3: 250" in text


def row_of(name: str, elo: float | None, low: float | None, high: float | None) -> dict[str, Any]:
    return {"name": name, "elo": elo, "low": low, "high": high, "blocks": 3, "seconds": 0.1}


def test_unbounded_ratings_are_shown_and_drawn() -> None:
    rows = [
        row_of("won all", None, 310.4, None),
        row_of("weak", -100.0, -130.0, -70.0),
        row_of("lost all", None, None, -300.0),
        row_of("strong", 100.0, 70.0, None),
    ]
    names = [row["name"] for row in by_strength(rows)]
    assert names == ["won all", "strong", "weak", "lost all"]
    assert [show_elo(row) for row in rows] == ["–", "−100", "–", "+100"]
    shown = ["+310 … +∞", "−130 … −70", "−∞ … −300", "+70 … +∞"]
    assert [show_interval(row) for row in rows] == shown
    [axes] = draw_elo(by_strength(rows)).axes
    least, most = axes.get_xlim()
    assert least < -300 < 310.4 < most
    assert [x.get_text() for x in axes.get_yticklabels()] == names
    lines = [([*map(float, x.get_xdata())], x.get_marker()) for x in axes.lines]
    assert lines == [
        *(([310.4, most], "None"), ([most], ">")),
        *(([70.0, most], "None"), ([most], ">"), ([100.0], "s")),
        *(([-130.0, -70.0], "None"), ([-100.0], "^")),
        *(([least, -300.0], "None"), ([least], "<")),
    ]
    blocks, milliseconds = draw_costs(rows).axes
    for axes, cost in ((blocks, 3.0), (milliseconds, 100.0)):
        lines = [(*map(float, x.get_xdata()), *map(float, x.get_ydata())) for x in axes.lines]
        # Equal costs are placed side by side around the cost.
        left, right = lines[1][0], lines[3][0]
        assert left < cost < right < 1.05 * cost
        assert math.sqrt(left * right) == pytest.approx(cost)
        assert lines == [
            *((left, left, -130.0, -70.0), (left, -100.0)),
            *((right, right, 70.0, axes.get_ylim()[1]), (right, 100.0)),
        ]
        assert axes.lines[1].get_marker() != axes.lines[3].get_marker()
    assert [axes.get_xlabel() for axes in draw_costs(rows, rule="seconds").axes] == [
        "milliseconds per move",
        "blocks of the network per move",
    ]
    for draw in (draw_elo, draw_costs):
        assert to_png(draw([row_of("nothing", None, None, None)])).startswith(b"\x89PNG")


def test_simulations_are_split_in_proportion() -> None:
    assert split(85, (50, 35)) == (50, 35)
    assert split(10, (50, 35)) == (6, 4)
    assert split(2, (50, 35)) == (1, 1)
    assert split(7, (50, 0)) == (7, 0)
    assert split(1, (0, 3)) == (0, 1)
    # Two shares are below 1: theirs is more than they would have.
    assert split(6, (200, 20, 15)) == (4, 1, 1)
    assert json.dumps(split(10, (100, 5))) == "[9, 1]"
    for shape in ((50, 35), (40, 25, 20), (1, 100), (3,), (7, 0, 2), (200, 20, 15), (9, 1, 1, 1)):
        for total in range(sum(map(bool, shape)), 200):
            found = split(total, shape)
            assert sum(found) == total
            assert all((x > 0) == (y > 0) for x, y in zip(found, shape, strict=True))
            shares = [total * y / sum(shape) for y in shape]
            gaps = [x - share for x, share in zip(found, shares, strict=True)]
            # Whole numbers next to a share, save where a tree keeps its one simulation.
            assert all(abs(gap) < 1 or 1 in found for gap in gaps)


@pytest.mark.parametrize("shape", [(50, 35), (40, 25, 20), (85,), (1, 10), (5, 0)])
@pytest.mark.parametrize("depths", [(2, 2, 1), (4, 6, 3), (3, 0, 9)])
@pytest.mark.parametrize("target", [3, 170, 1000])
def test_blocks_agree_within_a_step(
    shape: tuple[int, ...], depths: tuple[int, ...], target: float
) -> None:
    def cost(simulations: tuple[int, ...]) -> float:
        return sum(x * y for x, y in zip(simulations, depths, strict=False))

    found = scale_to_cost(shape, cost, target)
    least = sum(map(bool, shape))
    costs = [cost(split(total, shape)) for total in range(least, 4000)]
    assert abs(cost(found) - target) == min(abs(x - target) for x in costs)


def test_seconds_agree_where_time_is_a_line() -> None:
    asked: list[int] = []

    def measure(simulations: tuple[int, ...]) -> float:
        asked.append(sum(simulations))
        return 0.004 + 0.0001 * sum(simulations)

    rows = scale_to_seconds((50, 35), measure, 0.03)
    assert rows[-1].simulations == split(260, (50, 35))
    assert rows[-1].seconds == pytest.approx(0.03)
    # As given, by proportion, on the line.
    assert asked[:3] == [85, round(85 * 0.03 / 0.0125), 260]
    assert len(asked) == len(set(asked)) <= 4
    assert {row.simulations for row in rows} == {split(total, (50, 35)) for total in asked}


def test_seconds_end_at_the_nearest_that_was_measured() -> None:
    noise = iter((1.0, 0.5, 0.7))
    rows = scale_to_seconds((8,), lambda simulations: next(noise), 0.8)
    assert rows[-1].seconds == 0.7
    # A target out of reach leaves each tree its one simulation.
    rows = scale_to_seconds((8, 8), lambda simulations: 1.0 + sum(simulations), 0.01)
    assert (rows[-1].simulations, rows[-1].seconds) == ((1, 1), 3.0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dual", PlayerSpec("dual", "dual")),
        (
            "name=dual:simulations=50,35:num-rounds=5",
            PlayerSpec("name", "dual", None, None, (50, 35), (("num_rounds", "5"),)),
        ),
        (
            "runs/c4@newest+gumbel:simulations=85",
            PlayerSpec("runs/c4@newest+gumbel:simulations=85", "gumbel", "runs/c4", None, (85,)),
        ),
        ("old=runs/c4@20+own", PlayerSpec("old", "own", "runs/c4", 20)),
        (
            "m=openspiel:simulations=9:uct_c=2",
            PlayerSpec("m", "openspiel", None, None, (9,), (("uct_c", "2"),)),
        ),
        ("x=a+b.safetensors+chain", PlayerSpec("x", "chain", "a+b.safetensors")),
    ],
)
def test_players_are_read(text: str, expected: PlayerSpec) -> None:
    assert parse_player(text) == expected


def test_kin_differ_in_simulations_only() -> None:
    texts = ("dual", "x=dual:simulations=8,4", "y=dual:window=2", "z=gumbel", "a+dual", "a@3+dual")
    one, other, *rest = (parse_player(text).without_budget() for text in texts)
    assert one == other
    assert len({one, *rest}) == 5


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "write [NAME=][CHECKPOINT[@ITERATION]+]SEARCH[:OPTION=VALUE ...]"),
        ("=dual", "write [NAME=]"),
        ("name=", "write [NAME=]"),
        ("+dual", "write [NAME=]"),
        ("runs/c4+", "write [NAME=]"),
        ("runs/c4@2x+dual", "the iteration is 2x; it must be a number or newest"),
        ("runs/c4+random", "random plays without a network; remove runs/c4"),
        ("dual:5", "option '5' must be OPTION=VALUE"),
        ("dual:=5", "option '=5' must be OPTION=VALUE"),
        ("dual:window=", "option 'window=' must be OPTION=VALUE"),
        ("dual:", "option '' must be OPTION=VALUE"),
        ("dual:window=1:window=2", "an option is given twice"),
        (
            "dual:simulations=5,-1",
            "simulations is 5,-1; it must be a number, or one number per tree",
        ),
        ("dual:simulations=0,0", "simulations is 0,0; it must be"),
        ("dual:simulations=5,", "simulations is 5,; it must be"),
    ],
)
def test_bad_players_are_refused(text: str, line: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"player {text!r}: {line}")) as caught:
        parse_player(text)
    assert "\n" not in str(caught.value)
