"""Ratings, compared with other libraries, plain counting, and players of known strength."""

import itertools
import json
import math
import random
import sys
from collections.abc import Callable
from typing import Any

import evalica
import numpy as np
import pytest

from dualmctx.errors import UserError
from dualmctx.ratings.alpha_rank import alpha_rank, payoffs
from dualmctx.ratings.elo import Rating, Ratings, rate, rate_sides
from dualmctx.ratings.intervals import (
    bounded_from_below,
    fit,
    half_widths,
    relative_strengths,
    robust_errors,
    unseen_pairs,
    wilson_interval,
)
from dualmctx.ratings.results import (
    count_pairs,
    count_wins_and_draws,
    count_wins_and_draws_by_side,
    resample,
)

Pair = tuple[str, str, int, int]


def random_pairs(players: str, number: int, seed: int) -> list[Pair]:
    rng = random.Random(seed)
    return [
        (*rng.sample(players, 2), rng.choice((-1, 0, 1)), rng.choice((-1, 0, 1)))
        for _ in range(number)
    ]


def games_in(pairs: list[Pair]) -> list[tuple[str, str, int]]:
    """Returns the player of the first side, that of the second, and the result of the first."""
    found = []
    for one, other, first, second in pairs:
        found += [(one, other, first), (other, one, -second)]
    return found


def test_pairs_are_counted_by_player_and_side() -> None:
    pairs = random_pairs("ABCD", 60, 0)
    results = count_pairs("ABCD", pairs)
    wins, draws = np.zeros((4, 4), int), np.zeros((4, 4), int)
    side_wins, side_draws = np.zeros((8, 8), int), np.zeros((8, 8), int)
    for one, other, result in games_in(pairs):
        i, j = "ABCD".index(one), "ABCD".index(other)
        if result == 0:
            for a, b in ((i, j), (j, i)):
                draws[a, b] += 1
            for a, b in ((i, j + 4), (j + 4, i)):
                side_draws[a, b] += 1
        elif result > 0:
            wins[i, j] += 1
            side_wins[i, j + 4] += 1
        else:
            wins[j, i] += 1
            side_wins[j + 4, i] += 1
    for found, expected in (
        (count_wins_and_draws(results.pairs), (wins, draws)),
        (count_wins_and_draws_by_side(results.pairs), (side_wins, side_draws)),
    ):
        np.testing.assert_array_equal(found, expected)
    some = count_pairs("DB", [x for x in pairs if {x[0], x[1]} == {"B", "D"}])
    np.testing.assert_array_equal(results.select("DB").pairs, some.pairs)
    # The number of equal results of one opening need not fit 16 bits.
    many = count_pairs("AB", [("A", "B", 1, 1)] * 40_000, openings=[0] * 40_000)
    assert count_wins_and_draws(many.pairs)[0].tolist() == [[0, 80_000], [0, 0]]


def test_resampling_keeps_the_pairs_of_an_opening_together() -> None:
    """The results of B and C are functions of the number of the opening."""
    pairs = [("A", other, x, x) for other in "BC" for x in (-1, 0, 1) * 4]
    # C has met A from four additional openings, which are resampled as a separate group.
    pairs += [("A", "C", 1, 0)] * 4
    results = count_pairs("ABC", pairs, [*range(12), *range(12), 12, 13, 14, 15])
    assert results.by_opening.shape == (16, 3, 3, 3, 3)
    drawn = resample(np.random.default_rng(0), results, 500)
    assert (drawn.sum((3, 4))[:, 0] == [0, 12, 16]).all()
    assert (drawn[:, 0, 2, 2, 1] == 4).all()
    together = drawn[:, 0, 2].copy()
    together[:, 2, 1] -= 4
    np.testing.assert_array_equal(drawn[:, 0, 1], together)
    won = drawn[:, 0, 1, 2, 2]
    assert won.mean() == pytest.approx(4, abs=0.2)
    assert won.var() == pytest.approx(12 / 3 * 2 / 3, rel=0.2)


