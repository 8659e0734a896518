"""The state of a file of results: its settings, its rows so far, and whether it is complete."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from dualmctx.errors import UserError
from dualmctx.evaluation.fields import Row
from dualmctx.runs.atomic_io import atomic_write_text, checksum_of, require_unchanged
from dualmctx.runs.folder import flatten, list_changes


class Counts(NamedTuple):
    """The number of rows, and the number of rows that are errors."""

    rows: int
    errors: int

    def add(self, rows: list[Row]) -> "Counts":
        """Returns the counts including additional rows."""
        errors = sum("error" in row for row in rows)
        return Counts(self.rows + len(rows), self.errors + errors)


class Finished(NamedTuple):
    """The counts of a complete file of results, and its checksum."""

    rows: int
    errors: int
    file: dict[str, Any]


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

        Raises:
          UserError: if the results exist and `resume` is false, they were started with different
            settings, or they were complete and have been changed.
        """
        if self._cannot_resume():
            self._settings_file.unlink()
        if not resume and (self.path.exists() or self._settings_file.exists()):
            raise UserError(
                f"out is {self.path}, which exists or is incomplete; choose another file, or "
                "continue with --resume"
            )
        if not resume or not self._settings_file.exists():
            if self.path.exists():
                raise UserError(
                    f"{self.path} cannot be resumed without {self._settings_file.name}; choose "
                    "another file"
                )
            self.part.unlink(missing_ok=True)
            self._write({"settings": self.settings})
            return
        saved, finished = self._read()
        changes = list_changes(flatten(saved), flatten(self.settings))
        if changes:
            raise UserError(
                f"{self.path} was started with different settings: {changes}; choose another file"
            )
        if finished is not None and self.path.exists():
            remedy = "remove it, and --resume evaluates the positions again"
            require_unchanged(self.path, finished.file, remedy)
            # A kill may have left the part of complete results.
            self.part.unlink(missing_ok=True)

    def finished(self) -> Counts | None:
        """Returns the counts of the complete file, or `None` if it is incomplete or was removed."""
        finished = self._read()[1] if self.path.exists() else None
        return finished and Counts(finished.rows, finished.errors)

    def finish(self, counts: Counts) -> None:
        """Writes the counts and the checksum of the complete file, and removes the part."""
        finished = Finished(*counts, checksum_of(self.path))
        self._write({"settings": self.settings, "finished": finished._asdict()})
        self.part.unlink(missing_ok=True)

    def _cannot_resume(self) -> bool:
        """Returns whether the results cannot be resumed, because the input was standard input."""
        if self.path.exists() or not self._settings_file.exists():
            return False
        return self._read()[0].get("positions", "") is None

    @property
    def _settings_file(self) -> Path:
        return self.path.with_name(f"{self.path.name}.settings.json")

    def _read(self) -> tuple[dict[str, Any], Finished | None]:
        file = self._settings_file
        try:
            content = json.loads(file.read_text())
            finished = content.get("finished")
            settings = dict(content["settings"])
            return settings, None if finished is None else Finished(**finished)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            reason = f"{type(error).__name__}: {error}".split("\n")[0]
            raise UserError(
                f"{file} cannot be read ({reason}); remove it and start again"
            ) from error

    def _write(self, content: dict[str, Any]) -> None:
        atomic_write_text(self._settings_file, json.dumps(content, indent=2) + "\n")
