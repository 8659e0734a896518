"""How often Elo intervals hold the true value: `python -m benchmarks.coverage`.

(a) Two players, for several numbers of pairs, differences in Elo, shares of draws between equals,
    and three kinds of luck in a pair: none in common; the same luck in both games; openings that
    favour a side, with a standard deviation of 300 Elo. The intervals of `ratings.elo` are compared
    with percentiles of resampled pairs.
(b) Six players who all meet from the same openings. Each player is better or worse in an opening,
    with a standard deviation of 100 Elo, against all opponents. Intervals that treat an opening as
    one observation are compared with intervals that treat every pair as one.

Results follow Davidson's model. If openings differ, the true Elo is that of a fit to infinitely
many openings.
"""

import collections
import functools
import itertools
import math
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.common import make_parser, write_json
from dualmctx.ratings.davidson import fit
from dualmctx.ratings.elo import ELO, rate
from dualmctx.ratings.results import LOSS, WIN, Results

GAPS, DRAW_RATES = (0.0, 100.0, 200.0, 400.0), (0.0, 0.3, 0.7)
LUCK = ("independent", "shared", "side")
SIDE, STYLE = 300.0, 100.0
STRENGTHS = (0.0, 50.0, 100.0, 200.0, 300.0, 400.0)
LEVEL, NUM_RESAMPLES, MANY_OPENINGS = 0.95, 400, 20_000
Ends = tuple[float, float]


class Setting(NamedTuple):
    """Two players: pairs of games, the first player's lead in Elo, share of draws, kind of luck."""

    pairs: int
    gap: float
    draw_rate: float
    luck: str


def play(
    rng: np.random.Generator, lead: np.ndarray, draw_rate: float, luck: np.ndarray | None = None
) -> np.ndarray:
    """Simulates a game for each lead in Elo; returns 0, 1 or 2 for lost, drawn and won."""
    win, draw = chances(lead, draw_rate)
    luck = rng.random(lead.shape) if luck is None else luck
    return np.where(luck < win, 2, np.where(luck < win + draw, 1, 0))


def chances(lead: np.ndarray, draw_rate: float) -> tuple[np.ndarray, np.ndarray]:
    """Returns the probabilities of a win and of a draw, by Davidson's model."""
    strong, weak, ratio = np.exp(lead / ELO / 2), np.exp(-lead / ELO / 2), _draw_ratio(draw_rate)
    total = strong + weak + ratio
    return strong / total, ratio / total


def _draw_ratio(draw_rate: float) -> float:
    return 2 * draw_rate / (1 - draw_rate)


def play_pairs(rng: np.random.Generator, setting: Setting, runs: int) -> np.ndarray:
    """Returns `[runs, 9]` counts of pairs; index 3 a + b is result a first and b second."""
    shape = (runs, setting.pairs)
    luck = rng.random(shape)
    side = rng.normal(0, SIDE, shape) if setting.luck == "side" else np.zeros(shape)
    first = play(rng, setting.gap + side, setting.draw_rate, luck)
    again = luck if setting.luck == "shared" else None
    second = play(rng, setting.gap - side, setting.draw_rate, again)
    return np.sum((3 * first + second)[..., None] == np.arange(9), axis=1)


@functools.cache
def true_gap(setting: Setting) -> float:
    """Returns the difference in Elo of a fit to infinitely many pairs."""
    if setting.luck != "side":
        return setting.gap
    rng = np.random.default_rng(0)
    side = rng.normal(0, SIDE, MANY_OPENINGS)
    # Each sample with both signs, so that the sides have no mean lead.
    win, draw = (x.mean() for x in chances(setting.gap + np.append(side, -side), setting.draw_rate))
    wins = 1e9 * np.array([[0, win], [1 - win - draw, 0]])
    strengths = fit(wins, 1e9 * draw * (1 - np.eye(2)))[0]
    return float(ELO * (strengths[0] - strengths[1]))


