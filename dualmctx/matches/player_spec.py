"""The specifications of players and searches on the command line.

A player is `[NAME=][CHECKPOINT[@ITERATION]+]SEARCH[:paper][:OPTION=VALUE ...]`, or
`[NAME=]PROTOCOL:[OPTION=VALUE: ...]COMMAND` for a program that speaks a protocol, gtp or uci. A
search is `SEARCH[:paper][:OPTION=VALUE ...]`.
"""

import dataclasses
import re
from typing import Self

from dualmctx.checks import MAX_COUNT
from dualmctx.errors import UserError

OWN, POLICY = "own", "policy"
PAPER = "paper"
RANDOM, PERFECT, OPENSPIEL = "random", "perfect", "openspiel"
GTP, UCI = "gtp", "uci"
PROTOCOLS = (GTP, UCI)
NETWORKLESS = (RANDOM, PERFECT, OPENSPIEL, *PROTOCOLS)
NEWEST = "newest"
# A command may have = and : too, but hardly begins like this and goes on after a colon.
_PROGRAM_OPTION = re.compile(r"[\w. ]+=")
# Python refuses to convert very long texts to numbers.
_MAX_DIGITS = 10


@dataclasses.dataclass(frozen=True)
class PlayerSpec:
    """The specification of a player.

    Attributes:
      name: name of the player in results; by default the whole specification.
      search: a variant of the registry; `own`, the search with which the network was trained;
        `policy`, the network without a search; or one of `NETWORKLESS`.
      checkpoint: a run folder, an exported file or a shipped network; `None` for the default.
      iteration: iteration of the checkpoint; `None` for the newest.
      simulations: simulations per move, one number for each tree.
      options: options of the search, `(name, value)` as text.
      paper: whether the options start from the setting of the search's paper.
      command: the command of a program.
    """

    name: str
    search: str
    checkpoint: str | None = None
    iteration: int | None = None
    simulations: tuple[int, ...] | None = None
    options: tuple[tuple[str, str], ...] = ()
    paper: bool = False
    command: str = ""

    def without_budget(self) -> Self:
        """Returns the specification without its name and simulations."""
        return dataclasses.replace(self, name="", simulations=None)


def parse_player(text: str) -> PlayerSpec:
    """Parses the specification of a player; raises a `UserError` if the syntax is wrong."""
    try:
        return _parse(text)
    except UserError as error:
        raise UserError(f"player {text!r}: {error}") from None


def _parse(text: str) -> PlayerSpec:
    head, *parts = text.split(":")
    name, head = head.split("=", 1) if "=" in head else (text, head)
    source, search = head.rsplit("+", 1) if "+" in head else (None, head)
    if not name or not search or source == "":
        raise UserError("write [NAME=][CHECKPOINT[@ITERATION]+]SEARCH[:paper][:OPTION=VALUE ...]")
    if source is not None and search in NETWORKLESS:
        raise UserError(f"{search} plays without a network; remove {source}+")
    if search in PROTOCOLS:
        return _parse_program(name, search, parts)
    checkpoint, iteration = (None, None) if source is None else _split_source(source)
    simulations, options = _parse_options([part for part in parts if part != PAPER])
    if parts.count(PAPER) > 1:
        raise UserError(f"{PAPER} is given twice")
    return PlayerSpec(
        name=name,
        search=search,
        checkpoint=checkpoint,
        iteration=iteration,
        simulations=simulations,
        options=options,
        paper=PAPER in parts,
    )


def _parse_program(name: str, protocol: str, parts: list[str]) -> PlayerSpec:
    """Parses the options and the command of a program, which begins after the last option."""
    at = next((i for i, x in enumerate(parts[:-1]) if not _PROGRAM_OPTION.match(x)), len(parts) - 1)
    command = ":".join(parts[at:]).strip()
    if not command:
        raise UserError(f"write [NAME=]{protocol}:[OPTION=VALUE: ...]COMMAND")
    options = tuple(_split_option(part, is_own=False) for part in parts[:at])
    if len(dict(options)) < len(options):
        raise UserError("an option is given twice")
    return PlayerSpec(name, protocol, options=options, command=command)


def parse_search(text: str) -> PlayerSpec:
    """Parses the specification of a search: a player without a name and a checkpoint."""
    try:
        if not text or text[0] == ":" or {"=", "+"} & {*text.split(":")[0]}:
            raise UserError("write SEARCH[:paper][:OPTION=VALUE ...], such as dual:num_rounds=10")
        return _parse(text)
    except UserError as error:
        raise UserError(f"variant {text!r}: {error}") from None


def _parse_options(
    parts: list[str],
) -> tuple[tuple[int, ...] | None, tuple[tuple[str, str], ...]]:
    """Returns the simulations, and the other options as pairs of texts."""
    options = dict(map(_split_option, parts))
    if len(options) < len(parts):
        raise UserError("an option is given twice")
    simulations = options.pop("simulations", None)
    parsed = None if simulations is None else _parse_simulations(simulations)
    return parsed, tuple(options.items())


def _split_source(source: str) -> tuple[str, int | None]:
    checkpoint, _, iteration = source.partition("@")
    if iteration in ("", NEWEST):
        return checkpoint, None
    if not _is_count(iteration):
        raise UserError(f"the iteration is {iteration}; it must be a number or {NEWEST}")
    return checkpoint, int(iteration)


def _split_option(part: str, *, is_own: bool = True) -> tuple[str, str]:
    """Splits the text of an option; names of own options may be written with hyphens."""
    name, _, value = part.partition("=")
    if not name or not value:
        others = f", or {PAPER}" if is_own else ""
        raise UserError(f"option {part!r} must be OPTION=VALUE{others}")
    return name.replace("-", "_") if is_own else name, value


def _parse_simulations(value: str) -> tuple[int, ...]:
    numbers = value.split(",")
    if not all(map(_is_count, numbers)) or not any(map(int, numbers)):
        raise UserError(
            f"simulations is {value}; it must be a number, or one number per tree, with commas"
        )
    return tuple(map(int, numbers))


def _is_count(text: str) -> bool:
    """Returns whether a text is a whole number that arrays can store, at least 0."""
    return text.isdecimal() and len(text) <= _MAX_DIGITS and int(text) <= MAX_COUNT
