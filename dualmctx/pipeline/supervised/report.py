"""The report of the supervised stage: lines, table and picture."""

from typing import Any

from dualmctx.reports.numbers import show_decimal, show_share
from dualmctx.reports.plots import COLORS, SHARES, Line, Panel
from dualmctx.reports.table import Table
from dualmctx.runs.metrics_file import Row

_SCOPES = {
    "validation": "validation",
    "validation_unseen": "  not in training",
    "test": "test",
    "test_unseen": "  not in training",
}
_SCORES = {"top1": "top-1", "top5": "top-5", "loss": "cross-entropy"}
_COLUMNS = {"policy": "policy", "rollout": "rollout policy", "chance": "random moves"}


def describe(row: Row) -> str:
    """Describes a row in at most 43 columns: its evals, or else the losses of its batches."""
    if "validation/policy_top1" in row:
        text = (
            f"top-1 {row['validation/policy_top1']:.1%}, "
            f"rollout {row['validation/rollout_top1']:.1%}"
        )
        keeping = row.get("exact/policy_keeping")
        return text if keeping is None else f"{text}, keeps {keeping:.1%}"
    return (
        f"loss {row['policy_loss']:.3f}, top-1 {row['policy_top1']:.1%}, "
        f"rollout {row['rollout_top1']:.1%}"
    )


def table(summary: dict[str, Any]) -> Table:
    """Lays out the last evals: a row per score, and a column per policy."""
    rows = []
    for scope, text in _SCOPES.items():
        number = summary.get(f"{scope}/positions")
        for score, name in _SCORES.items() if number else ():
            show, digits = (show_decimal, 3) if score == "loss" else (show_share, 1)
            cells = (show(summary[f"{scope}/{policy}_{score}"], digits) for policy in _COLUMNS)
            head = f"{text} ({number:,.0f}), " if score == "top1" else "    "
            rows.append((f"{head}{name}", *cells))
    keeping = [summary.get(f"exact/{x}_keeping") for x in ("policy", "rollout", "random")]
    if keeping[0] is not None:
        cells = (show_share(x, 1) for x in keeping)
        rows.append(("most likely move keeps the value", *cells))
    return Table(summary["title"], ("", *_COLUMNS.values()), rows)


def _lines(score: str) -> list[Line]:
    """Returns the lines of a score.

    Colours tell the policies apart, and dashes the positions: dotted for training batches, solid
    for validation games, dashed for their positions that are not in training.
    """
    lines = []
    for policy, color in (("policy", COLORS[0]), ("rollout", COLORS[1])):
        name = f"{policy}_{score}"
        lines += [
            Line(name, f"{policy}, training", color, ":", marker=""),
            Line(f"validation/{name}", f"{policy}, validation", color),
            Line(f"validation_unseen/{name}", f"{policy}, not in training", color, "--"),
        ]
    return [*lines, Line(f"validation/chance_{score}", "random moves", COLORS[6], "-.", "")]


_KEEPING = Line("exact/policy_keeping", "most likely move keeps the exact value", COLORS[2])
ACCURACY = Panel("top-1 accuracy", [*_lines("top1"), _KEEPING], "share", SHARES)
"""The accuracies over the iterations."""
PANELS = (Panel("cross-entropy of the moves played", _lines("loss"), "nats"), ACCURACY)
"""The picture of the stage."""