@functools.cache
def interval(counts: tuple[int, ...]) -> Ends:
    """Returns the interval of `ratings.elo` for the first of two players, from counts of pairs."""
    kinds = np.repeat(np.arange(9), counts)
    by_opening = np.zeros((len(kinds), 2, 2, 3, 3), np.int16)
    by_opening[np.arange(len(kinds)), 0, 1, kinds // 3, kinds % 3] = 1
    row = rate(Results(("A", "B"), by_opening), anchor="B", level=LEVEL).players[0]
    return _ends(row.low, row.high)


def _ends(low: float | None, high: float | None) -> Ends:
    return -math.inf if low is None else low, math.inf if high is None else high


def percentiles(rng: np.random.Generator, counts: np.ndarray) -> list[Ends]:
    """Returns intervals by percentiles of resampled pairs.

    If the percentiles are equal, the interval is that of `interval`.

    Args:
      rng: random number generator.
      counts: `[runs, 9]` counts, as in `play_pairs`.
    """
    shares = counts / counts.sum(1, keepdims=True)
    resampled = rng.multinomial(counts[0].sum(), shares, size=(NUM_RESAMPLES, len(counts)))
    # Resamples with the same numbers of games won and lost have the same Elo.
    kinds = np.arange(9)
    won = (kinds // 3 == WIN).astype(int) + (kinds % 3 == WIN)
    lost = (kinds // 3 == LOSS).astype(int) + (kinds % 3 == LOSS)
    tables, place = np.unique(
        np.stack([resampled @ won, resampled @ lost], -1).reshape(-1, 2),
        axis=0,
        return_inverse=True,
    )
    games = 2 * counts[0].sum()
    wins, draws = (np.zeros((len(tables), 2, 2)) for _ in range(2))
    wins[:, 0, 1], wins[:, 1, 0] = tables.T
    draws[:, 0, 1] = draws[:, 1, 0] = games - tables.sum(1)
    elo = ELO * np.diff(fit(wins, draws)[0][:, ::-1])[:, 0]
    elo = np.where(tables[:, 0] == games, np.inf, np.where(tables[:, 1] == games, -np.inf, elo))
    found = np.sort(elo[place.reshape(resampled.shape[:2])], axis=0)
    tail = math.floor((1 - LEVEL) / 2 * (NUM_RESAMPLES - 1))
    return [
        interval(tuple(row.tolist())) if low == high else (float(low), float(high))
        for row, low, high in zip(counts, found[tail], found[-1 - tail], strict=True)
    ]


def measure_pairs(setting: Setting, runs: int, seed: int = 0) -> dict[str, Any]:
    """Measures how often both kinds of intervals hold, and their median widths."""
    rng = np.random.default_rng([seed, setting.pairs])
    counts, truth = play_pairs(rng, setting, runs), true_gap(setting)
    ours = [interval(tuple(row.tolist())) for row in counts]
    found = {"interval": ours, "percentiles": percentiles(rng, counts)}
    return setting._asdict() | {name: share_held(x, truth) for name, x in found.items()}


def share_held(ends: list[Ends], truth: float) -> dict[str, float]:
    """Returns the share of intervals that hold the true value, and their median width."""
    low, high = np.transpose(ends)
    held = (low <= truth + 1e-6) & (truth - 1e-6 <= high)
    return {"held": float(held.mean()), "width": float(np.median(high - low))}


def play_shared(rng: np.random.Generator, openings: int, draw_rate: float) -> Results:
    """Simulates a pair of games of every two players from each of the same openings."""
    players = len(STRENGTHS)
    strength = np.array(STRENGTHS) + rng.normal(0, STYLE, (openings, players))
    side = rng.normal(0, SIDE, openings)
    counts = np.zeros((openings, players, players, 3, 3), np.int16)
    for i, j in itertools.combinations(range(players), 2):
        lead = strength[:, i] - strength[:, j]
        both = (play(rng, lead + sign * side, draw_rate) for sign in (1, -1))
        counts[(np.arange(openings), i, j, *both)] = 1
    return Results(tuple("ABCDEF"), counts)


def separate(results: Results) -> Results:
    """Returns the same results with an opening of its own for every pair of games."""
    counts = results.by_opening
    places = np.argwhere(counts)
    apart = np.zeros((len(places), *counts.shape[1:]), np.int16)
    apart[(np.arange(len(places)), *places[:, 1:].T)] = 1
    return Results(results.players, apart)


@functools.cache
def true_strengths(draw_rate: float) -> tuple[float, ...]:
    """Returns the Elo of a fit to infinitely many openings, with mean 0."""
    rng = np.random.default_rng(0)
    strength = np.array(STRENGTHS) + rng.normal(0, STYLE, (MANY_OPENINGS, len(STRENGTHS)))
    side = rng.normal(0, SIDE, (MANY_OPENINGS, 1, 1))
    lead = strength[:, :, None] - strength[:, None, :]
    sides = (chances(lead + sign * side, draw_rate) for sign in (1, -1))
    win, draw = (np.mean([x.mean(0) for x in found], axis=0) for found in zip(*sides, strict=True))
    apart = 1e9 * (1 - np.eye(len(STRENGTHS)))
    return tuple((ELO * fit(win * apart, draw * apart)[0]).tolist())


def measure_shared(openings: int, draw_rate: float, runs: int, seed: int = 0) -> dict[str, Any]:
    """Measures intervals of ratings (mean of all is 0) and of differences to the first player."""
    rng = np.random.default_rng([seed, openings])
    truth = np.array(true_strengths(draw_rate))
    held: dict[tuple[str, str], list[tuple[bool, float]]] = collections.defaultdict(list)
    for _ in range(runs):
        shared = play_shared(rng, openings, draw_rate)
        for (kind, results), anchor in itertools.product(
            (("openings", shared), ("pairs", separate(shared))), (None, "A")
        ):
            ratings = rate(results, anchor=anchor, level=LEVEL)
            base = np.mean([truth["ABCDEF".index(x)] for x in ratings.anchor])
            for row, elo in zip(ratings.players, truth - base, strict=True):
                low, high = _ends(row.low, row.high)
                if row.name != anchor:
                    name = "ratings" if anchor is None else "differences"
                    held[kind, name].append((low <= elo <= high, high - low))
    found: dict[str, Any] = {"openings_shared": openings, "draw_rate": draw_rate}
    for (kind, name), values in held.items():
        hits, widths = zip(*values, strict=True)
        found[f"{kind}, {name}"] = {"held": np.mean(hits), "width": float(np.median(widths))}
    return found


def main(argv: list[str] | None = None) -> None:
    """Runs the benchmark and prints both tables."""
    parser = make_parser(__doc__)
    parser.add_argument("--pairs", type=int, nargs="+", default=[4, 8, 12, 20, 50, 100])
    parser.add_argument("--openings", type=int, nargs="+", default=[4, 8, 20, 50])
    parser.add_argument("--runs", type=int, default=200, help="runs of each setting")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    if args.quick:
        args.pairs, args.openings, args.runs = args.pairs[:1], args.openings[:1], 10
    two = [
        measure_pairs(Setting(*x), args.runs, args.seed)
        for x in itertools.product(args.pairs, GAPS, DRAW_RATES, LUCK)
    ]
    many = [
        measure_shared(*x, args.runs, args.seed)
        for x in itertools.product(args.openings, (0.0, 0.5))
    ]
    console = Console(width=110)
    console.print(_pairs_table(two, args.runs), _shared_table(many, args.runs))
    write_json(args.json, {"pairs": two, "shared": many})


def _pairs_table(rows: list[dict[str, Any]], runs: int) -> Table:
    settings = len(DRAW_RATES) * len(LUCK)
    table = Table(title=f"Two players: {settings} settings per line, {runs} runs each")
    for head in ("pairs", "Elo", "percentiles: mean", "lowest", "interval: mean", "lowest"):
        table.add_column(head, justify="right")
    table.add_column("median widths", justify="right")
    for (pairs, gap), found in itertools.groupby(rows, lambda row: (row["pairs"], row["gap"])):
        group = list(found)
        cells = []
        for name in ("percentiles", "interval"):
            held = [row[name]["held"] for row in group]
            cells += [f"{np.mean(held):.3f}", f"{min(held):.3f}"]
        widths = (
            np.median([row[x]["width"] for row in group]) for x in ("percentiles", "interval")
        )
        table.add_row(str(pairs), f"{gap:.0f}", *cells, ", ".join(f"{x:.0f}" for x in widths))
    return table


def _shared_table(rows: list[dict[str, Any]], runs: int) -> Table:
    names = [name for name in rows[0] if ", " in name]
    table = Table(title=f"Six players from the same openings, {runs} runs: held, median width")
    for head in ("openings", "draws", *names):
        table.add_column(head, justify="right")
    for row in rows:
        cells = (f"{row[x]['held']:.3f}, {row[x]['width']:.0f}" for x in names)
        table.add_row(str(row["openings_shared"]), f"{row['draw_rate']:.0%}", *cells)
    return table


if __name__ == "__main__":
    main()
