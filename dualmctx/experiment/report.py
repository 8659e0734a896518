"""The report of training by self-play: the plot and the table of the last evals."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dualmctx.policies import head_names
from dualmctx.reports.numbers import show_score, show_share
from dualmctx.reports.plots import COLORS, DASHES, SHARES, Line, Panel, plot_curves
from dualmctx.reports.table import Table
from dualmctx.runs.progress import describe_positions

_SOURCES = {"network": "network alone", "search": "with search"}
_MEASURES = {
    "path/{}_optimal": "optimal moves, optimal path ({path_positions})",
    "exact/{}_optimal": "optimal moves, all positions ({exact_positions})",
    "path/{}_value": "right values, optimal path ({path_positions})",
    "exact/{}_value": "right values, all positions ({exact_positions})",
}
# Of the opponents in evals, by the side of the network.
_MATCHES = {
    f"{opponent}/{side}": f"against {opponent} play, moving {side}"
    for opponent in ("perfect", "random")
    for side in ("first", "second")
}


def summary_table(summary: dict[str, Any]) -> Table:
    """Lays out the results of the final evals: a row per measure."""
    rows = [
        (text.format(**summary), *(show_share(summary[name.format(x)], 2) for x in _SOURCES))
        for name, text in _MEASURES.items()
        if name.format("search") in summary
    ]
    rows += [
        (text, "", show_score({x: summary[f"{name}_{x}"] for x in ("wins", "draws", "losses")}))
        for name, text in _MATCHES.items()
        if f"{name}_wins" in summary
    ]
    return Table(summary["title"], ("", *_SOURCES.values()), rows)


def plot_training(rows: list[dict[str, Any]], title: str, file: Path) -> None:
    """Plots the evals and the losses over the seconds of training, and saves the plot.

    Evals are shares from 0 to 1. Lines differ in colour and dashes: evals are solid with search and
    dashed without, and losses of the last head are solid.

    Args:
      rows: the rows of `metrics.jsonl`.
      title: the title of the plot.
      file: the file to write; its suffix sets the format.
    """
    sample = next((row for row in rows if "exact_positions" in row), {})
    positions = describe_positions(sample)
    evals = (
        Line("path/search_optimal", "with search, optimal path"),
        Line("path/network_optimal", "network alone, optimal path", dashes="--"),
        Line("exact/search_optimal", f"with search, {positions}", COLORS[1]),
        Line("exact/network_optimal", f"network alone, {positions}", COLORS[1], "--"),
        Line("random/win_share", "won against uniform random", COLORS[2], ":"),
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
