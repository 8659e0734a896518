"""`dualmctx serve CHECKPOINT`: another program sends positions, line by line, and gets answers."""

import collections
import dataclasses
import sys
from typing import Annotated

import jax

from dualmctx.commands.flags import REQUIRED, Positional, Unprefixed, named, parse_flags
from dualmctx.commands.search_options import SearchFlags, load_search
from dualmctx.commands.source import open_standard_input
from dualmctx.evaluation.answers import answer
from dualmctx.evaluation.positions_file import Question, read_json_lines
from dualmctx.evaluation.results_file import to_line
from dualmctx.evaluation.streams import waiting_batches

_PROGRAM = "dualmctx serve"
_DESCRIPTION = """Answers positions until the input ends: reads JSON lines from standard input and
writes JSON lines to standard output, each with the id that was asked, what is wrong as an error.
Answers may come in another order than the questions. A batch begins when it is full or nothing
further is waiting. docs/evaluate.md has the fields."""


@dataclasses.dataclass(frozen=True)
class Options:
    """Who answers."""

    checkpoint: Positional[Annotated[str, named(metavar="CHECKPOINT")]] = REQUIRED
    """A run's folder, an exported .npz file, or the name of a network that comes with dualmctx."""
    batch: int = 16
    """Positions that are evaluated at once; each batch takes as long as a full one."""
    search: Unprefixed[SearchFlags] = dataclasses.field(default_factory=SearchFlags)
    """The search."""


def main(arguments: list[str]) -> int:
    """Runs the command; returns its exit code."""
    options = parse_flags(Options(), arguments, _PROGRAM, _DESCRIPTION)
    evaluator, _ = load_search(options.checkpoint, options.search, options.batch)
    # Whatever compiles does it before the first question.
    collections.deque(answer(evaluator, [[Question(0, "ready")]]), maxlen=0)
    devices = jax.local_devices()[: options.search.devices]
    print(f"{_PROGRAM}: ready, {evaluator.game} on {devices[0].device_kind}", file=sys.stderr)
    questions = read_json_lines(open_standard_input())
    for answered in answer(evaluator, waiting_batches(questions, options.batch)):
        sys.stdout.buffer.writelines(map(to_line, answered.rows))
        sys.stdout.buffer.flush()
    return 0