def test_strengths_match_evalica() -> None:
    players = "ABCDEF"
    pairs = random_pairs(players, 50, 2)
    outcome = {1: evalica.Winner.X, 0: evalica.Winner.Draw, -1: evalica.Winner.Y}
    first, second, results = zip(*games_in(pairs), strict=True)
    winners = [outcome[x] for x in results]
    # The prior is a game of two further players, half drawn, and a quarter won by each.
    first, second, winners = [*first, *"xxx"], [*second, *"yyy"], [*winners, *outcome.values()]
    weights = [1.0] * len(results) + [0.25, 0.5, 0.25]
    theirs = evalica.newman(first, second, winners, weights=weights, tolerance=1e-14, limit=100_000)
    strengths, draw_rate = fit(*count_wins_and_draws(count_pairs(players, pairs).pairs))
    expected = np.log(theirs.scores.loc[list(players)].to_numpy())
    np.testing.assert_allclose(strengths, expected - expected.mean(), atol=1e-8)
    assert draw_rate == pytest.approx(theirs.v / (1 + theirs.v), abs=1e-6)


def test_bounds_follow_chains_of_scored_games() -> None:
    rng = np.random.default_rng(0)
    wins = (rng.random((200, 5, 5)) < 0.15) & ~np.eye(5, dtype=bool)
    found = bounded_from_below(wins.astype(int), np.zeros_like(wins, int))
    for table, bounds in zip(wins, found, strict=True):
        for i in range(5):
            seen, front = {i}, [i]
            while front:
                front = [j for k in front for j in np.flatnonzero(table[k]) if j not in seen]
                seen.update(front)
            assert set(np.flatnonzero(bounds[i])) == seen
    one = np.array([[True, True, False], [False, True, False], [False, False, True]])
    anchor = np.array([False, True, False])
    strengths = relative_strengths(np.array([1.0, 2.0, 3.0]), one, anchor)
    np.testing.assert_array_equal(strengths, [np.inf, 0, np.nan])
    np.testing.assert_array_equal(
        relative_strengths(np.zeros(3), one, np.array([True, False, False])), [0, -np.inf, np.nan]
    )


def by_name(ratings: Ratings) -> dict[str, Rating]:
    return {row.name: row for row in ratings.players}


def test_400_elo_are_odds_of_ten_to_one() -> None:
    pairs = [("A", "B", 1, 1)] * 500 + [("A", "B", -1, -1)] * 50 + [("A", "B", 0, 0)] * 50
    ratings = rate(count_pairs("AB", pairs), anchor="B")
    one = by_name(ratings)["A"]
    assert one.elo == pytest.approx(400, abs=1)
    assert one.low < 400 < one.high
    assert one[4:] == (1000, 100, 100)
    assert by_name(ratings)["B"] == Rating("B", 0.0, 0.0, 0.0, 100, 100, 1000)
    assert ratings.anchor == ("B",)
    mean = rate(count_pairs("AB", pairs))
    assert [row.elo for row in mean.players] == pytest.approx([200, -200], abs=0.5)
    json.dumps(ratings._asdict(), allow_nan=False)


def test_player_without_losses_has_only_a_lower_bound() -> None:
    lows = []
    for number in (20, 200):
        pairs = [("B", "C", 1, -1), ("B", "C", -1, 1)] * 20 + [("A", "B", 1, 1)] * number
        rows = by_name(rate(count_pairs("ABC", pairs)))
        assert (rows["A"].elo, rows["A"].high) == (None, None)
        lows.append(rows["A"].low)
        # The other players are comparable only with each other.
        assert rows["B"].elo == pytest.approx(-rows["C"].elo, abs=1e-6)
        assert rows["B"].low < 0 < rows["B"].high
    # At a larger difference, this many wins in a row would be improbable.
    shares = [0.025 ** (1 / number) for number in (20, 200)]
    odds = [share / (1 - share) for share in shares]
    assert lows == pytest.approx([400 * math.log10(x) for x in odds], rel=0.03)
    reverse = by_name(rate(count_pairs("AB", [("A", "B", -1, -1)] * 20), anchor="B"))
    assert (reverse["A"].elo, reverse["A"].low) == (None, None)
    assert reverse["A"].high == pytest.approx(-400 * math.log10(odds[0]), rel=0.03)


