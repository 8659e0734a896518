"""`dualmctx serve CHECKPOINT`: evaluates positions that another program sends line by line."""

import collections
import dataclasses
import sys
from typing import Annotated

import jax

from dualmctx.commands.flags import REQUIRED, Positional, Unprefixed, named, parse_flags
from dualmctx.commands.garbage_collection import rare_collections
from dualmctx.commands.search_options import SearchFlags, load_search
from dualmctx.commands.source import open_standard_input
from dualmctx.distributed.backend import require_backend
from dualmctx.evaluation.answers import answer
from dualmctx.evaluation.positions_file import Question, read_json_lines
from dualmctx.evaluation.results_file import to_line
from dualmctx.evaluation.streams import waiting_batches

_PROGRAM = "dualmctx serve"
_DESCRIPTION = """Evaluates positions until the input ends. Reads JSON Lines from standard input and
writes JSON Lines to standard output, each with the id of its position and a result or an error.
Results may arrive in a different order than the positions. A batch starts when it is full or when
no further position is waiting. docs/evaluate.md describes the fields."""


@dataclasses.dataclass(frozen=True)
class Options:
    """The network and the search."""

    checkpoint: Positional[Annotated[str, named(metavar="CHECKPOINT")]] = REQUIRED
    """A run folder, an exported .npz file, or the name of a network shipped with dualmctx."""
    batch: int = 16
    """Number of positions evaluated at once; a partial batch takes as long as a full one."""
    search: Unprefixed[SearchFlags] = dataclasses.field(default_factory=SearchFlags)
    """The search."""


def main(arguments: list[str]) -> int:
    """Runs the command; returns its exit code."""
    options = parse_flags(Options(), arguments, _PROGRAM, _DESCRIPTION)
    require_backend(_PROGRAM)
    evaluator, _ = load_search(options.checkpoint, options.search, options.batch)
    # Compiles everything before the first position arrives.
    collections.deque(answer(evaluator, [[Question(0, "ready")]]), maxlen=0)
    devices = jax.local_devices()[: options.search.devices]
    print(f"{_PROGRAM}: ready, {evaluator.game} on {devices[0].device_kind}", file=sys.stderr)
    questions = read_json_lines(open_standard_input())
    with rare_collections():
        for answered in answer(evaluator, waiting_batches(questions, options.batch)):
            sys.stdout.buffer.write(b"".join(map(to_line, answered.rows)))
            sys.stdout.buffer.flush()
    return 0
