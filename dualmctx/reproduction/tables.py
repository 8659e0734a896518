"""The tables of the report: the paper's Table 1 and ratios, ours beside them."""

from typing import Any, NamedTuple

from dualmctx.reproduction.convergence import RULES
from dualmctx.reproduction.summary import chance_of_seeds

NONE, UNRESOLVED = "–", "not resolved"
WIDEST_ELO, WIDEST_SHARE, WIDEST_RATIO = 400.0, 0.5, 4.0
"""An estimate is not resolved where its ends lie further apart: in Elo, as shares, as a factor."""
_ALPHAZERO, _MPV = {"step": 0.55, "total": 0.6}, {"step": 0.45, "total": 0.5}
AIMS = {
    **{"alphazero": _ALPHAZERO, "alphazero-best": _ALPHAZERO},
    **{"mpv": _MPV, "mpv-best": _MPV},
}
"""What this project is to reach in Connect Four: Dual's time by that of each, at most."""


class Table(NamedTuple):
    """A table: what stands above it, the head, and rows of as many cells."""

    title: str
    head: tuple[str, ...]
    rows: list[tuple[str, ...]]


def explain(summary: dict[str, Any]) -> list[str]:
    """Says why the candidate's step takes what it takes: what of it is search, what is learning."""
    return [
        f"A step of {summary['candidate']} takes {found['seconds']['mean']:.2f} of one of {other}: "
        f"its self-play {found['selfplay_seconds']['mean']:.2f}, with {found['blocks']:.2f} of the "
        f"blocks of the network a move, and its learning {found['learn_seconds']['mean']:.2f}. "
        f"Learning is {_learning_share(summary, other):.0%} of a step of {other}, "
        f"{_learning_share(summary, summary['candidate']):.0%} of one of {summary['candidate']}."
        for other, found in summary["ratios"].items()
    ]


def explain_convergence(summary: dict[str, Any], num_pairs: int) -> list[str]:
    """Says what a time to the level of the reference means: seeds, chance, and steps.

    Args:
      summary: as `summarize` returns it.
      num_pairs: of games of every two checkpoints.
    """
    candidate, seeds = summary["candidate"], len(summary["seeds"])
    reference = next(iter(summary["algorithms"]))
    places = summary["algorithms"][candidate]["converged"]["level"]
    reached = sum(x is not None for x in places.values())
    said = [f"By level {candidate} converged in {reached} of {seeds} seeds."]
    chance = chance_of_seeds(summary, num_pairs)
    if chance is not None:
        met, last, least = chance
        number = max(reached, 1)
        said[0] += (
            f" By chance alone an algorithm identical to {reference} meets the rule in {met:.0%} "
            f"of runs ({num_pairs} pairs of games an evaluation), {last:.0%} of these at the last "
            f"evaluation; in at least {number} of {seeds} seeds with probability "
            f"{least[number]:.2f}."
        )
    for other, found in summary["ratios"].items():
        steps, total = found["steps"]["level"], found["total"]["level"]
        if steps is not None and all(x == 1 for x in steps["values"]):
            said.append(
                f"{candidate} and {other} converged by level at equal steps "
                f"({len(steps['values'])} of {seeds} seeds): the ratio of their times, "
                f"{total['mean']:.2f}, is that of their step times."
            )
    return said


def _learning_share(summary: dict[str, Any], name: str) -> float:
    found = summary["algorithms"][name]
    return found["learn_seconds"]["mean"] / found["seconds"]["mean"]


def times(summary: dict[str, Any]) -> Table:
    """Lays out what a step takes, and where."""
    head = ("algorithm", "simulations a move", "blocks a move", "seconds a step", "of self-play")
    rows = [
        (
            name,
            str(found["cost"]["simulations"]),
            str(found["cost"]["blocks"]),
            *(show(found[x]) for x in ("seconds", "selfplay_seconds", "learn_seconds")),
            show_paper(found["paper"], "step"),
        )
        for name, found in summary["algorithms"].items()
    ]
    return Table("Time a step", (*head, "of learning", "paper, time a step"), rows)


def convergence(summary: dict[str, Any]) -> Table:
    """Lays out when each algorithm converged, by each rule: steps and seconds, seed by seed."""
    head = ("algorithm", *(f"{rule}: steps; seconds" for rule in RULES), "paper: steps; time")
    rows = []
    for name, found in summary["algorithms"].items():
        cells = [show_places(list(found["converged"][rule].values())) for rule in RULES]
        paper = found["paper"]
        published = NONE if paper is None else f"{paper['steps']}; {paper['total']:.2f}"
        rows.append((name, *cells, published))
    return Table("Steps and seconds to converge, a seed each", head, rows)