def test_unconnected_players_are_not_compared() -> None:
    pairs = [("A", "B", 1, -1), ("B", "A", 0, 1)] * 5 + [("C", "D", 0, 1)] * 5
    rows = by_name(rate(count_pairs("ABCDE", pairs)))
    assert rows["A"].elo == -rows["B"].elo
    for name in "CDE":
        assert rows[name][1:4] == (None, None, None)
    assert by_name(rate(count_pairs("AB", [])))["B"][1:4] == (None, None, None)


def test_equal_results_give_an_interval_of_positive_width() -> None:
    widths = []
    for result, number in (((0, 0), 500), ((1, -1), 20), ((1, -1), 500)):
        rows = by_name(rate(count_pairs("AB", [("A", "B", *result)] * number)))
        assert rows["A"].elo == pytest.approx(0, abs=1e-6)
        assert rows["A"].high == pytest.approx(-rows["A"].low)
        widths.append(rows["A"].high)
    assert min(widths) > 1
    assert widths[2] < widths[1] / 5
    tied = [("A", "B", 1, -1)] * 21 + [("A", "B", -1, 1)] * 20 + [("A", "B", 0, 0)] * 9
    row = by_name(rate(count_pairs("AB", tied)))["A"]
    assert row.low < -10 < 10 < row.high
    # Draws bound a player without losses.
    row = by_name(rate(count_pairs("AB", [("A", "B", 1, 0), ("A", "B", 0, 0)] * 20)))["A"]
    assert 0 < row.low < row.elo < row.high < 1000


def test_nearly_unbounded_player_does_not_widen_other_intervals() -> None:
    """C has drawn one of its 400 games, so its bound depends on a single opening."""
    even = [("A", "B", 1, -1), ("A", "B", -1, 1), ("A", "B", 1, 0)] * 60
    lost = [("A", "C", 1, 1)] * 99 + [("A", "C", 0, 1)] + [("B", "C", 1, 1)] * 100
    ratings = rate(count_pairs("ABC", even + lost))
    rows = by_name(ratings)
    assert ratings.anchor == ("A", "B")
    for name in "AB":
        assert rows[name].low < rows[name].elo < rows[name].high
    assert rows["C"].elo < -500
    assert rows["C"].high - rows["C"].low > 5 * (rows["A"].high - rows["A"].low)
    # Two players bounded by a single opening are compared nevertheless.
    two = rate(count_pairs("AC", lost[:100]))
    assert two.anchor == ("A", "C")
    assert by_name(two)["A"].elo == pytest.approx(-by_name(two)["C"].elo)


def test_sides_are_comparable_once_three_players_have_met() -> None:
    pairs = random_pairs("ABC", 90, 4)
    rows = rate_sides(count_pairs("ABC", pairs)).players
    names = [f"{name} ({side})" for side in ("first", "second") for name in "ABC"]
    assert [row.name for row in rows] == names
    assert all(row.low < row.elo < row.high for row in rows)
    assert sum(row.elo for row in rows) == pytest.approx(0, abs=1e-6)
    two = [x for x in pairs if "C" not in x]
    rows = by_name(rate_sides(count_pairs("AB", two), anchor="A (first)"))
    assert rows["A (first)"].elo == 0
    assert rows["B (second)"].elo is not None
    assert rows["A (second)"][1:4] == rows["B (first)"][1:4] == (None, None, None)
    itself = [*two, *[("A", "A", 1, 0), ("B", "B", -1, 1)] * 5]
    rows = rate_sides(count_pairs("AB", itself)).players
    assert all(row.elo is not None for row in rows)


