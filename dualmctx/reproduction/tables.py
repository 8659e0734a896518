"""The tables of the report: the paper's Table 1 and its ratios, with ours beside them."""

from typing import Any

from dualmctx.matches.report.layout import Table
from dualmctx.reproduction.cells import (
    UNRESOLVED,
    WIDEST_ELO,
    WIDEST_SHARE,
    is_wide,
    show,
    show_paper,
    show_points,
    show_ratio,
)
from dualmctx.reproduction.convergence import RULES
from dualmctx.runs.numbers import NONE, show_decimal

_ALPHAZERO_AIMS, _MPV_AIMS = {"step": 0.55, "total": 0.6}, {"step": 0.45, "total": 0.5}
AIMS = {
    **{"alphazero": _ALPHAZERO_AIMS, "alphazero-best": _ALPHAZERO_AIMS},
    **{"mpv": _MPV_AIMS, "mpv-best": _MPV_AIMS},
}
"""The aims of this project in Connect Four: the maximum ratio of the time of Dual to that of each
algorithm."""


def times(summary: dict[str, Any]) -> Table:
    """Returns the table of the time per step."""
    head = (
        *("algorithm", "simulations per move", "blocks per move", "seconds per step"),
        *("of self-play", "of learning", "paper, time per step"),
    )
    rows = [
        (
            name,
            str(entry["cost"]["simulations"]),
            str(entry["cost"]["blocks"]),
            *(show(entry[x]) for x in ("seconds", "selfplay_seconds", "learn_seconds")),
            show_paper(entry["paper"], "step"),
        )
        for name, entry in summary["algorithms"].items()
    ]
    return Table("Time per step", head, rows)


def convergence(summary: dict[str, Any]) -> Table:
    """Returns the table of the steps and seconds to converge, by each rule and seed."""
    head = ("algorithm", *(f"{rule}: steps; seconds" for rule in RULES), "paper: steps; time")
    rows = []
    for name, entry in summary["algorithms"].items():
        cells = [show_points(list(entry["converged"][rule].values())) for rule in RULES]
        paper = entry["paper"]
        published = NONE if paper is None else f"{paper['steps']}; {show_paper(paper, 'total')}"
        rows.append((name, *cells, published))
    return Table("Steps and seconds to converge, for each seed", head, rows)


def strength(summary: dict[str, Any]) -> Table:
    """Returns the table of the strength of the last checkpoints."""
    reference, seeds = next(iter(summary["algorithms"])), len(summary["seeds"])
    columns = {
        "Elo": ("elo", 0, WIDEST_ELO),
        "Elo, first side": ("first", 0, WIDEST_ELO),
        "Elo, second side": ("second", 0, WIDEST_ELO),
        f"points against the last {reference}": ("level", 2, WIDEST_SHARE),
        "points against untrained networks": ("score", 2, WIDEST_SHARE),
        "optimal moves": ("optimal", 3, WIDEST_SHARE),
    }
    lasts = {name: entry["last"] for name, entry in summary["algorithms"].items()}
    # A column without any value does not apply to the game.
    shown = {
        head: column
        for head, column in columns.items()
        if any(x[column[0]] is not None for x in lasts.values())
    }
    rows = [
        (
            name,
            *(
                UNRESOLVED if is_wide(last[part], widest) else show(last[part], seeds, digits)
                for part, digits, widest in shown.values()
            ),
        )
        for name, last in lasts.items()
    ]
    return Table("The last checkpoints", ("algorithm", *shown), rows)


def ratios(game: str, summary: dict[str, Any]) -> Table:
    """Returns the table of the ratios of the candidate to each other algorithm."""
    candidate = summary["candidate"]
    head = ("quantity", *(f"{candidate} / {other}" for other in summary["ratios"]))
    columns = [
        _ratio_column(
            entry, AIMS.get(other) if game == "connect-four" else None, len(summary["seeds"])
        )
        for other, entry in summary["ratios"].items()
    ]
    rows = [(name, *(column[name] for column in columns)) for name in columns[0]]
    return Table("Ratios", head, rows)


def _ratio_column(
    entry: dict[str, Any], aim: dict[str, float] | None, seeds: int
) -> dict[str, str]:
    return {
        "time per step": show_ratio(entry["seconds"]),
        "time per step, paper": show_paper(entry["paper"], "step"),
        "time per step, aim": NONE if aim is None else f"≤ {aim['step']}",
        "self-play": show_ratio(entry["selfplay_seconds"]),
        "learning": show_ratio(entry["learn_seconds"]),
        "blocks per move": show_decimal(entry["blocks"], 2),
        **{
            f"{quantity} to converge, {rule}": show_ratio(entry[part][rule], seeds)
            for rule in RULES
            for quantity, part in (("time", "total"), ("steps", "steps"))
        },
        "time to converge, paper": show_paper(entry["paper"], "total"),
        "time to converge, aim": NONE if aim is None else f"≤ {aim['total']}",
    }
