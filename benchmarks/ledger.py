"""The ledger: a file for each measurement, and the tables of documents that show them.

`--json benchmarks/results/NAME.json` of a benchmark writes a measurement: its `command`, `date` and
`commit`, the `environment`, and its `rows`. Further entries hold other numbers. `stated` holds
those that sentences state and that are not in the rows, such as ranges over several runs. For
measurements that are older than the ledger, the files have what documents gave; `None` is unknown.

A document shows a measurement between two marks, with a line that says how it was measured. The
first mark may name columns of the rows, with `_` for spaces; `engine.one_root` names other rows of
the same file, without that line. `python -m benchmarks.ledger` writes all blocks anew:

    <!-- ledger engine: B N A rule ratio -->
    <!-- /ledger -->

Sentences may state numbers of the measurements that their section shows or links to (the file, or
the section of docs/results.md with its name): `find_unknown` finds the others. Numbers in code are
settings.
"""

import argparse
import datetime
import json
import pathlib
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.common import as_dicts, get_environment
from dualmctx.reports.table import Table

ROOT = pathlib.Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGES = ("results", "gpu", "findings", "search", "which-search", "training", "commands", "play")
PAGES += ("compare", "datasets", "evaluate", "pipeline", "pipeline-results", "reproduce")
DOCUMENTS = ("README.md", "dualmctx/README.md", *(f"docs/{page}.md" for page in PAGES))
"""The documents that state measured numbers."""
Row = Mapping[str, Any]

_BLOCK = re.compile(
    r"(<!-- ledger (\w+)(?:\.(\w+))?(?:: ([\w ]+))? -->\n).*?(<!-- /ledger -->)", re.DOTALL
)
_LINK = re.compile(r"(?:benchmarks/results/(\w+)\.json|\bresults\.md#(\w+))\)")
_NO_PROSE = re.compile(
    r"<!-- ledger .*?<!-- /ledger -->|^```.*?^```|`[^`]*`|\]\([^)]*\)|\d{4}-\d\d-\d\d",
    re.DOTALL | re.MULTILINE,
)
_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?!\w|\.\d)")
# What makes a number a measured one, beside a decimal point.
_UNIT = re.compile(r"\s?(?:×(?!\s?\d)|%|± |µs|ms\b|s\b|MiB|GB/s|points\b|Elo\b)")
# The confidence of intervals.
_LEVEL = 0.95
_ORIGIN = ("date", "commit", "environment")
NO_MEASUREMENTS = "<!-- no measurements -->"
"""Marks a section whose numbers were not measured, such as predictions."""


def write_measurement(file: pathlib.Path | None, rows: Sequence[Any], **more: Any) -> None:
    """Writes a measurement, if a file is given.

    Args:
      file: the file.
      rows: the rows of its table: named tuples, or dictionaries of JSON values.
      **more: further entries, JSON values.
    """
    if file is None:
        return
    spec = sys.modules["__main__"].__spec__
    program = f"python -m {spec.name}" if spec else pathlib.Path(sys.argv[0]).name
    given = [x for x in sys.argv[1:] if x not in ("--json", str(file))]
    content = {
        "command": f"{program} {shlex.join(given)}".strip(),
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "commit": find_commit(),
        "environment": get_environment(),
        **more,
        "rows": as_dicts(rows),
    }
    file.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def find_commit() -> str | None:
    """Returns the commit of the code, with `-dirty` if it was changed; `None` without git."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude", "*"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return found.stdout.strip()


def read(name: str) -> dict[str, Any]:
    """Reads a measurement."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def render(text: str) -> str:
    """Returns a document with its blocks written anew."""

    def fill(found: re.Match[str]) -> str:
        begin, name, entry, columns, end = found.groups()
        result = read(name)
        rows = [{x.replace(" ", "_"): y for x, y in row.items()} for row in result[entry or "rows"]]
        names = columns.split() if columns else [*dict.fromkeys(x for row in rows for x in row)]
        lines = [tuple(_show(row.get(x)) for x in names) for row in rows]
        table = Table("", tuple(x.replace("_", " ") for x in names), lines).to_markdown()
        return "\n".join([f"{begin}{table}", *([] if entry else ["", provenance(result)]), end])

    return _BLOCK.sub(fill, text)


def _show(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return ", ".join(map(_show, value))
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return re.sub(r"(?<!\S)-(?=\d)", "−", f"{value:,}" if is_number else str(value))


def provenance(result: Row) -> str:
    """Returns when, where and how a measurement was made.

    A program that is no longer here is named without `python -m`.
    """
    environment, command = result["environment"], result["command"]
    module = re.match(r"python -m benchmarks\.(\w+)", command)
    if module and not (ROOT / "benchmarks" / f"{module[1]}.py").exists():
        command = command.removeprefix("python -m ")
    names = ("device", "cpu_cores", "python", "jax", "mctx", "load")
    titles = ("{}", "CPU cores: {}", "Python {}", "JAX {}", "mctx {}", "{}")
    known = zip(titles, map(environment.get, names), strict=True)
    where = ", ".join(title.format(x) for title, x in known if x is not None)
    commit = f"commit {result['commit']}" if result["commit"] else "commit not recorded"
    return f"*Measured* {result['date']}, {commit}: `{command}` ({where})."


def numbers_of(value: Any) -> Iterator[float]:
    """Yields all numbers of JSON values, those in texts too."""
    if isinstance(value, dict | list):
        for x in value.values() if isinstance(value, dict) else value:
            yield from numbers_of(x)
    elif isinstance(value, str):
        yield from (float(x.replace(",", "")) for x in _NUMBER.findall(value))
    elif value is not None:
        yield abs(float(value))


def find_unknown(text: str) -> list[str]:
    """Returns the measured numbers of a document that no measurement of their section has.

    A number is measured if it has a decimal point or a unit. It may be rounded, and a share may be
    a percentage.
    """
    return [
        x for section in re.split(r"^(?=## )", text, flags=re.MULTILINE) for x in _check(section)
    ]


def _check(section: str) -> Iterator[str]:
    if NO_MEASUREMENTS in section:
        return
    names = dict.fromkeys(x[1] for x in _BLOCK.findall(section))
    names |= dict.fromkeys(x or y for x, y in _LINK.findall(section))
    contents = ({x: y for x, y in read(name).items() if x not in _ORIGIN} for name in names)
    known = [_LEVEL, *(number for content in contents for number in numbers_of(content))]
    prose = _NO_PROSE.sub(" ", section)
    for found in _NUMBER.finditer(prose):
        digits = found[0].replace(",", "").partition(".")[2]
        before, after = prose[: found.start()], prose[found.end() :]
        if not (digits or _UNIT.match(after) or before.endswith("± ")):
            continue
        value, half = float(found[0].replace(",", "")), 0.5001 * 10 ** -len(digits)
        if not any(abs(scale * x - value) <= half for x in known for scale in (1, 100)):
            yield f"{section.splitlines()[0]}: {found[0]}"


def main(arguments: list[str] | None = None) -> None:
    """Writes the blocks of all documents anew, and names the numbers that no measurement has."""
    argparse.ArgumentParser(description=main.__doc__).parse_args(arguments)
    for name in DOCUMENTS:
        file = ROOT / name
        text = render(file.read_text(encoding="utf-8"))
        file.write_text(text, encoding="utf-8")
        for found in find_unknown(text):
            print(f"{name}: {found}")


if __name__ == "__main__":
    main()
