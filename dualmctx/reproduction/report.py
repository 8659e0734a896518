"""The report of a reproduction: tables with the numbers of the paper and ours, in three formats."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from dualmctx.matches.report.html import inline_png, render_page
from dualmctx.matches.report.layout import Table
from dualmctx.reproduction.cells import WIDEST_ELO, WIDEST_RATIO, WIDEST_SHARE
from dualmctx.reproduction.convergence import NUM_CONSECUTIVE, RULES
from dualmctx.reproduction.estimates import MIN_SEEDS
from dualmctx.reproduction.figures import save_curves
from dualmctx.reproduction.paper import SOURCE
from dualmctx.reproduction.sentences import explain_convergence, explain_times
from dualmctx.reproduction.size import Size
from dualmctx.reproduction.tables import convergence, ratios, strength, times
from dualmctx.runs.atomic_io import atomic_write_text

_TEMPLATE = Path(__file__).with_name("report.html.j2")
_TITLE = "Dual MCTS, reproduced"
_NOTE = (
    "Seconds are those of self-play and learning; they exclude compilation, saving, evals and "
    "matches. Intervals are 95 % intervals over seeds (Student's t). There is no interval for "
    f"fewer than {MIN_SEEDS} seeds or if all seeds agree; of two seeds, the values are given. The "
    "bands of Elo in the figures are intervals over the games of each seed. A dash means that "
    "there is no value. For a time to converge, it means that a run did not meet the rule within "
    "its steps. For the rule of the authors, the reason may be that no algorithm can meet it: if "
    "untrained networks with search already play well, perfect play scores too little against "
    "them. A ratio of times to converge covers only the seeds in which both algorithms converged, "
    "which favours an algorithm that fails on hard seeds. Read it together with the ratio of "
    "steps: if the steps are equal, it is the ratio of step times. An estimate is not resolved if "
    f"its interval, or the range of two seeds, is wider than {WIDEST_ELO:.0f} Elo, than "
    f"{WIDEST_SHARE:.0%} of the points, or than a factor of {WIDEST_RATIO:.0f}. Elo is relative to "
    "the last checkpoint of the first algorithm of a table; where sides are rated separately, to "
    "that checkpoint on its first side. The runs of a seed took turns. Exceptions are runs that a "
    "later command added and those of alphazero-seconds, whose budget is measured from the "
    "others. These ran later, so their ratios include any change of the machine in the meantime."
)


class Section(NamedTuple):
    """A comparison in a game.

    Attributes:
      title: the title.
      sentences: paragraphs of text.
      tables: the tables.
      picture: path of the figure, relative to the report.
    """

    title: str
    sentences: list[str]
    tables: list[Table]
    picture: str


def write_report(report: dict[str, Any], folder: Path) -> list[Path]:
    """Writes `report.json`, the figures, `report.md` and `report.html`; returns these three files.

    The HTML page contains its figures.

    Args:
      report: `size`; `sessions`, the command, machine and versions of each session, by game;
        `games`, the result of `summarize` by game and comparison; optionally `notes`, paragraphs
        that come first.
      folder: the folder to write to.
    """
    sections = list(_sections(report, folder))
    files = {
        "report.json": json.dumps(report, indent=1) + "\n",
        "report.md": to_markdown(report, sections),
        "report.html": to_html(report, sections, folder),
    }
    for name, text in files.items():
        atomic_write_text(folder / name, text)
    return [folder / name for name in files]


def _sections(report: dict[str, Any], folder: Path) -> Iterator[Section]:
    for game, comparisons in report["games"].items():
        for name, summary in comparisons.items():
            picture = f"figures/{game}-{name}.png"
            title = f"{game}: {summary['title']}"
            save_curves(summary, title, folder / picture)
            tables = [
                times(summary),
                convergence(summary),
                strength(summary),
                ratios(game, summary),
            ]
            seeds = f"Seeds: {', '.join(map(str, summary['seeds']))}."
            pairs = Size(**report["size"]).openings
            sentences = [seeds, *explain_times(summary), *explain_convergence(summary, pairs)]
            yield Section(title, sentences, tables, picture)


def _preamble(report: dict[str, Any]) -> list[str]:
    rules = "; ".join(f"{name}: {text}" for name, text in RULES.items())
    evaluated = Size(**report["size"]).evaluated
    return [
        *report.get("notes", []),
        *_describe_sessions(report["sessions"]),
        f"Size: {_format_settings(report['size'])}.",
        f"Paper: {SOURCE}.",
        _NOTE,
        f"Rules of convergence: {rules}. Checkpoints play after steps "
        f"{', '.join(map(str, evaluated))}; {describe_latest(evaluated)}.",
    ]


def _describe_sessions(sessions: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Returns one sentence per distinct command and machine, with the games that used it."""
    games: dict[str, list[str]] = {}
    for game, rows in sessions.items():
        for row in rows:
            session = f"{row['command']}. Machine: {_format_settings(row['machine'])}"
            games.setdefault(session, []).append(game)
    return [f"Command ({', '.join(names)}): {session}." for session, names in games.items()]


def _format_settings(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def describe_latest(evaluated: tuple[int, ...]) -> str:
    """Describes the latest step at which a rule of several evaluations in a row can start."""
    later = [step for step in evaluated if step > 0]
    if len(later) < NUM_CONSECUTIVE:
        return f"there are never {NUM_CONSECUTIVE} in a row after the start"
    return f"{NUM_CONSECUTIVE} in a row begin at step {later[-NUM_CONSECUTIVE]} at the latest"


def to_markdown(report: dict[str, Any], sections: list[Section]) -> str:
    """Returns the report as Markdown, which links to the figures."""
    lines = [f"# {_TITLE}", ""]
    for paragraph in _preamble(report):
        lines += [paragraph, ""]
    for section in sections:
        lines += [f"## {section.title}", "", f"![{section.title}]({section.picture})", ""]
        for sentence in section.sentences:
            lines += [sentence, ""]
        for table in section.tables:
            rows = [table.head, ("---",) * len(table.head), *table.rows]
            lines += [f"**{table.title}**", "", *map(_to_line, rows), ""]
    return "\n".join(lines)


def _to_line(cells: tuple[str, ...]) -> str:
    """Returns a line of a table; a bar in a cell would end the cell."""
    escaped = [cell.replace("|", "\\|") for cell in cells]
    return f"| {' | '.join(escaped)} |"


def to_html(report: dict[str, Any], sections: list[Section], folder: Path) -> str:
    """Returns the report as an HTML page that contains its figures."""
    pictures = {x.picture: inline_png((folder / x.picture).read_bytes()) for x in sections}
    return render_page(
        _TEMPLATE,
        title=_TITLE,
        preamble=_preamble(report),
        sections=sections,
        pictures=pictures,
    )
