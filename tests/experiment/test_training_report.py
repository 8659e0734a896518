"""The plot and the table of a training run."""

import io
import math
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from dualmctx.console import Console
from dualmctx.experiment.report import plot_training, summary_table

LOSSES = {f"{kind}_loss_{head}": 0.5 for kind in ("policy", "value") for head in range(4)}
SHARES = {
    f"{scope}/{source}_{measure}": share
    for share, (scope, source, measure) in enumerate(
        (scope, source, measure)
        for scope in ("path", "exact")
        for measure in ("optimal", "value")
        for source in ("network", "search")
    )
}
EVALS = {name: x / 10 for name, x in SHARES.items()} | {"exact_positions": 1023}
# Rows with the numbers of their lines in both panels.
ROWS = {
    "none": ([], (0, 0)),
    "with evals": ([LOSSES | EVALS | {"random/win_share": 0.5}] * 3, (5, 8)),
    "with one eval against random": ([LOSSES, LOSSES | {"random/win_share": 0.5}], (1, 8)),
    "not finite": ([LOSSES | {"policy_loss_1": x} for x in (None, math.nan)], (0, 8)),
    "with a loss of zero": ([dict.fromkeys(LOSSES, 0.0)] * 2, (0, 8)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_training_curves_differ_in_colour_or_dashes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved: list[Figure] = []
    save = Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda figure, *x, **y: (saved.append(figure), save(figure, *x, **y))
    )
    some, num_lines = ROWS[name]
    rows = [{"seconds": float(i)} | row for i, row in enumerate(some)]
    plot_training(rows, "nim", tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    evals, losses = saved[0].axes
    assert (len(evals.lines), len(losses.lines)) == num_lines
    for axes in (evals, losses):
        styles = {(line.get_color(), line.get_linestyle()) for line in axes.lines}
        assert len(styles) == len(axes.lines)
        assert len({line.get_label() for line in axes.lines}) == len(axes.lines)
    assert evals.get_ylim() == (-0.02, 1.02)
    assert saved[0].get_suptitle() == "nim"


def test_the_summary_table_shows_all_results() -> None:
    counts = {"title": "a title", "path_positions": 9, "exact_positions": 23}
    scores = {
        f"{opponent}/{side}_{name}": start + i
        for opponent in ("perfect", "random")
        for side, start in (("first", 11), ("second", 21))
        for i, name in enumerate(("wins", "draws", "losses"))
    }
    table = summary_table(EVALS | counts | scores)
    assert (table.title, table.head) == ("a title", ("", "network alone", "with search"))
    assert table.rows == [
        ("optimal moves, optimal path (9)", "0.00%", "10.00%"),
        ("optimal moves, all positions (23)", "40.00%", "50.00%"),
        ("right values, optimal path (9)", "20.00%", "30.00%"),
        ("right values, all positions (23)", "60.00%", "70.00%"),
        ("against perfect play, moving first", "", "+11 =12 −13"),
        ("against perfect play, moving second", "", "+21 =22 −23"),
        ("against random play, moving first", "", "+11 =12 −13"),
        ("against random play, moving second", "", "+21 =22 −23"),
    ]
    output = io.StringIO()
    Console(file=output, width=80).print(table)
    assert max(map(len, output.getvalue().splitlines())) <= 80
