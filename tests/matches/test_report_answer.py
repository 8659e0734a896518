"""The sentences that open a report claim only as much as the games show."""

import itertools
from typing import Any

import pytest

from dualmctx.matches.report.answer import by_strength, make_answer
from dualmctx.ratings.elo import rate
from dualmctx.ratings.results import Results, count_pairs

WON, SPLIT, DRAWN = (1, 1), (1, -1), (0, 0)


def answer_of(results: Results, **options: bool) -> dict[str, Any]:
    rows = [row._asdict() for row in rate(results).players]
    return make_answer(results, rows, **{"repeats": False, "is_stopped": False, **options})


def two(*counts: tuple[tuple[int, int], int]) -> Results:
    return count_pairs("AB", [("A", "B", *pair) for pair, number in counts for _ in range(number)])


def test_a_clear_difference_is_a_claim() -> None:
    found = answer_of(two((WON, 30), (SPLIT, 20)))
    assert (found["leader"], found["weaker"], found["undecided"]) == ("A", ["B"], [])
    claim, difference = found["sentences"]
    assert claim == "A is stronger than B."
    [row] = found["differences"]
    assert row["low"] > 0
    assert difference == (
        f"A leads B by {row['elo']:.0f} Elo (95% interval +{row['low']:.0f} … +{row['high']:.0f}; "
        "likelihood of superiority >0.999)."
    )
    assert found["level"] == pytest.approx(0.95)


def test_an_unclear_difference_is_no_claim() -> None:
    for results, number in (
        (two((WON, 4), ((-1, -1), 3), (DRAWN, 20)), "54"),
        (two((WON, 1)), "2"),
        (two((DRAWN, 500)), "1,000"),
    ):
        found = answer_of(results)
        assert (found["weaker"], found["undecided"]) == ([], ["B"])
        claim = f"The {number} games do not show whether A or B is stronger."
        assert found["sentences"][0] == claim
    assert "A and B have equal Elo (95% interval −" in found["sentences"][1]
    assert found["sentences"][1].endswith("likelihood of superiority 0.500).")


def test_a_player_that_won_all_games_leads_without_an_upper_bound() -> None:
    found = answer_of(two((WON, 40)))
    assert found["sentences"][0] == "A is stronger than B."
    assert found["sentences"][1].startswith(
        "The lead of A over B has no upper bound (95% interval +"
    )
    assert " … +∞; likelihood of superiority >0.999)." in found["sentences"][1]


def test_repeated_games_and_early_stops_are_said() -> None:
    results = two((WON, 30), (SPLIT, 20))
    found = answer_of(results, repeats=True)
    assert (found["weaker"], found["undecided"]) == ([], ["B"])
    assert found["sentences"][0] == "The 100 games do not show whether A or B is stronger."
    assert found["sentences"][-1].startswith("Many games repeat others")
    assert answer_of(results, is_stopped=True)["sentences"][-1].startswith(
        "A sequential test ended"
    )


def test_the_leader_of_many_is_compared_with_all_others() -> None:
    pairs = [
        (one, other, *(WON if k % 2 and one in "ABC" and other in "DE" else SPLIT))
        for one, other in itertools.combinations("ABCDE", 2)
        for k in range(40)
    ]
    pairs += [("A", "B", 1, 0), ("A", "C", 1, 0)]
    found = answer_of(count_pairs("ABCDE", pairs))
    assert found["leader"] == "A"
    assert sorted(found["weaker"]) == ["D", "E"]
    assert sorted(found["undecided"]) == ["B", "C"]
    claim = found["sentences"][0]
    assert "games do not show which of A, " in claim
    assert claim.endswith(" is the strongest.")
    assert found["sentences"][2] == f"A is stronger than {' and '.join(found['weaker'])}."
    assert found["sentences"][1].startswith(
        f"A leads {found['undecided'][0]}, the next player, by "
    )
    # Ten pairings share an error rate of 5 %.
    assert found["level"] == pytest.approx(0.995)
    assert [row["opponent"] for row in found["differences"]] == [
        *found["undecided"],
        *found["weaker"],
    ]


def test_one_lucky_player_of_many_equal_ones_is_not_called_stronger() -> None:
    """The leader's 95 % interval of one difference may exclude 0 by chance."""
    results: list[tuple[str, str, int, int]] = []
    for one, other in itertools.combinations("ABCDEF", 2):
        pair = WON if one == "A" and other == "B" else SPLIT
        results += [(one, other, *SPLIT)] * 21 + [(one, other, *pair)] * 6
    found = answer_of(count_pairs("ABCDEF", results))
    row = next(row for row in found["differences"] if row["opponent"] == "B")
    assert (found["leader"], found["weaker"]) == ("A", [])
    assert row["low"] > 0
    assert row["superiority"] > 0.975


def test_rows_without_bounds_are_sorted() -> None:
    def row(name: str, elo: float | None, low: float | None) -> dict[str, Any]:
        return {"name": name, "elo": elo, "low": low}

    rows = [row("lost", None, None), row("weak", -9.0, None), row("won", None, 3.0)]
    assert [row["name"] for row in by_strength(rows)] == ["won", "weak", "lost"]
