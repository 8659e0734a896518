"""Reads the Markdown documents: their code blocks, commands, tables and sections."""

import pathlib
import re
from typing import NamedTuple

ROOT = pathlib.Path(__file__).parents[1]
PAGES = [
    "README.md",
    "benchmarks/README.md",
    *(str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("docs/*.md"))),
    *(str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("docs/tutorials/*.md"))),
]
# Also the cells of a notebook, such as ```{code-cell} python.
_FENCE = re.compile(r"^```(?:\{[\w-]+\} ?)?(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Up to a comment, a quotation mark or a shell redirection.
_COMMAND = re.compile(
    r"(python -m benchmarks\.[a-z_]+|python train\.py|(?<![\w/.-])dualmctx [a-z-]+)(?![\w.])"
    r"([^#'|;<>]*)"
)
# Replacements for placeholders.
_EXAMPLES = {r"\b(NAME|PRESET)\b": "hsr", r"\$\w+_SIZE": "2", r"\$\w+": "1"}


class Command(NamedTuple):
    """A command of a page: the program and its arguments."""

    page: str
    program: str
    arguments: str


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def code_blocks(text: str, language: str) -> list[str]:
    """Returns the code blocks of a text in one language."""
    return [code for found, code in _FENCE.findall(text) if found == language]


def blocks(page: str, language: str) -> list[str]:
    """Returns the code blocks of a page in one language."""
    return code_blocks(read(page), language)


def shell_lines(page: str) -> list[str]:
    """Returns the lines of all shell blocks, without comments; continued lines are joined."""
    text = "".join(blocks(page, "sh")).replace("\\\n", " ")
    return [line.split("#")[0].strip() for line in text.splitlines()]


def commands(pages: list[str]) -> list[Command]:
    """Returns the commands of pages, from shell blocks and inline code."""
    found: dict[Command, None] = {}
    for page in pages:
        prose = _FENCE.sub("", read(page))
        spans = [" ".join(x.split()) for x in re.findall(r"`([^`]+)`", prose)]
        for words in (*shell_lines(page), *spans):
            for program, arguments in _COMMAND.findall(words):
                filled = arguments.strip()
                for pattern, text in _EXAMPLES.items():
                    filled = re.sub(pattern, text, filled)
                found[Command(page, program, filled)] = None
    return list(found)


def table(page: str, first_columns: str) -> list[dict[str, str]]:
    """Returns the rows of the table whose heading starts with these columns."""
    lines = iter(read(page).splitlines())
    heading = next(line for line in lines if line.startswith(f"| {first_columns} |"))
    names = [cell.strip() for cell in heading.strip("|").split("|")]
    next(lines)
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        cells = (cell.strip() for cell in line.strip("|").split("|"))
        rows.append(dict(zip(names, cells, strict=True)))
    return rows


def section(page: str, heading: str) -> str:
    """Returns the text below a second-level heading."""
    return read(page).split(f"## {heading}\n")[1].split("\n## ")[0]
