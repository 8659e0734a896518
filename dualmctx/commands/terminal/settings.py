"""The settings of a session in the terminal: the sides, the search, its budget and temperature."""

import dataclasses

from dualmctx.errors import UserError

_MAX_TEMPERATURE = 10.0


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings that a person may change.

    Attributes:
      people: the sides that people play; side 0 moves first.
      variant: the search; `None` for the one of the command line.
      simulations: simulations per move, one number for all trees or one for each tree; `None` for
        those of the search.
      temperature: moves are sampled from weight^(1 / temperature); 0 for the best move.
    """

    people: tuple[int, ...] = (0,)
    variant: str | None = None
    simulations: tuple[int, ...] | None = None
    temperature: float = 0.0


def read_simulations(text: str, most: int) -> int:
    """Reads a number of simulations; raises a ValueError if it is not from 0 to `most`."""
    is_number = text.isascii() and text.isdecimal()
    # Python refuses to convert very long numbers.
    if not is_number or len(text.lstrip("0")) > 9 or int(text) > most:
        raise UserError(f"{text[:40]!r}: give a whole number of at most {most}.")
    return int(text)


def read_temperature(text: str) -> float:
    """Reads a temperature; raises a ValueError if it is not a number from 0 to 10."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= _MAX_TEMPERATURE:
        raise UserError(f"temperature {text[:40]!r}: give a number from 0 to 10.")
    return value
