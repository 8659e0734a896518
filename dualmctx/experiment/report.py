"""Reports of training: tables of measures, and the lines, the plot and the table of self-play."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dualmctx.policies import head_names
from dualmctx.reports.numbers import show_decimal, show_score, show_share
from dualmctx.reports.plots import COLORS, DASHES, SHARES, Line, Panel, plot_curves
from dualmctx.reports.table import Table
from dualmctx.runs.progress import Described

PERCENT = functools.partial(show_share, digits=1)
DECIMAL = functools.partial(show_decimal, digits=3)
"""Formats of measures: a share in percent, and a number."""


class Measure(NamedTuple):
    """A row of a table of measures.

    Attributes:
      pattern: its entries in the summary, such as `test/{}_top1`; the name of a column takes the
        place of the braces.
      text: its name; entries of the summary may stand in braces, as in `test ({positions:,})`.
      show: formats an entry.
    """

    pattern: str
    text: str
    show: Callable[[Any], str] = PERCENT


def measures_table(
    measures: Sequence[Measure], columns: Mapping[str, str], summary: dict[str, Any]
) -> Table:
    """Lays out entries of a summary: a row per measure, and a column per name in their patterns.

    Args:
      measures: the rows; one without an entry is left out.
      columns: the titles of the columns, by the names in the patterns.
      summary: the summary.
    """
    rows = []
    for pattern, text, show in measures:
        found = [summary.get(pattern.format(name)) for name in columns]
        if any(x is not None for x in found):
            cells = ("" if x is None else show(x) for x in found)
            rows.append((text.format_map(summary), *cells))
    return Table(summary["title"], ("", *columns.values()), rows)


VALIDATION, NETWORK = "validation", "network"
"""The scope of the scores of a data set, which is its split, and the final head of the network."""
_SOURCES = {NETWORK: "network alone", "search": "with search"}
_SOLVED = [
    Measure(f"{scope}/{{}}_{name}", f"{text}, {positions}", functools.partial(show_share, digits=2))
    for name, text in (("optimal", "optimal moves"), ("value", "right values"))
    for scope, positions in (
        ("path", "optimal path ({path_positions})"),
        ("exact", "all positions ({exact_positions})"),
    )
]
_HELD_OUT = [
    Measure(
        f"{VALIDATION}/{{}}_{score}", f"validation ({{{VALIDATION}/positions:,.0f}}), {text}", show
    )
    for score, text, show in (
        ("top1", "top-1", PERCENT),
        ("top5", "top-5", PERCENT),
        ("loss", "cross-entropy", DECIMAL),
        ("value_loss", "value loss", DECIMAL),
    )
]
# Of the opponents in evals, by the side of the network.
_MATCHES = {
    f"{opponent}/{side}": f"against {opponent} play, moving {side}"
    for opponent in ("perfect", "random")
    for side in ("first", "second")
}


def describe_training(row: dict[str, Any]) -> Described:
    """Describes a row of self-play training: rates, losses and, if there were any, evals."""
    rates = "  ".join(
        f"{row[f'{name}_per_second']:,.{digits}f} {name}/s"
        for name, digits in (("games", 1), ("positions", 0), ("simulations", 0))
        if f"{name}_per_second" in row
    )
    last = max(int(name.rsplit("_", 1)[1]) for name in row if name.startswith("policy_loss_"))
    losses = f"loss policy {row[f'policy_loss_{last}']:.3f} value {row[f'value_loss_{last}']:.3f}"
    return Described((rates, losses), "; ".join(_describe_evals(row)))


def _describe_evals(row: dict[str, Any]) -> Iterator[str]:
    if (name := f"{VALIDATION}/{NETWORK}_top1") in row:
        yield f"validation ({row[f'{VALIDATION}/positions']:,.0f} positions): top-1 {row[name]:.1%}"
    # The last evals use all positions, the others may use a sample.
    for scope, label in (("path", "optimal path"), ("exact", _describe_positions(row))):
        if f"{scope}/search_optimal" in row:
            network, search = (row[f"{scope}/{x}_optimal"] for x in ("network", "search"))
            yield f"{label}: network {network:.1%}, search {search:.1%} optimal"
    for opponent in ("random", "perfect"):
        if f"{opponent}/win_share" in row:
            score = {
                name: row[f"{opponent}/first_{name}"] + row[f"{opponent}/second_{name}"]
                for name in ("wins", "draws", "losses")
            }
            yield f"against {opponent}: {show_score(score)}"


def _describe_positions(row: dict[str, Any]) -> str:
    """Returns the number of positions with exact values, if a row has it."""
    return f"{row['exact_positions']:,} positions" if "exact_positions" in row else "positions"


def summary_table(summary: dict[str, Any]) -> Table:
    """Lays out the results of the final evals of self-play: a row per measure."""
    table = measures_table(_SOLVED + _HELD_OUT, _SOURCES, summary)
    table.rows.extend(
        (text, "", show_score({x: summary[f"{name}_{x}"] for x in ("wins", "draws", "losses")}))
        for name, text in _MATCHES.items()
        if f"{name}_wins" in summary
    )
    return table


def plot_training(rows: list[dict[str, Any]], title: str, file: Path) -> None:
    """Plots the evals and the losses over the seconds of training, and saves the plot.

    Evals are shares from 0 to 1. Lines differ in colour and dashes: evals are solid with search and
    dashed without, and losses of the last head are solid.

    Args:
      rows: the rows of `metrics.jsonl`.
      title: the title of the plot.
      file: the file to write; its suffix sets the format.
    """
    positions = _describe_positions(next((x for x in rows if "exact_positions" in x), {}))
    evals = (
        Line("path/search_optimal", "with search, optimal path"),
        Line("path/network_optimal", "network alone, optimal path", dashes="--"),
        Line("exact/search_optimal", f"with search, {positions}", COLORS[1]),
        Line("exact/network_optimal", f"network alone, {positions}", COLORS[1], "--"),
        Line("random/win_share", "won against uniform random", COLORS[2], ":"),
        Line(f"{VALIDATION}/{NETWORK}_top1", "validation, top-1", COLORS[3], "-."),
    )
    losses = tuple(_loss_lines(rows[-1] if rows else {}))
    panels = (
        Panel("optimal moves, games won", evals, "share", SHARES),
        Panel("losses", losses, is_log=True),
    )
    plot_curves(panels, rows, title, file, x=("seconds", "seconds of training"))


def _loss_lines(row: dict[str, Any]) -> Iterator[Line]:
    """Yields the line of each loss in a row, the last head first."""
    for kind, color in zip(("policy", "value"), COLORS, strict=False):
        prefix = f"{kind}_loss_"
        heads = sorted(int(name.removeprefix(prefix)) for name in row if name.startswith(prefix))
        names = head_names(len(heads))
        for place, head in enumerate(reversed(heads)):
            text = f"{kind}, {names[-1 - place]} head"
            yield Line(f"{prefix}{head}", text, color, DASHES[place % len(DASHES)], marker="")