def test_games_of_one_opening_are_one_observation() -> None:
    """Three opponents with equal results contain no more information about A than one."""
    outcomes = [(1, 1), (1, -1), (0, 1), (-1, -1), (1, 0), (-1, 1), (1, 1), (0, -1)] * 5
    pairs = [("A", other, *result) for other in "BCD" for result in outcomes]
    openings = [*range(len(outcomes))] * 3
    one = rate(count_pairs("AB", pairs[: len(outcomes)]), anchor="B")
    shared = rate(count_pairs("ABCD", pairs, openings), anchor="B")
    # B, C and D have equal results in all openings; only the unseen pairs separate them.
    assert shared.players[2].elo == pytest.approx(0, abs=1e-6)
    apart, together = (rate(count_pairs("ABCD", pairs, x)) for x in (None, openings))
    widths = [x.players[0].high - x.players[0].low for x in (one, shared, apart, together)]
    assert widths[1] == pytest.approx(widths[0], rel=0.02)
    assert widths[3] == pytest.approx(widths[2] * math.sqrt(3), rel=0.05)


def test_robust_errors_match_bootstrap_over_openings() -> None:
    """Many openings with unequal numbers of games; some openings have only two players."""
    rng = np.random.default_rng(5)
    pairs, openings = [], []
    for opening in range(400):
        luck = rng.choice((-1, 0, 1), p=(0.3, 0.2, 0.5))
        for one, other in ("AB", "AC", "BC")[: 1 + 2 * (opening % 2)]:
            pairs.append((one, other, int(luck), int(rng.choice((-1, 0, 1)))))
            openings.append(opening)
    results = count_pairs("ABC", pairs, openings)
    by_opening = count_wins_and_draws(results.by_opening)
    strengths, draw_rate = fit(*(x.sum(0) for x in by_opening))
    contrasts = np.array([[1.0, -1, 0], [0.5, 0.5, -1], [0, 0, 0]])
    errors, number = robust_errors(strengths, float(draw_rate), *by_opening, contrasts)
    resampled = (
        fit(*count_wins_and_draws(resample(np.random.default_rng(0), results, 2000)))[0]
        @ contrasts.T
    )
    np.testing.assert_allclose(errors[:2], resampled.std(0)[:2], rtol=0.06)
    # All openings have games of A and B, half of them games of C.
    assert 200 < number[0] < 400
    assert 200 <= number[1] < 250
    assert (errors[2], number[2]) == (0, 0)


def test_half_widths_match_student_t() -> None:
    """2.3646 is the quantile for 7 degrees of freedom; one opening gives an unbounded interval."""
    found = half_widths(np.array([2.0, np.nan, 0.0]), np.array([8.0, 1.0, 0.0]), 0.95)
    assert found.tolist() == [pytest.approx(4.7292, abs=1e-3), math.inf, 0.0]


def test_unseen_pairs_match_the_tail_probability() -> None:
    """n won pairs with probability n / (n + unseen) each are as likely as one tail."""
    number = np.array([1, 4, 8, 100])
    found = unseen_pairs(number, 0.95)
    np.testing.assert_allclose((number / (number + found)) ** number, 0.025)
    assert found[-1] == pytest.approx(math.log(40), rel=0.03)
    assert unseen_pairs(np.array([0]), 0.95).tolist() == [0]


