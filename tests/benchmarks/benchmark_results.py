"""The results that a benchmark writes."""

import json
import pathlib
from typing import Any


def result_of(folder: pathlib.Path, benchmark: Any, *arguments: str) -> Any:
    """Runs a benchmark; returns the content of its `--json` file."""
    file = folder / "rows.json"
    benchmark.main([*arguments, "--json", str(file)])
    return json.loads(file.read_text())
