"""Formats the results of a comparison for a terminal."""

from typing import Any

import rich.table
from rich import box
from rich.text import Text

from dualmctx.matches.report.answer import by_strength
from dualmctx.matches.report.layout import Table, split_columns
from dualmctx.runs.numbers import (
    show_decimal,
    show_elo,
    show_interval,
    show_number,
    show_probability,
    show_share,
)

# Characters between two columns, and in a line of a name on a wide and on a narrow terminal.
_GAP, _LONG, _SHORT = 2, 40, 8


def standings(report: dict[str, Any], width: int) -> list[rich.table.Table]:
    """Returns the table of the players of a report, the strongest first.

    Args:
      report: the content of `report.json`.
      width: width of the terminal in characters. Long names are wrapped. A table that is too wide
        is split into several, each with the names.
    """
    level = show_share(report["ratings"]["level"])
    head = ("", "Elo", level, "points", "α-rank", "budget", "blocks", "ms")
    rows = [
        (
            row["name"],
            show_elo(row),
            show_interval(row),
            show_share(row["score"], 1),
            show_probability(row["mass"]),
            show_number(row["simulations"]),
            show_number(row["blocks"]),
            show_number(1000 * row["seconds"]),
        )
        for row in by_strength(report["players"])
    ]
    game, number = report["settings"]["game"], report["games"]["played"]
    title = f"{game}, {number:,} games; simulations (budget), blocks and ms per move"
    longest = max(min(_LONG, width // 2), _SHORT)
    parts = split_columns(Table(title, head, rows), width, gap=_GAP, longest=longest)
    return [_to_rich(part, longest) for part in parts]


def _to_rich(table: Table, longest: int) -> rich.table.Table:
    title = Text(table.title, style="bold") if table.title else None
    shown = rich.table.Table(
        title=title,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, _GAP - 1, 0, 0),
        pad_edge=False,
        show_edge=False,
    )
    shown.add_column("", overflow="fold", max_width=longest)
    for name in table.head[1:]:
        shown.add_column(name, justify="right", no_wrap=True)
    for row in table.rows:
        shown.add_row(*map(Text, row))
    return shown


def describe_test(test: dict[str, Any]) -> str:
    """Describes the state of a sequential test as one line of text."""
    decided = "not decided" if test["accepted"] is None else f"{test['accepted']} accepted"
    return (
        f"SPRT: {decided} after {test['num_pairs']} pairs; H0: {test['player']} leads by "
        f"{test['elo0']:g} Elo, H1: by {test['elo1']:g}; log-likelihood ratio "
        f"{show_decimal(test['log_likelihood_ratio'], 2)} in ({show_decimal(test['lower'], 2)}, "
        f"{show_decimal(test['upper'], 2)}); Elo of the mean score, on which the test is based: "
        f"{show_elo(test)}"
    )
