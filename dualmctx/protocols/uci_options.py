"""The options of the Universal Chess Interface that a session offers."""

import dataclasses
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from dualmctx.errors import UserError

_MILLISECONDS = 1000
_MAX_LINES = 500
_MAX_OVERHEAD = 5000


@dataclasses.dataclass
class UciOptions:
    """The values of the options.

    Attributes:
      lines: the largest number of lines in an analysis.
      has_statistics: whether the statistics of all moves follow each search.
      has_wdl: whether scores have the chances to win, draw and lose.
      overhead: seconds of a move that pass outside of the search.
      simulations: the simulations of a search without limits; its trees have a limit of their own.
      has_budget: whether they are also a limit under a clock.
    """

    lines: int = 1
    has_statistics: bool = False
    has_wdl: bool = True
    overhead: float = 0.05
    simulations: int = 1
    has_budget: bool = False


class _Option(NamedTuple):
    """An option: its name, its declaration, and a function that sets it from text."""

    name: str
    declaration: str
    apply: Callable[[str], Any]


class OptionTable:
    """The options by name."""

    def __init__(
        self, values: UciOptions, max_simulations: int, clear: Callable[[], None], variant: str
    ) -> None:
        """Takes the values, whose fields are set.

        Args:
          values: the values.
          max_simulations: the largest value of `Simulations`.
          clear: drops the kept trees.
          variant: the name of the variant of chess; empty for chess.
        """

        def set_overhead(number: int) -> None:
            values.overhead = number / _MILLISECONDS

        def set_simulations(number: int) -> None:
            values.simulations, values.has_budget = number, True

        def setter(name: str) -> Callable[[Any], None]:
            return lambda value: setattr(values, name, value)

        overhead = round(values.overhead * _MILLISECONDS)
        options = [
            _spin("MultiPV", values.lines, 1, _MAX_LINES, setter("lines")),
            _check("VerboseMoveStats", values.has_statistics, setter("has_statistics")),
            _check("UCI_ShowWDL", values.has_wdl, setter("has_wdl")),
            _check("Ponder", False, lambda value: None),
            _spin("Move Overhead", overhead, 0, _MAX_OVERHEAD, set_overhead),
            _spin("Simulations", values.simulations, 1, max_simulations, set_simulations),
            _Option("Clear Hash", "type button", lambda text: clear()),
        ]
        if variant:
            declaration = f"type combo default {variant} var {variant}"
            options.append(
                _Option("UCI_Variant", declaration, lambda text: _require(text, variant))
            )
        self._options = {option.name.lower(): option for option in options}

    def declarations(self) -> list[str]:
        """Returns the lines that declare the options."""
        return [f"option name {x.name} {x.declaration}" for x in self._options.values()]

    def set(self, name: str, value: str) -> None:
        """Sets an option; raises a `UserError` if there is none, or the value is wrong."""
        option = self._options.get(name.lower())
        if option is None:
            known = ", ".join(x.name for x in self._options.values())
            raise UserError(f"there is no option {name[:40]!r}; the options are {known}")
        try:
            option.apply(value)
        except UserError as error:
            raise UserError(f"{option.name} is {value[:40]!r}; it must be {error}") from None


def _spin(name: str, default: int, least: int, most: int, apply: Callable[[int], None]) -> _Option:
    def parse(text: str) -> None:
        if not re.fullmatch("[0-9]{1,10}", text) or not least <= int(text) <= most:
            raise UserError(f"a whole number from {least} to {most}")
        apply(int(text))

    return _Option(name, f"type spin default {default} min {least} max {most}", parse)


def _check(name: str, default: bool, apply: Callable[[bool], None]) -> _Option:
    def parse(text: str) -> None:
        if text.lower() not in ("true", "false"):
            raise UserError("true or false")
        apply(text.lower() == "true")

    return _Option(name, f"type check default {str(default).lower()}", parse)


def _require(text: str, variant: str) -> None:
    if text.lower() != variant:
        raise UserError(variant)
