"""Formats the results of a comparison for a terminal."""

from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from dualmctx.matches.report.numbers import show_elo, show_interval, show_number
from dualmctx.matches.report.page import by_strength


def standings(report: dict[str, Any]) -> Table:
    """Returns a table of the players of a report, the strongest first."""
    game, number = report["settings"]["game"], report["games"]["played"]
    title = f"{game}, {number:,} games; simulations (budget), blocks and ms per move"
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.pad_edge = False
    table.add_column("", overflow="fold")
    columns = (
        "Elo",
        f"{report['ratings']['level']:.0%}",
        "points",
        "α-rank",
        "budget",
        "blocks",
        "ms",
    )
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    for row in by_strength(report["players"]):
        table.add_row(
            Text(row["name"]),
            show_elo(row),
            show_interval(row),
            f"{row['score']:.1%}",
            show_number(row["mass"]),
            show_number(row["simulations"]),
            show_number(row["blocks"]),
            show_number(1000 * row["seconds"]),
        )
    return table


def describe_test(test: dict[str, Any]) -> str:
    """Describes the state of a sequential test as one line of text."""
    decided = "not decided" if test["accepted"] is None else f"{test['accepted']} accepted"
    return (
        f"SPRT: {decided} after {test['num_pairs']} pairs; H0: {test['player']} leads by "
        f"{test['elo0']:g} Elo, H1: by {test['elo1']:g}; log-likelihood ratio "
        f"{test['log_likelihood_ratio']:.2f} in ({test['lower']:.2f}, {test['upper']:.2f}); Elo of "
        f"the mean score, on which the test is based: {show_elo(test)}"
    )
