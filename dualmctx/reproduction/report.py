"""The report of a reproduction: the paper's table and figures beside ours, in three formats."""

import base64
import html
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from dualmctx.reproduction.convergence import IN_A_ROW, RULES
from dualmctx.reproduction.figures import save_curves
from dualmctx.reproduction.paper import SOURCE
from dualmctx.reproduction.size import Size
from dualmctx.reproduction.tables import (
    WIDEST_ELO,
    WIDEST_RATIO,
    WIDEST_SHARE,
    Table,
    convergence,
    explain,
    explain_convergence,
    ratios,
    strength,
    times,
)
from dualmctx.runs.atomic_io import atomic_write_text

_TITLE = "Dual MCTS, reproduced"
_NOTE = (
    "Seconds are of self-play and learning alone; compiling, saving, exams and matches are apart. "
    "Intervals are of 95 % over seeds (Student's t); there is none for one seed, or where all "
    "agree, and the bands of Elo in the figures are of each seed's games. A dash stands for what "
    "there is not; in the place of a time to converge it says that a run did not meet the rule "
    "within its steps. By the rule of the authors that may be because nobody can: where untrained "
    "networks with search already play well, perfect play scores too little against them. A ratio "
    "of times to converge is over the seeds in which both did, which flatters whoever fails when "
    "it is hard; read it with that of steps: where steps are equal it is the ratio of step times. "
    f"An estimate is not resolved where its interval is wider than {WIDEST_ELO:.0f} Elo, than "
    f"{WIDEST_SHARE:.0%} of the points, or than a factor of {WIDEST_RATIO:.0f}. Elo is relative to "
    "the last checkpoint of the first algorithm of a table, on its first side where the sides are "
    "rated apart. The runs of a seed took turns, but for those that a later command added and for "
    "alphazero-seconds, whose simulations were measured by the others: these came after them, so "
    "that a machine that has changed meanwhile is in their ratios."
)


class Section(NamedTuple):
    """A comparison in a game: its title, sentences, tables, and the picture's path from here."""

    title: str
    sentences: list[str]
    tables: list[Table]
    picture: str


def write_report(report: dict[str, Any], folder: Path) -> list[Path]:
    """Writes `report.json`, the pictures, `report.md` and `report.html`; returns these files.

    The HTML page is complete in itself.

    Args:
      report: `size`; optionally `notes`, paragraphs that stand first; under `sessions` the
        command, machine and versions of every session that a game was played in; of each game and
        comparison under `games` what `summarize` returns.
      folder: where.
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
            sentences = [seeds, *explain(summary), *explain_convergence(summary, pairs)]
            yield Section(title, sentences, tables, picture)


def _preamble(report: dict[str, Any]) -> list[str]:
    rules = "; ".join(f"{name}: {text}" for name, text in RULES.items())
    evaluated = Size(**report["size"]).evaluated
    return [
        *report.get("notes", []),
        *_describe_sessions(report["sessions"]),
        f"Size: {_list(report['size'])}.",
        f"Paper: {SOURCE}.",
        _NOTE,
        f"Rules of convergence: {rules}. Checkpoints play after steps "
        f"{', '.join(map(str, evaluated))}; {say_latest(evaluated)}.",
    ]


def _describe_sessions(sessions: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Says by which commands games were played, on which machine; sessions alike once."""
    games: dict[str, list[str]] = {}
    for game, rows in sessions.items():
        for row in rows:
            told = f"{row['command']}. Machine: {_list(row['machine'])}"
            games.setdefault(told, []).append(game)
    return [f"Command ({', '.join(names)}): {told}." for told, names in games.items()]


def _list(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def say_latest(evaluated: tuple[int, ...]) -> str:
    """Says when a rule of several evaluations in a row can be met at the latest."""
    later = [step for step in evaluated if step > 0]
    if len(later) < IN_A_ROW:
        return f"that is never {IN_A_ROW} in a row after the start"
    return f"{IN_A_ROW} in a row begin at step {later[-IN_A_ROW]} at the latest"


def to_markdown(report: dict[str, Any], sections: list[Section]) -> str:
    """Writes the report as Markdown, with the pictures beside it."""
    lines = [f"# {_TITLE}", ""]
    for paragraph in _preamble(report):
        lines += [paragraph, ""]
    for section in sections:
        lines += [f"## {section.title}", "", f"![{section.title}]({section.picture})", ""]
        for sentence in section.sentences:
            lines += [sentence, ""]
        for table in section.tables:
            rows = [table.head, ("---",) * len(table.head), *table.rows]
            lines += [f"**{table.title}**", "", *(f"| {' | '.join(row)} |" for row in rows), ""]
    return "\n".join(lines)


def to_html(report: dict[str, Any], sections: list[Section], folder: Path) -> str:
    """Writes the report as one page that needs nothing else."""
    body = [f"<h1>{_TITLE}</h1>"]
    body += [f"<p>{html.escape(paragraph)}</p>" for paragraph in _preamble(report)]
    for section in sections:
        title = html.escape(section.title)
        data = base64.b64encode((folder / section.picture).read_bytes()).decode()
        body += [
            f"<h2>{title}</h2>",
            f'<img alt="{title}" src="data:image/png;base64,{data}">',
            *(f"<p>{html.escape(sentence)}</p>" for sentence in section.sentences),
            *map(_html_table, section.tables),
        ]
    head = f'<meta charset="utf-8"><title>{_TITLE}</title><style>{_STYLE}</style>'
    return (
        f'<!doctype html><html lang="en"><head>{head}</head><body>{"".join(body)}</body></html>\n'
    )


def _html_table(table: Table) -> str:
    def row(cells: tuple[str, ...], tag: str) -> str:
        return f"<tr>{''.join(f'<{tag}>{html.escape(x)}</{tag}>' for x in cells)}</tr>"

    rows = "".join(row(cells, "td") for cells in table.rows)
    return f"<h3>{html.escape(table.title)}</h3><table>{row(table.head, 'th')}{rows}</table>"


_STYLE = (
    "body{font:16px/1.5 sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:.2rem .6rem;"
    "text-align:right}td:first-child,th:first-child{text-align:left}img{max-width:100%}"
)
