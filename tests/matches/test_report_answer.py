"""The sentences that open a report claim only as much as the games show."""

import itertools
import re
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


CLEAR = two((WON, 30), (SPLIT, 20))
UNKNOWN = "games do not show whether A or B is stronger."
OPEN = r"The lead of A over B has no upper bound \(95% interval \+\d+ … \+∞; .* >0\.999\)\."
EQUAL = r"A and B have equal Elo \(95% interval −\d+ … \+\d+; .* of superiority 0\.500\)\."


@pytest.mark.parametrize(
    ("results", "options", "sentences"),
    [
        (CLEAR, {}, ["A is stronger than B.", r"A leads B by \d+ Elo \(95% interval .*"]),
        (two((WON, 4), ((-1, -1), 3), (DRAWN, 20)), {}, [f"The 54 {UNKNOWN}", "A leads B by .*"]),
        (two((DRAWN, 500)), {}, [f"The 1,000 {UNKNOWN}", EQUAL]),
        (CLEAR, {"repeats": True}, [f"The 100 {UNKNOWN}", "A leads .*", "Many games repeat .*"]),
        (two((WON, 40)), {"is_stopped": True}, ["A is .*", OPEN, "A sequential test ended .*"]),
    ],
)
def test_sentences_claim_as_much_as_two_players_show(
    results: Results, options: dict[str, bool], sentences: list[str]
) -> None:
    found = answer_of(results, **options)
    for sentence, expected in zip(found["sentences"], sentences, strict=True):
        assert re.fullmatch(expected, sentence), sentence
    is_claim = "A is" in sentences[0]
    assert (found["weaker"], found["undecided"]) == (["B"] * is_claim, ["B"] * (not is_claim))
    assert (found["leader"], found["level"]) == ("A", pytest.approx(0.95))


def test_the_leader_of_many_is_compared_with_all_others() -> None:
    pairs = [
        (one, other, *(WON if k % 2 and one in "ABC" and other in "DE" else SPLIT))
        for one, other in itertools.combinations("ABCDE", 2)
        for k in range(40)
    ]
    pairs += [("A", "B", 1, 0), ("A", "C", 1, 0)]
    found = answer_of(count_pairs("ABCDE", pairs))
    assert found["leader"] == "A"
    weaker, undecided = found["weaker"], found["undecided"]
    assert (sorted(weaker), sorted(undecided)) == (["D", "E"], ["B", "C"])
    claim, difference, rest = found["sentences"]
    assert re.fullmatch("The .* games do not show which of A, . and . is the strongest.", claim)
    assert difference.startswith(f"A leads {undecided[0]}, the next player, by ")
    assert rest == f"A is stronger than {' and '.join(weaker)}."
    # Ten pairings share an error rate of 5 %.
    assert found["level"] == pytest.approx(0.995)
    assert [row["opponent"] for row in found["differences"]] == [*undecided, *weaker]


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
    ends = {
        **{
            "alone": (None, None, None),
            "lost": (None, None, -5.0),
            "lost less": (None, None, -3.0),
        },
        **{"weak": (-9.0, None, 2.0), "won": (None, 3.0, None), "won more": (None, 5.0, None)},
    }
    rows = [
        {"name": x, "elo": elo, "low": low, "high": high} for x, (elo, low, high) in ends.items()
    ]
    assert [row["name"] for row in by_strength(rows)] == list(ends)[::-1]


@pytest.mark.parametrize("result", [1, -1])
def test_players_of_unbounded_elo_are_sorted_by_their_games(result: int) -> None:
    """A and B win, or lose, all games against C, D and E; B wins most games against A."""
    others = [(x, y, *SPLIT) for x, y in itertools.combinations("CDE", 2)] * 10
    extreme = [(x, y, result, result) for x in "AB" for y in "CDE"] * 10
    between = [("A", "B", -1, -1)] * 8 + [("A", "B", *WON)] * 2
    found = answer_of(count_pairs("ABCDE", [*others, *extreme, *between]))
    names = [found["leader"], *(row["opponent"] for row in found["differences"])]
    assert "".join(x for x in names if x in "AB") == "BA"
    assert (found["leader"] == "B") == (result == 1)
