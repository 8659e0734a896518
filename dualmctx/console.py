"""Output for people: text from files cannot change the terminal."""

import re
from collections.abc import Iterable
from typing import IO, Any

import rich.console
from rich.segment import Segment


def printable(text: str, keep: str = "") -> str:
    r"""Escapes the characters that a terminal does not show, as in JSON: ESC becomes `\u001b`.

    These are control characters, among them those of escape sequences, and characters that change
    the direction of the text, have no width, or are not valid Unicode.

    Args:
      text: the text.
      keep: characters that are kept nevertheless.
    """
    if text.isprintable():
        return text
    return "".join(x if x.isprintable() or x in keep else _escape(x) for x in text)


def _escape(character: str) -> str:
    code = character.encode("utf-16-be", "surrogatepass").hex()
    return re.sub("....", r"\\u\g<0>", code)


class PrintableStream:
    """A text stream that writes printable text, line breaks and tabs to another one.

    Attributes:
      unfiltered: the other stream, for programs that move the cursor themselves.
    """

    def __init__(self, stream: IO[str]) -> None:
        self.unfiltered = stream

    def write(self, text: str, /) -> int:
        """Writes text; returns its length."""
        self.unfiltered.write(printable(text, "\n\t"))
        return len(text)

    def writelines(self, lines: Iterable[str], /) -> None:
        """Writes texts."""
        for line in lines:
            self.write(line)

    def isatty(self) -> bool:
        """Returns false: escape sequences do not pass, so libraries should not send any."""
        return False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unfiltered, name)


def unfiltered(stream: Any) -> Any:
    """Returns the stream behind a `PrintableStream`; others are returned unchanged."""
    return stream.unfiltered if isinstance(stream, PrintableStream) else stream


class Console(rich.console.Console):
    """rich's console: the text is printable, and only rich's own sequences reach the terminal."""

    @property
    def file(self) -> IO[str]:
        """The stream that rich writes to."""
        return unfiltered(super().file)

    @file.setter
    def file(self, new_file: IO[str]) -> None:
        self._file = new_file

    def render(
        self,
        renderable: rich.console.RenderableType,
        options: rich.console.ConsoleOptions | None = None,
    ) -> Iterable[Segment]:
        """Renders an object, with printable text."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield segment._replace(text=printable(segment.text, "\n"))
