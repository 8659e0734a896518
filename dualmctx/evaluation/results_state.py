"""The rows of results so far: their settings, the part that a kill leaves, the complete file."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from dualmctx.errors import UserError
from dualmctx.game_files.questions import Row
from dualmctx.runs.atomic_io import atomic_write_text, checksum_of, require_unchanged
from dualmctx.runs.folder import list_changes


class Counts(NamedTuple):
    """The number of rows, and the number of rows that are errors."""

    rows: int
    errors: int

    def add(self, rows: list[Row]) -> "Counts":
        """Returns the counts including additional rows."""
        errors = sum("error" in row for row in rows)
        return Counts(self.rows + len(rows), self.errors + errors)


class _Finished(msgspec.Struct):
    """The counts of a complete file of results, and its checksum."""

    rows: int
    errors: int
    file: dict[str, Any]


class _Saved(msgspec.Struct, omit_defaults=True):
    """The content of the file of settings."""

    settings: dict[str, Any]
    finished: _Finished | None = None


class Results(NamedTuple):
    """A file of results with its settings.

    Attributes:
      path: the file of results.
      settings: the settings on which the rows depend, as JSON values. They are saved beside the
        file, in `NAME.settings.json`, and stay there when the file is complete.
    """

    path: Path
    settings: dict[str, Any]

    @property
    def part(self) -> Path:
        """The journal of the rows so far, beside the file; it survives kills and power cuts.

        The results can therefore have any format, even one that cannot be appended to.
        """
        return self.path.with_name(f"{self.path.name}.part")

    def claim(self, *, resume: bool) -> None:
        """Starts or resumes the results.

        Refuses existing results without `resume`, other settings, and a complete file that was
        changed.
        """
        saved = self._read() if self._settings_file.exists() else None
        if saved and not self.path.exists() and saved.settings.get("positions", "") is None:
            # Standard input cannot be read again.
            self._settings_file.unlink()
            saved = None
        if not resume and (saved or self.path.exists()):
            raise UserError(
                f"out is {self.path}, which exists or is incomplete; choose another file, or "
                "continue with --resume"
            )
        if saved is None:
            if self.path.exists():
                raise UserError(
                    f"{self.path} cannot be resumed without {self._settings_file.name}; choose "
                    "another file"
                )
            self.part.unlink(missing_ok=True)
            self._write(_Saved(self.settings))
            return
        changes = list_changes(saved.settings, self.settings)
        if changes:
            raise UserError(
                f"{self.path} was started with different settings: {changes}; choose another file"
            )
        if saved.finished is not None and self.path.exists():
            remedy = "remove it, and --resume evaluates the positions again"
            require_unchanged(self.path, saved.finished.file, remedy)
            # A kill may have left the part of complete results.
            self.part.unlink(missing_ok=True)

    def finished(self) -> Counts | None:
        """Returns the counts of the complete file, or `None` if it is incomplete or was removed."""
        finished = self._read().finished if self.path.exists() else None
        return finished and Counts(finished.rows, finished.errors)

    def finish(self, counts: Counts) -> None:
        """Writes the counts and the checksum of the complete file, and removes the part."""
        self._write(_Saved(self.settings, _Finished(*counts, checksum_of(self.path))))
        self.part.unlink(missing_ok=True)

    @property
    def _settings_file(self) -> Path:
        return self.path.with_name(f"{self.path.name}.settings.json")

    def _read(self) -> _Saved:
        file = self._settings_file
        try:
            return msgspec.json.decode(file.read_bytes(), type=_Saved)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{file} cannot be read ({error}); remove it and start again") from None

    def _write(self, saved: _Saved) -> None:
        text = json.dumps(msgspec.to_builtins(saved), indent=2) + "\n"
        atomic_write_text(self._settings_file, text)