def strength(summary: dict[str, Any]) -> Table:
    """Lays out how strong the last checkpoints are."""
    reference, seeds = next(iter(summary["algorithms"])), len(summary["seeds"])
    columns = {
        "Elo": ("elo", 0, WIDEST_ELO),
        "Elo, first side": ("first", 0, WIDEST_ELO),
        "Elo, second side": ("second", 0, WIDEST_ELO),
        f"points against {reference}'s last": ("level", 2, WIDEST_SHARE),
        "points against the untrained": ("score", 2, WIDEST_SHARE),
        "optimal moves": ("optimal", 3, WIDEST_SHARE),
    }
    lasts = {name: found["last"] for name, found in summary["algorithms"].items()}
    # What is known of nobody is not asked in this game.
    asked = {
        head: column
        for head, column in columns.items()
        if any(x[column[0]] is not None for x in lasts.values())
    }
    rows = [
        (
            name,
            *(
                UNRESOLVED if _is_wide(last[part], widest) else show(last[part], seeds, digits)
                for part, digits, widest in asked.values()
            ),
        )
        for name, last in lasts.items()
    ]
    return Table("The last checkpoints", ("algorithm", *asked), rows)


def ratios(game: str, summary: dict[str, Any]) -> Table:
    """Lays out the candidate's time by that of each other algorithm."""
    candidate = summary["candidate"]
    head = ("quantity", *(f"{candidate} / {other}" for other in summary["ratios"]))
    columns = [
        _ratio_column(
            found, AIMS.get(other) if game == "connect-four" else None, len(summary["seeds"])
        )
        for other, found in summary["ratios"].items()
    ]
    names = columns[0].keys()
    rows = [(name, *(column[name] for column in columns)) for name in names]
    return Table("Ratios", head, rows)


def _ratio_column(
    found: dict[str, Any], aim: dict[str, float] | None, seeds: int
) -> dict[str, str]:
    return {
        "time a step": show_ratio(found["seconds"]),
        "time a step, paper": show_paper(found["paper"], "step"),
        "time a step, aim": NONE if aim is None else f"≤ {aim['step']}",
        "self-play": show_ratio(found["selfplay_seconds"]),
        "learning": show_ratio(found["learn_seconds"]),
        "blocks a move": f"{found['blocks']:.2f}",
        **{
            f"{what} to converge, {rule}": show_ratio(found[part][rule], seeds)
            for rule in RULES
            for what, part in (("time", "total"), ("steps", "steps"))
        },
        "time to converge, paper": show_paper(found["paper"], "total"),
        "time to converge, aim": NONE if aim is None else f"≤ {aim['total']}",
    }


def show(found: dict[str, Any] | None, seeds: int = 0, digits: int = 2) -> str:
    """Shows an estimate with its interval, if it has one, and of how many seeds, if not of all."""
    if found is None:
        return NONE
    number = len(found["values"])
    part = f" ({number} of {seeds} seeds)" if number < seeds else ""
    ends = [found["low"], found["high"]]
    interval = "" if None in ends else f" [{', '.join(show_decimal(x, digits) for x in ends)}]"
    return f"{show_decimal(found['mean'], digits)}{interval}{part}"


def show_ratio(found: dict[str, Any] | None, seeds: int = 0) -> str:
    """Shows a ratio, and of how many seeds if `seeds` says how many there are.

    A ratio is not resolved where the ends of its interval are more than a factor of `WIDEST_RATIO`
    apart, and exactly 1 in all seeds is equality, of steps, and no measurement.
    """
    if found is None:
        return NONE
    values, low, high = found["values"], found["low"], found["high"]
    of = f" ({len(values)} of {seeds} seeds)" if seeds else ""
    if low is not None and high > WIDEST_RATIO * low:
        return f"{UNRESOLVED}{of}"
    if seeds and all(x == 1 for x in values):
        return f"equal{of}"
    return f"{show(found)}{of}"


def _is_wide(found: dict[str, Any] | None, widest: float) -> bool:
    return found is not None and found["low"] is not None and found["high"] - found["low"] > widest


def show_decimal(number: float, digits: int) -> str:
    """Shows a number with so many digits, and 0 without a sign."""
    return f"{round(number, digits) + 0.0:.{digits}f}"


def show_paper(published: dict[str, float] | None, name: str) -> str:
    """Shows a number of the paper's, if it has one."""
    return NONE if published is None else f"{published[name]:.2f}"


def show_places(places: list[dict[str, float] | None]) -> str:
    """Shows when each seed converged."""
    if not any(places):
        return NONE
    return ", ".join(NONE if x is None else f"{x['step']:.3g}; {x['seconds']:.1f}" for x in places)