def test_alpha_rank_of_known_games() -> None:
    better = [("A", "B", 1, 0), ("B", "C", 1, 0), ("A", "C", 1, 1)] * 10
    ranked = alpha_rank(count_pairs("ABC", better), num_resamples=10)
    assert ranked.mass == pytest.approx((1, 0, 0))
    assert ranked.leads == (1, 0, 0)
    circle = [("A", "B", 1, 1), ("B", "C", 1, 1), ("C", "A", 1, 1)] * 10
    assert alpha_rank(count_pairs("ABC", circle), num_resamples=10).mass == pytest.approx(
        [1 / 3] * 3
    )
    json.dumps(ranked._asdict())


def test_alpha_rank_matches_plain_python_markov_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference uses the fixation probabilities of theorem 2.1.3 and powers of the matrix."""
    results = count_pairs("ABCD", random_pairs("ABCD", 60, 5))
    m, alpha = 10, 0.5
    for name, value in (("POPULATION", m), ("ALPHA", alpha)):
        monkeypatch.setattr(f"dualmctx.ratings.alpha_rank.{name}", value)
    table = payoffs(results.pairs)
    chain = np.zeros((4, 4))
    for old, new in itertools.permutations(range(4), 2):
        # Local selection: payoff of the mutant against the residents, minus the reverse.
        gain = alpha * (table[new, old] - table[old, new])
        fixed = 1 / m if gain == 0 else (1 - math.exp(-gain)) / (1 - math.exp(-m * gain))
        chain[old, new] = fixed / 3
    chain += np.diag(1 - chain.sum(1))
    expected = np.linalg.matrix_power(chain, 4096)[0]
    ranked = alpha_rank(results, num_resamples=5)
    assert ranked.mass == pytest.approx(expected, abs=1e-9)


def test_alpha_rank_of_noise_leads_only_some_resamples() -> None:
    """A lead of one pair in 41 decides the mass, but not all resamples."""
    rng = random.Random(0)
    noise = [("A", "B", rng.choice((-1, 1)), rng.choice((-1, 1))) for _ in range(40)]
    noise += [("A", "B", 1, 1)] * (1 + sum(-sum(x[2:]) for x in noise) // 2)
    ranked = alpha_rank(count_pairs("AB", noise), num_resamples=100)
    assert ranked.mass[0] > 0.9
    assert 0.2 < ranked.leads[0] < 0.9
    assert ranked.mean_mass[0] == pytest.approx(ranked.leads[0], abs=0.2)


MET = count_pairs("AB", [("A", "B", 1, 1)])
REFUSED: dict[str, Callable[[], Any]] = {
    "two players have the name 'A'": lambda: count_pairs("ABA", []),
    "there is no player 'C'; the players are A, B": lambda: count_pairs("AB", [("A", "C", 0, 0)]),
    "the result of a game is 2": lambda: count_pairs("AB", [("A", "B", 0, 2)]),
    "anchor is 'X'; it must be one of A, B": lambda: rate(MET, anchor="X"),
    "A and B have not met; α-rank": lambda: alpha_rank(count_pairs("AB", [])),
    "threshold is 0.4; it must be at least 0.5": lambda: alpha_rank(MET, threshold=0.4),
}


@pytest.mark.parametrize("line", REFUSED)
def test_invalid_arguments_raise(line: str) -> None:
    with pytest.raises(UserError, match=f"^{line}"):
        REFUSED[line]()


def test_alpha_rank_without_openspiel_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "open_spiel.python.egt", None)
    with pytest.raises(ModuleNotFoundError, match=r"^α-rank needs OpenSpiel: pip install [^\n]+$"):
        alpha_rank(count_pairs("AB", [("A", "B", 1, 1)]))


def test_wilson_interval_inverts_the_score_test() -> None:
    """Shares at both ends are 1.96 standard deviations from the observed share."""
    for share, number in ((0.5, 100), (0.03, 40)):
        for end in wilson_interval(share, number):
            deviations = abs(share - end) / np.sqrt(end * (1 - end) / number)
            assert deviations == pytest.approx(1.96, abs=1e-4)
    assert wilson_interval(1.0, 10) == pytest.approx((0.7225, 1.0), abs=1e-4)
