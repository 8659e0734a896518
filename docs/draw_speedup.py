"""Draws docs/speedup.svg from rows of `benchmarks.engine`: `python docs/draw_speedup.py`.

They are the recorded ones; with `--rows FILE` those that `python -m benchmarks.engine --json FILE`
wrote.
"""

import argparse
import json
import pathlib
from typing import NamedTuple

import matplotlib as mpl
from matplotlib.figure import Figure

ROOT = pathlib.Path(__file__).parents[1]
ROWS = ROOT / "benchmarks" / "results" / "engine.json"
TITLES = {"gumbel": "Gumbel", "muzero": "MuZero", "puct": "PUCT"}
# From the palette of Okabe and Ito, which colour-blind readers can tell apart.
COLORS = {"gumbel": "#0072b2", "muzero": "#d55e00", "puct": "#009e73"}


class Row(NamedTuple):
    """One measurement: batch size, simulations, actions, rule and mctx's time over ours."""

    batch_size: int
    num_simulations: int
    num_actions: int
    rule: str
    ratio: float


def read_rows(path: pathlib.Path) -> list[Row]:
    """Reads the rows that `python -m benchmarks.engine --json FILE` wrote."""
    found = json.loads(path.read_text())["rows"]
    return [Row(row["B"], row["N"], row["A"], row["rule"], row["ratio"]) for row in found]


def draw(rows: list[Row]) -> Figure:
    """Draws a group of bars per size and a bar per rule; 1 is mctx's own speed."""
    sizes = list(dict.fromkeys(row[:3] for row in rows))
    figure = Figure(figsize=(8, 3.4), layout="constrained")
    axes = figure.subplots()
    for i, (rule, title) in enumerate(TITLES.items()):
        ratios = {row[:3]: row.ratio for row in rows if row.rule == rule}
        places = [place + 0.27 * (i - 1) for place in range(len(sizes))]
        bars = axes.bar(places, [ratios[x] for x in sizes], 0.25, color=COLORS[rule], label=title)
        axes.bar_label(bars, [f"{ratios[x]:.1f}×" for x in sizes], fontsize=8, padding=1)
    axes.axhline(1, color="black", lw=1)
    axes.text(len(sizes) - 0.58, 1.4, "mctx", fontsize=8, ha="left")
    labels = [f"{b} searches\n{n} simulations\n{a:,} actions" for b, n, a in sizes]
    axes.set_xticks(range(len(sizes)), labels, fontsize=9)
    axes.set(ylabel="mctx's time / dualmctx's time", xlim=(-0.5, len(sizes) - 0.3))
    axes.margins(y=0.1)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper left")
    return figure


def main() -> None:
    """Draws the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=pathlib.Path, metavar="FILE", default=ROWS)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs" / "speedup.svg")
    options = parser.parse_args()
    rows = read_rows(options.rows)
    # Text stays text, and the same rows give the same file.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "dualmctx"}):
        metadata = {"Date": None} if options.out.suffix == ".svg" else None
        draw(rows).savefig(options.out, dpi=150, metadata=metadata)


if __name__ == "__main__":
    main()
